// What each feature of a dictionary did in a corpus: its strongest contexts, a histogram of its activations, and the
// tokens that it raises and lowers. A folder has a file SITE.safetensors or SITE.NAME.safetensors for each dictionary,
// which is mapped: opening it reads the header, and a feature only its own part. F features, C contexts, W windows:
//
//   n_active                I64 [F]                  histogram.exponents     I32 [F]
//   histogram.counts        I32 [F, 32]              logits.ids, .weights    I32, F32 [F, 2, K]: top, bottom; or absent
//   contexts.indptr         I64 [F + 1]              contexts.max            F32 [C], by falling value in a feature
//   contexts.values_indptr  I64 [C + 1]              contexts.position, .window  I32 [C]
//   values.position, .value I32, F32: the activations of a context that are not 0
//   windows.start           I64 [W]                  windows.indptr I64 [W + 1], windows.ids I32
//   texts.indptr            I64 [vocabulary + 1]     texts.bytes U8: of each token; or absent
//
// The text `feature_index` of the header's metadata is JSON: {"settings", "sae", "tokens", "windows"}.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "inspect/logit_weights.h"

namespace vitrine {

/// Of all contexts of a feature together.
constexpr std::int64_t kMostShownTokens = std::int64_t{1} << 20;

/// A window of the corpus in which a feature is active.
struct FeatureContext {
  float max = 0;              ///< The largest activation,
  std::int64_t position = 0;  ///< and the first position of `ids` that has it.
  std::int64_t start = 0;     ///< The place of the window in the tokens of the corpus.
  std::vector<std::int32_t> ids{};
  std::vector<float> values{};  ///< An activation for each of `ids`.
};

struct FeatureDashboard {
  std::vector<FeatureContext> contexts{};  ///< The strongest first.
  double density = 0;                      ///< The fraction of the tokens at which the feature is active.
  std::vector<double> edges{};             ///< Of the bins of the histogram: one more than there are bins.
  std::vector<std::int32_t> counts{};      ///< Activations in each bin, which has its lower edge; zeros do not count.
  ExtremeLogits logits{};                  ///< Empty for a dictionary that does not write to the stream.
};

class FeatureIndex {
 public:
  /// Throws BadInput for a file that cannot be read, BadCheckpoint for one that is no index.
  explicit FeatureIndex(const std::string& path);

  const Json& settings() const { return settings_; }
  const Json& sae() const { return sae_; }  ///< {"key","name","site","architecture","d_in","d_sae"}
  std::string key() const;                  ///< SITE or SITE.NAME
  std::int64_t d_sae() const { return d_sae_; }
  std::int64_t tokens() const { return tokens_; }    ///< That count: those at which the dictionary is not skipped.
  std::int64_t windows() const { return windows_; }  ///< Of the corpus.
  std::int64_t dead() const;                         ///< Features that are never active.

  /// Throws BadInput for a feature that the dictionary does not have, BadCheckpoint for numbers that contradict each
  /// other.
  FeatureDashboard dashboard(std::int64_t feature) const;
  /// The bytes of a token, or its piece if it is no text; #ID if the file does not know it.
  std::string text(std::int32_t id) const;

 private:
  struct Column;
  Column column(const std::string& name, const char* type, std::int64_t count) const;
  std::int64_t count_of(const std::string& name) const;
  FeatureContext context(std::int64_t number) const;

  SafetensorsFile file_;
  Json settings_, sae_;
  std::int64_t d_sae_ = 0, tokens_ = 0, windows_ = 0;
  bool is_signed_ = false;
};

/// SITE or SITE.NAME, which no two dictionaries of a model share.
std::string index_key(const Dictionary& dictionary);

using FeatureIndexes = std::vector<std::shared_ptr<const FeatureIndex>>;

/// The indexes of a folder, by name; or the one of a file. Throws BadInput if there are none, and as FeatureIndex does.
FeatureIndexes open_feature_indexes(const std::string& path);

/// The index with this key, or the only one if `key` is "". Throws BadInput, which `where` begins, if there is none.
const FeatureIndex& index_named(const FeatureIndexes& all, const std::string& key, const std::string& where);

/// The index of a dictionary; null if there is none. Throws BadInput for one of another number of features.
const FeatureIndex* index_of(const FeatureIndexes& all, const Dictionary& dictionary);

/// {"contexts":[{"max","position","start","ids","texts","values"}],"density","histogram":{"edges","counts"},
/// "top_logits":[{"id","text","weight"}],"bottom_logits"}
Json dashboard_json(const FeatureIndex& index, const FeatureDashboard& dashboard);

}  // namespace vitrine
