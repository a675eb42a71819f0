// The worked example: every matrix of a tiny model's forward, backward and update in the order of computation, each
// with its formula and the arithmetic of chosen cells, and a finite difference for each gradient of a parameter.
//
//   ids ─▶ Model::forward_backward ─▶ sites and their gradients (inspect/recorder.h), gradients of parameters
//   (autograd/)
//                │                                                    │
//            Differences: the same forward                Optimizer::step ─▶ the forward once more: the new prediction
//
// Only the arithmetic of cells (spell.h) and the finite differences (differences.h) are computed separately. A
// WorkedExample is plain data, which text.cpp, markdown.cpp and html.cpp format.
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

/// A tiny model, its vocabulary, and the origin of its numbers.
struct ExampleModel {
  /// The origin of rows [first, first + count) of a parameter.
  struct Origin {
    std::string param, text;
    std::int64_t first = 0, count = 0;
  };

  Trainable trainable;
  std::string title;
  std::vector<std::string> words;   ///< By id; empty without a vocabulary.
  std::vector<Origin> origins;      ///< For some rows.
  std::string otherwise;            ///< The origin of all others: "seed 1".
  std::vector<std::string> frozen;  ///< Parameters that are not updated.
  std::string about{};              ///< A paragraph on the origin of the numbers; may be empty.
};

/// A model of 8 words and 2 blocks: the rows of a document that have survived, and random tenths for the others.
ExampleModel document_model(std::uint64_t seed);
/// A model of any config with random parameters (model/initialize.h). Throws BadInput for more than kMaxParams.
ExampleModel random_model(const ModelConfig& config, const std::string& title, std::uint64_t seed);

constexpr std::int64_t kMaxParams = 20'000;

struct ExampleOptions {
  std::vector<std::int32_t> ids;
  std::int32_t target = 0;  ///< The id after them. The loss is that of this prediction alone.
  OptimizerConfig optimizer;
  double lr = 0;
  std::vector<std::string> cells;  ///< SECTION[index]: written out instead of the default cell.
  std::int64_t max_differences = 600;
};

/// The arithmetic of one element.
struct SpelledCell {
  std::string name;        ///< `blocks.0.attn.hook_q[0,0,1]`
  std::string arithmetic;  ///< `1.4128·0.4000 + (−1.4128)·0.3000`, its numbers rounded.
  double result = 0;       ///< Of the arithmetic, with unrounded numbers.
  float value = 0;         ///< The element of the matrix.
};

enum class ExamplePart : std::uint8_t { model, forward, backward, update, prediction };

/// One matrix.
struct ExampleSection {
  ExamplePart part = ExamplePart::model;
  bool begins_part = false;
  std::string name;     ///< A site or a parameter; with `grad:` its gradient, with `new:` its value after the update.
  std::string meaning;  ///< May be empty.
  std::string formula;  ///< In the notation of spell/formula.h; may be empty.
  std::string file;     ///< The source file that computes it.
  Shape shape;
  std::vector<float> values;
  bool by_first = false;                   ///< Whether a 3-D value has a table per index of its first dimension.
  std::vector<std::string> rows, columns;  ///< Labels.
  std::vector<std::string> origins;        ///< One for each row, or a single one for all rows.
  std::vector<Difference> differences;     ///< Empty, or one for each value.
  std::vector<SpelledCell> cells;
};

struct WorkedExample {
  std::string title, about;
  std::vector<std::int32_t> ids;
  std::vector<std::string> labels;  ///< By id: words, or #ID.
  std::int32_t target = 0;
  std::string optimizer;  ///< "SGD, rate 0.5"
  std::int64_t n_params = 0;
  double loss = 0, loss_after = 0;                ///< Nats.
  double probability = 0, probability_after = 0;  ///< Of the target.
  std::vector<ExampleSection> sections;
  DifferenceSummary differences;
};

/// Updates the model's parameters. Throws BadInput for ids, a target or cells that do not exist; NotFinite.
WorkedExample work_example(const ExampleModel& model, const ExampleOptions& options);

struct ExampleStyle {
  int digits = 3;  ///< Decimal places.
};
std::string example_text(const WorkedExample& example, const ExampleStyle& style = {});
std::string example_markdown(const WorkedExample& example, const ExampleStyle& style = {});
std::string example_html(const WorkedExample& example, const ExampleStyle& style = {});

/// "The model", "Forward", …
std::string_view name_of(ExamplePart part);

}  // namespace vitrine
