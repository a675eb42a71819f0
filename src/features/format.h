// The formats of dictionaries: how each is recognized, and what it reads.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/object_fields.h"
#include "features/tensor_table.h"
#include "pass/dictionary.h"

namespace vitrine {

/// A folder with the files of a dictionary.
class DictionaryFolder {
 public:
  explicit DictionaryFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  bool has(const std::string& file) const;
  std::string path(const std::string& file) const { return (folder_ / file).string(); }
  /// The folder's path without links, `.` and `..`: some formats have their site there.
  std::filesystem::path real_path() const;
  Json json(const std::string& file) const;

 private:
  std::filesystem::path folder_;
};

/// A dictionary of a file, whose sites have the file's names; "": the file does not say.
struct ReadDictionary {
  std::shared_ptr<Dictionary> dictionary = std::make_shared<Dictionary>();
  std::string input{}, output{};
};

/// Reads the keys of a config. Throws BadCheckpoint for a value that is wrong.
class DictionaryConfig : public ObjectFields {
 public:
  DictionaryConfig(const Json& object, std::string where);

  const std::string& where() const { return where_; }
  /// A number of at least 1 that must be there.
  std::int64_t size(std::string_view name);
  std::string required_text(std::string_view name);
  /// Throws if the config states another size than the weights have.
  void check_size(std::string_view name, std::int64_t size);
  /// Throws Unsupported for a flag that is true: it changes the values, and is not read.
  void refuse_flag(std::string_view name);
  /// Throws for a key that none of these functions has named, since it may change the values, unless it is one of
  /// `harmless`: those that name a dictionary or say how it was trained.
  void finish(std::span<const std::string_view> harmless);

 private:
  std::exception_ptr error_of(std::string_view name, const std::string& message) const override;

  const Json& object_;
  std::string where_;
};

struct DictionaryFormat {
  std::string_view name;
  /// The files by which a folder is recognized, all of which it has.
  std::vector<std::string> files;
  std::vector<ReadDictionary> (*read)(const DictionaryFolder& folder);
};

/// In the order in which they are tried.
std::span<const DictionaryFormat> dictionary_formats();

std::vector<ReadDictionary> read_saelens(const DictionaryFolder& folder);
std::vector<ReadDictionary> read_gemma_scope_1(const DictionaryFolder& folder);
std::vector<ReadDictionary> read_gemma_scope_2(const DictionaryFolder& folder);
std::vector<ReadDictionary> read_llama_scope(const DictionaryFolder& folder);
std::vector<ReadDictionary> read_sparsify(const DictionaryFolder& folder);
std::vector<ReadDictionary> read_dictionary_learning(const DictionaryFolder& folder);
std::vector<ReadDictionary> read_circuit_tracer(const DictionaryFolder& folder);

/// The norms of the rows of a decoder, ‖W_dec[i]‖, summed in float64. Throws BadCheckpoint for one that is 0 or not
/// finite.
std::vector<float> norms_of(const Param& decoder, const std::string& where);
/// 1 / each.
std::vector<float> inverse(std::vector<float> values);

}  // namespace vitrine
