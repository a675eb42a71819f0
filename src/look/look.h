// Everything about one text in one model, on a page that needs nothing else.
//
//   plan_look ─▶ what fits in the size limit, in a fixed order      look_at ─▶ one recorded forward ─▶ the figures'
//   values
//                                                                              page_of ─▶ HTML: index, blocks, program
//
// The page's program is web/, compiled to web/dist, which CMake embeds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/load.h"
#include "generate/context.h"
#include "generate/sampler.h"
#include "inspect/embedding.h"
#include "inspect/feature_index.h"
#include "inspect/integrated_gradients.h"
#include "inspect/recorder.h"
#include "look/data.h"

namespace vitrine {

/// What the figures of the embedding show.
struct LookWords {
  std::vector<std::int32_t> words;     ///< Empty: the text's tokens.
  std::vector<EmbeddingTerm> analogy;  ///< A sum whose nearest tokens are shown; may be empty.
};

/// A second run, whose values have names that begin with `after:`. At most one of both is not empty.
struct LookChange {
  std::vector<std::int32_t> corrupted;  ///< Another text of the same length, also for patching.
  std::vector<SiteWrite> writes;        ///< Changes of values of the same text.

  bool exists() const { return !corrupted.empty() || !writes.empty(); }
};

/// What a page of a model with labels shows.
struct LookLabel {
  LabelChoice choice;
  PathOptions path;
  std::vector<std::int8_t> texts;   ///< Of each token: the text that it is from, 0 or 1; -1: neither.
  std::vector<std::int32_t> types;  ///< Of each token; empty: none.
  Json about;                       ///< Passed on to the page.
};

struct LookOptions {
  std::vector<std::int32_t> ids;
  std::optional<std::int64_t> position;  ///< The followed one; absent: the last.
  LookWords embedding;
  LookChange change;
  std::optional<LookLabel> label{};  ///< Of a model with labels.
  std::vector<std::string> cells;    ///< `SITE[index]`: values to spell, in addition to those of the plan.
  SamplingConfig sampling;
  std::uint64_t seed = 0;
  std::int64_t max_bytes = std::int64_t{16} << 20;
};

/// A part of the page: its bytes are an upper bound, of the values in base64 before compression.
struct LookPart {
  enum class Kind : std::uint8_t { figures, rows, trail, maps, cells, run, sites };

  Kind kind;
  std::string what;
  std::int64_t bytes = 0;
  bool included = false;
  bool exact = true;   ///< False for maps of 8 bits.
  std::string option;  ///< What would include it, or make it exact.
};

struct LookPlan {
  std::vector<LookPart> parts;

  /// The part of a kind; null if the page has no such part.
  const LookPart* part(LookPart::Kind kind) const;
  bool includes(LookPart::Kind kind) const { return part(kind) != nullptr && part(kind)->included; }
};

/// The values of a page, and what else it shows.
struct Look {
  Json about;  ///< Of the model and the text: whatever the page's program reads that is not an array.
  LookData data, maps;
};

/// A training run whose checkpoints read the same text.
struct LookRun {
  std::string folder;
  std::vector<std::int64_t> steps;                    ///< That have a checkpoint.
  std::vector<std::pair<double, double>> losses;      ///< (step, training loss in nats), ascending.
  std::function<Checkpoint(std::int64_t step)> open;  ///< Loads a checkpoint.
};

/// The limits of this machine.
struct LookCeilings {
  double read_bytes_per_s = 0, flops_per_s = 0;
};

/// What the caller knows about the model and the machine.
struct LookSubject {
  GenerateContext context;                            ///< Without dictionaries, which only read.
  std::vector<AppliedDictionary> dictionaries{};      ///< Whose features are shown.
  FeatureIndexes feature_indexes{};                   ///< Of any of them: what the features do in a corpus.
  double bytes_per_weight = 4;                        ///< As stored.
  std::function<std::string(std::int32_t)> bytes_of;  ///< The bytes of a token.
  Json about;                                         ///< Passed on to the page.
  std::optional<LookRun> run{};
  std::optional<LookCeilings> ceilings{};
};

/// Throws BadInput for a corrupted text of another length and a position outside the text, Unsupported for a model that
/// does not predict the next token, and for `cells` of a model with an adapter.
void check_look(const LookSubject& subject, const LookOptions& options);

/// Decides what a page contains. The order is that of LookPart::Kind.
LookPlan plan_look(const LookSubject& subject, const LookOptions& options);

/// Throws as check_look() does.
Look look_at(const LookSubject& subject, const LookOptions& options, const LookPlan& plan);

/// A document as pieces in their order, which are not copied into one text.
struct LookPage {
  std::vector<std::shared_ptr<const std::string>> pieces;
  std::int64_t bytes = 0;

  void add(std::shared_ptr<const std::string> piece) {
    bytes += static_cast<std::int64_t>(piece->size());
    pieces.push_back(std::move(piece));
  }
  void add(std::string piece) { add(std::make_shared<const std::string>(std::move(piece))); }
};

/// A complete HTML document of at most `max_bytes`: maps of 8 bits become coarser until it fits. Throws BadInput with
/// the smallest size if it does not.
LookPage page_of(Look& look, const std::string& title, std::int64_t max_bytes, ThreadPool& pool);

}  // namespace vitrine
