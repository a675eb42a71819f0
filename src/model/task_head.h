// The head of a model that reads a text instead of predicting its tokens: classes, tags, answers, scores.
//
//   rows ── pool ── dense ── activation ── norm ── out ──▶ [n, labels]
//
// n is the number of texts or, without a pool, of tokens. A classifier, a reranker and a reward model differ only in
// their labels. Source: transformers, the classes XForSequenceClassification, XForTokenClassification,
// XForQuestionAnswering, XForMultipleChoice.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "pass/pass.h"

namespace vitrine {

struct TaskHead {
  enum class Task : std::uint8_t {
    classify,  ///< A number for each label, of a whole text.
    tag,       ///< The same of every token.
    answer,    ///< For every token, whether the answer begins there, and whether it ends there.
    choose,    ///< A number, of a whole text that is one of several choices.
  };
  /// Which row of a text is read: its first, its last that is not padding, or the mean of all.
  enum class Pool : std::uint8_t { none, first, last, mean };
  /// What the labels of a text are: exactly one, any number of them, or numbers.
  enum class Problem : std::uint8_t { one_label, several_labels, regression };

  Task task = Task::classify;
  Pool pool = Pool::first;
  std::optional<std::int32_t> pad_id{};  ///< The padding that Pool::last passes over.
  std::optional<std::int64_t> dense{};   ///< Elements after a dense layer; absent: no such layer.
  bool dense_bias = true;
  std::optional<Activation> activation{};  ///< After it.
  std::optional<NormConfig> norm{};        ///< After that.
  bool out_bias = true;
  std::vector<std::string> labels{};
  std::optional<Problem> problem{};  ///< Absent: not said, so one label is a number, and of several one is right.

  std::int64_t n_labels() const { return static_cast<std::int64_t>(labels.size()); }

  bool operator==(const TaskHead&) const = default;
};

constexpr auto words(TaskHead::Task) {
  return std::to_array<std::string_view>({"classify", "tag", "answer", "choose"});
}
constexpr auto words(TaskHead::Pool) { return std::to_array<std::string_view>({"none", "first", "last", "mean"}); }
constexpr auto words(TaskHead::Problem) {
  return std::to_array<std::string_view>({"one_label", "several_labels", "regression"});
}

template <ConfigOf<TaskHead> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"task", "what the head is for", {}, false}, c.task);
  visit(Field{"pool", "the row of a text that it reads; none: all", {}, false}, c.pool);
  if (c.pool == TaskHead::Pool::last) visit(Field{"pad_id", "the padding that is no last row", {}, false}, c.pad_id);
  visit(Field{"dense", "elements after a dense layer", {}, false}, c.dense);
  if (c.dense) {
    visit(Field{"dense_bias", "its bias", {}, false}, c.dense_bias);
    visit(Field{"activation", "after it", {}, false}, c.activation);
    visit(Field{"norm", "after the activation", {}, false}, c.norm);
  }
  visit(Field{"out_bias", "a bias of the outputs", {}, false}, c.out_bias);
  visit(Field{"labels", "the names of the outputs", {}, false}, c.labels);
  visit(Field{"problem", "how many labels a text has", {}, false}, c.problem);
}

/// Throws BadInput for sizes that are out of range.
void check(std::string_view where, const TaskHead& c);

/// How outputs become scores.
enum class ScoreFunction : std::uint8_t { none, sigmoid, softmax };

struct TaskHeadParams {
  LinearParams dense;  ///< `[dense, d_model]`
  NormParams norm;
  LinearParams out;  ///< `[labels, dense or d_model]`
};

/// The row of each segment that Pool::first or Pool::last reads; for Pool::mean its first. `ids`: the tokens of the
/// rows.
std::vector<std::int64_t> task_rows(const Pass& p, const TaskHead& c, std::span<const std::int32_t> ids);

/// `[n, labels]` from normed rows: one of each text for Pool::first and Pool::last, else all.
Tensor run_task_head(Pass& p, const TaskHead& c, const TaskHeadParams& w, const Tensor& rows);

}  // namespace vitrine
