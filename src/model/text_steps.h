// What becomes of the rows of a text after a model's stack: one vector, one vector of each token, or scores.
//
//   rows ── pool ── dense ── layer norm ── normalize ──▶ [n, d]
//
// The steps are data. They run in their order, and each reads one of three values of the texts of a pass and writes
// one: the rows of tokens [T, d], a vector of each text [n, d], scores of each text [n, labels]. Source:
// sentence-transformers 6.2, the classes of its modules.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "pass/pass.h"

namespace vitrine {

/// A value that steps read and write.
enum class TextValue : std::uint8_t { tokens, vector, scores };

/// Vectors of texts from the rows of their tokens, next to each other if there are several modes. Σ is over the rows
/// that count, in ascending order and in float64.
struct PoolStep {
  enum class Mode : std::uint8_t {
    cls,            ///< The first row.
    max,            ///< The largest of each element.
    mean,           ///< Σ x / n
    mean_sqrt_len,  ///< Σ x / √n
    weighted_mean,  ///< Σ (t + 1) x[t] / Σ (t + 1), where t counts all rows of the text.
    last,           ///< The last row.
  };
  std::vector<Mode> modes = {Mode::mean};
  bool includes_prompt = true;  ///< The rows of a prompt count.

  bool operator==(const PoolStep&) const = default;
};
/// The names of sentence-transformers.
constexpr std::array<std::string_view, 6> words(PoolStep::Mode) {
  return {"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"};
}

/// Pools the rows of one text by one mode. They arrive in their order, in any parts.
class RowPooler {
 public:
  explicit RowPooler(PoolStep::Mode mode) : mode_(mode) {}

  /// Takes the next row `[d]`. One that does not count is the vector of cls all the same if no row counts.
  void add(std::span<const float> row, bool counts = true);
  /// Writes `[d]`, after at least one row. Without rows that count a sum is 0 and a maximum −∞.
  void finish(std::span<float> vector) const;
  /// The elements of a row.
  std::size_t width() const { return row_.size(); }

 private:
  PoolStep::Mode mode_;
  std::int64_t n_ = 0, n_counted_ = 0;
  double total_ = 0;  // of the weights
  std::vector<double> sums_;
  std::vector<float> row_;  // the first, the last or the largest elements
};

/// y = act(W x + b), plus x or R x.
struct DenseStep {
  enum class Residual : std::uint8_t { none, input, map };
  TextValue from = TextValue::vector, to = TextValue::vector;
  LinearParams map;
  std::optional<Activation> activation = Activation::tanh;
  bool is_sigmoid = false;  ///< The activation is 1 / (1 + exp(−x)) instead.
  Residual residual = Residual::none;
  LinearParams residual_map{};
};

/// LayerNorm of the vector, with eps 1e-5.
struct LayerNormStep {
  NormParams norm;
};

/// Divides by the length, unless it is 0.
struct NormalizeStep {
  TextValue from = TextValue::vector, to = TextValue::vector;
};

/// A weight for each word of the vocabulary from the logits of words: log(1 + max(x, 0)), once or twice, and of that
/// the largest of all rows, or the sum.
struct SpladeStep {
  bool sums = false, twice = false;
};

/// Which rows of a text are its vectors: all but those of some tokens.
struct MaskStep {
  std::vector<std::int32_t> skipped{};  ///< Ascending.
  bool skips_in_queries = false, skips_in_documents = true;
  std::vector<std::int32_t> kept{};  ///< Of documents no others, if there are any. Ascending.
};

/// The logit of one token for the next word, or the difference of two.
struct LogitStep {
  std::int32_t yes = 0;
  std::optional<std::int32_t> no{};
};

using TextStep = std::variant<PoolStep, DenseStep, LayerNormStep, NormalizeStep, SpladeStep, MaskStep, LogitStep>;

struct TextSteps {
  /// What the first step reads: the rows of the stack, the logits of words of every row, the outputs of a head, the
  /// logits of the word that follows the last row, or the vector of the model's pooler.
  enum class Source : std::uint8_t { rows, word_logits, outputs, next_logits, pooler };

  Source source = Source::rows;
  std::vector<TextStep> steps{};
  TextValue result = TextValue::vector;
  std::vector<std::shared_ptr<const void>> storage{};  ///< Owns the parameters.
};

/// The mode of steps that are one mode of all rows of the stack, normalized or not; nullopt for others.
std::optional<PoolStep::Mode> only_mode(const TextSteps& steps);

/// Calls visit(param) for each parameter of steps, in their order.
template <class Steps, class Visit>
void for_each_step_param(Steps& steps, Visit&& visit) {
  const auto visit_present = [&](auto& param) {
    if (param.present()) visit(param);
  };
  for (auto& step : steps.steps) {
    if (auto* const dense = std::get_if<DenseStep>(&step)) {
      visit_present(dense->map.weight);
      visit_present(dense->map.bias);
      visit_present(dense->residual_map.weight);
    } else if (auto* const layer_norm = std::get_if<LayerNormStep>(&step)) {
      visit_present(layer_norm->norm.weight);
      visit_present(layer_norm->norm.bias);
    }
  }
}

/// The elements of a vector that steps make of rows `[n, d_model]` or of logits of `n_words` words.
std::int64_t vector_width(const TextSteps& steps, std::int64_t d_model, std::int64_t n_words);

/// What steps know of a text.
struct TextMarks {
  std::int64_t n_prompt = 0;       ///< The first of its tokens, which are a prompt.
  std::int64_t n_expansion = 0;    ///< The last of its tokens, which expand a query.
  bool attends_expansion = false;  ///< The others attend to them.
  bool is_query = false;

  std::int64_t n_padding() const { return attends_expansion ? 0 : n_expansion; }
};

/// The rows of the texts of a pass.
struct TextRows {
  std::span<const Segment> segments;
  std::span<const std::int32_t> ids;      ///< Of the rows.
  std::span<const TextMarks> marks = {};  ///< Of the segments; empty: no text has any.

  TextMarks marks_of(std::size_t i) const { return marks.empty() ? TextMarks() : marks[i]; }
};

struct TextValues {
  Tensor tokens{}, vector{}, scores{};
  std::vector<bool> counts{};  ///< Which rows are vectors of their texts; empty: all that are no padding.

  Tensor& of(TextValue value) {
    return value == TextValue::tokens ? tokens : value == TextValue::vector ? vector : scores;
  }
};

/// Runs steps, with a tape if the pass has one: gradients flow to the rows and to the parameters of steps. They are
/// neither SpladeStep nor LogitStep: these read logits, which arrive in groups of rows. Throws BadCheckpoint for a step
/// whose sizes do not fit its input.
void run_text_steps(Pass& p, std::span<const TextStep> steps, const TextRows& rows, TextValues& values);

/// The elements of SpladeStep while rows of logits arrive.
class SpladeWeights {
 public:
  SpladeWeights(const SpladeStep& step, std::int64_t vocab_size, std::span<const Segment> segments);
  /// Takes the logits of rows from number `first` of the pass on.
  void add(Pass& p, std::int64_t first, const Tensor& logits);
  /// `[n, vocab_size]`; memory of the arena.
  Tensor finish(Pass& p) const;

 private:
  SpladeStep step_;
  std::int64_t vocab_size_;
  std::vector<Segment> segments_;
  std::vector<float> largest_;  // of the logits, and 0
  std::vector<double> sums_;
};

}  // namespace vitrine
