// Prints and writes the vectors of texts: in any precision, as weights of words, or of every token.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "generate/quantize_vectors.h"
#include "generate/text_vectors.h"

namespace vitrine::cli {

/// A value of --precision.
VectorPrecision precision_named(std::string_view name);

struct VectorOutputOptions {
  bool json = false;
  bool is_sparse = false;   ///< Only the weights that are not 0, with their words.
  bool has_tokens = false;  ///< A text has a vector for each token.
  VectorPrecision precision = VectorPrecision::float32;
  VectorRanges ranges{};  ///< Empty: those of all vectors.
  std::string out{};      ///< A .npy file; "": none.
};

class VectorOutput {
 public:
  /// `piece` spells a word of the vocabulary.
  VectorOutput(VectorOutputOptions options, std::function<std::string(std::int32_t)> piece)
      : o_(std::move(options)), piece_(std::move(piece)) {}

  void add(std::vector<std::int32_t> ids, TextVectors vectors);
  /// Prints what had to wait for all vectors, and writes the file. Throws BadInput for ranges of a single vector.
  void finish();

 private:
  struct Text {
    std::vector<std::int32_t> ids;
    TextVectors vectors;
  };

  bool needs_all() const { return has_ranges(o_.precision) && o_.ranges.low.empty(); }
  void show(const Text& text);
  void keep(const TextVectors& vectors);

  VectorOutputOptions o_;
  std::function<std::string(std::int32_t)> piece_;
  std::vector<Text> waiting_;
  std::vector<std::byte> all_;  // of the file
  std::int64_t n_rows_ = 0, width_ = 0;
};

}  // namespace vitrine::cli
