// The worked example: every matrix of one tiny model's forward, backward and update, in the order in which they come
// about, each with its formula, the arithmetic of chosen cells, and a finite difference beside each gradient.
//
//   ids ─▶ Model::learn ─▶ sites and their gradients (inspect/recorder.h), gradients of parameters (autograd/)
//                │                                                    │
//            Differences: the same forward                Optimizer::step ─▶ the forward once more: the new prediction
//
// Nothing is computed a second way but what stands here for comparison: cells spelled out (spell.h) and finite
// differences (differences.h). A WorkedExample is plain data, and text.cpp, markdown.cpp and html.cpp only write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "example/differences.h"
#include "model/config.h"
#include "pass/sites.h"
#include "train/optimizer.h"
#include "train/trainable.h"

namespace vitrine {

/// A tiny model, and what is known of its tokens and of where its numbers come from.
struct ExampleModel {
  /// Of rows [first, first + count) of a parameter.
  struct Origin {
    std::string param, text;
    std::int64_t first = 0, count = 0;
  };

  Trainable trainable;
  std::string title;
  std::vector<std::string> words;   ///< By id; none where there is no vocabulary.
  std::vector<Origin> origins;      ///< Rows that none of them names have `otherwise`.
  std::string otherwise;            ///< "seed 1"
  std::vector<std::string> frozen;  ///< Parameters that do not learn.
  std::string about{};              ///< A paragraph on where the numbers come from; may be empty.
};

/// A model of 8 words and 2 blocks: the matrices that its document has kept, and in the place of the lost ones random
/// tenths.
ExampleModel document_model(std::uint64_t seed);
/// A model of any config with random parameters (model/initialize.h). Throws BadInput for more than kMostParams.
ExampleModel random_model(const ModelConfig& config, const std::string& title, std::uint64_t seed);

constexpr std::int64_t kMostParams = 20'000;  ///< More numbers nobody reads.

struct ExampleOptions {
  std::vector<std::int32_t> ids;
  std::int32_t target = 0;  ///< The id that follows them. The loss is that of this one prediction.
  OptimizerConfig optimizer;
  double lr = 0;
  std::vector<std::string> cells;  ///< SECTION[index]: to be spelled out in place of the section's own choice.
  std::int64_t most_differences = 600;
};

/// The arithmetic of one element.
struct SpelledCell {
  std::string name;        ///< `blocks.0.attn.hook_q[0,0,1]`
  std::string arithmetic;  ///< `1.4125·0.4 − 1.4125·0.3`, its numbers rounded.
  double result = 0;       ///< Of that arithmetic with the numbers as they are.
  float value = 0;         ///< What stands in the matrix.
};

enum class ExamplePart : std::uint8_t { model, forward, backward, update, prediction };

/// One matrix.
struct ExampleSection {
  ExamplePart part = ExamplePart::model;
  std::string name;  ///< A site or a parameter; `grad:` before it is its gradient, `new:` its value after the update.
  std::string meaning;  ///< In words.
  std::string formula;  ///< As example/formula.h reads it; "": none.
  std::string file;     ///< Where it is computed.
  Shape shape;
  std::vector<float> values;
  bool by_first = false;                   ///< Of three dimensions: one table for each of the first; else side by side.
  std::vector<std::string> rows, columns;  ///< Labels of a table.
  std::vector<std::string> origins;        ///< Of each row, where they differ; of all, where there is one.
  std::vector<Difference> differences;     ///< Empty, or as many as values.
  std::vector<SpelledCell> cells;
};

struct WorkedExample {
  std::string title, about;
  std::vector<std::int32_t> ids;
  std::vector<std::string> labels;  ///< Of all ids: words, or #3.
  std::int32_t target = 0;
  std::string optimizer;  ///< "SGD, rate 0.5"
  std::int64_t n_params = 0;
  double loss = 0, loss_after = 0;                ///< Nats.
  double probability = 0, probability_after = 0;  ///< Of the target.
  std::vector<ExampleSection> sections;
  DifferenceSummary differences;
};

/// Moves the model's parameters. Throws BadInput for ids, a target or cells that there are not, NotFinite.
WorkedExample work_example(const ExampleModel& model, const ExampleOptions& options);

/// For people: 3 digits behind the point unless told otherwise.
struct ExampleStyle {
  int digits = 3;
};
std::string example_text(const WorkedExample& example, const ExampleStyle& style = {});
std::string example_markdown(const WorkedExample& example, const ExampleStyle& style = {});
std::string example_html(const WorkedExample& example, const ExampleStyle& style = {});

/// "The model", "Forward", …
std::string_view name_of(ExamplePart part);

}  // namespace vitrine
