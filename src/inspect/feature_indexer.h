// Makes an index of features (inspect/feature_index.h) window by window. While it does, the folder has a folder
// `unfinished`; a job that was killed goes on where `unfinished/progress.safetensors` says, and writes the same bytes.
//
//   contexts-N.bin    the contexts of dictionary N that were among the strongest when they came
//   logits-N.bin      the logit weights of its first features, as far as they are computed
//   progress.safetensors   what FeatureRecords keep, and how much of the corpus and of contexts-N.bin that is
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "generate/context.h"
#include "inspect/feature_records.h"

namespace vitrine {

/// A window of a corpus.
struct CorpusWindow {
  std::vector<std::int32_t> ids{};
  std::int64_t next = 0;  ///< Where the next one begins.
};

struct IndexOptions {
  std::int64_t contexts = 10;  ///< Of a feature.
  Json settings;               ///< What the index depends on, apart from values of the model; a part of its files.
  /// The window that begins at a token of the corpus.
  std::function<CorpusWindow(std::int64_t start)> window_at{};
  std::int64_t save_every = 1000;    ///< Windows between savings of the progress.
  std::vector<std::string> texts{};  ///< Of the tokens; empty: not known.
};

/// Where the work on an index is.
std::string unfinished_folder(const std::string& folder);

class FeatureIndexer {
 public:
  /// Goes on with what `folder` has, or begins. Throws BadInput for work with other settings or another model,
  /// BadCheckpoint for damaged files, Unsupported for a model that reads no windows.
  FeatureIndexer(const GenerateContext& context, std::string folder, IndexOptions options);
  FeatureIndexer(const FeatureIndexer&) = delete;
  FeatureIndexer& operator=(const FeatureIndexer&) = delete;
  ~FeatureIndexer();

  const Json& settings() const { return options_.settings; }
  std::int64_t windows() const { return windows_; }  ///< That have been read.
  /// Reads windows up to token `end` of the corpus. Saves the progress before it throws Interrupted.
  void read(std::int64_t end, const ReportProgress& report);
  /// Computes logit weights, writes the files and removes `unfinished`. Throws as read().
  void finish(const ReportProgress& report);

 private:
  struct Sae;
  class Reader;
  std::uint64_t fingerprint() const;
  void load(const std::string& path);
  void save();
  void add_logits(std::size_t number, const ReportProgress& report);
  std::string file(const std::string& name) const { return unfinished_folder(folder_) + "/" + name; }

  GenerateContext context_;
  std::string folder_;
  IndexOptions options_;
  std::vector<AppliedDictionary> reading_;  // none of which changes its site
  std::vector<std::unique_ptr<Sae>> saes_;
  std::uint64_t fingerprint_ = 0;
  std::int64_t next_ = 0, windows_ = 0;
};

}  // namespace vitrine
