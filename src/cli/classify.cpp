// vitrine classify: the labels of a text.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/text_inputs.h"
#include "generate/rerank.h"

namespace vitrine::cli {
namespace {

struct ClassifyOptions : TextInputOptions {
  std::optional<std::string> text;
  std::int64_t top = 5;
  bool raw = false;
};

class ClassesOutput {
 public:
  ClassesOutput(const ClassifyOptions& o, const TaskHead& head) : o_(o), head_(head) {}

  void add(std::span<const float> outputs) {
    const std::vector<float> scores = scores_of(o_.raw ? ScoreFunction::none : score_function(head_), outputs);
    std::vector<std::size_t> order = descending(scores);
    order.resize(std::min(order.size(), static_cast<std::size_t>(o_.top)));
    if (o_.json) return print(json_of(outputs, scores, order).dump() + "\n");
    if (o_.lines) return print(fmt::format("{}\t{:.6f}\n", head_.labels[order[0]], scores[order[0]]));
    Table table({{"label"}, {o_.raw ? "output" : "score", Table::Align::right}});
    for (const std::size_t i : order) table.add({head_.labels[i], fmt::format("{:.6f}", scores[i])});
    print(table.text());
  }

 private:
  Json json_of(std::span<const float> outputs, const std::vector<float>& scores,
               const std::vector<std::size_t>& order) const {
    Json list = Json::array();
    for (const std::size_t i : order) list.push_back({{"label", head_.labels[i]}, {"score", scores[i]}});
    return {{"label", head_.labels[order[0]]},
            {"score", scores[order[0]]},
            {"scores", list},
            {"logits", std::vector<float>(outputs.begin(), outputs.end())}};
  }

  const ClassifyOptions& o_;
  const TaskHead& head_;
};

void run_classify(const ClassifyOptions& o) {
  if (o.text.has_value() + o.lines + o.has_ids() != 1) throw UsageError("TEXT", "give one of TEXT, --lines and --ids");
  const Session session = open_for_texts(o, o.model, o.text.has_value());
  const auto& head = session.checkpoint.model->config().task;
  if (!head || head->task != TaskHead::Task::classify) {
    throw Unsupported("classify", "the model has no labels of texts: it is no classifier");
  }
  stop_cleanly();
  TextInputs inputs(session, o);
  ClassesOutput output(o, *head);
  const auto read = [&] {
    std::vector<std::vector<float>> all(inputs.size());
    read_outputs(session.context(o), inputs.texts(), o.batch * kRowsOfText, [&](std::size_t i, const Tensor& outputs) {
      all[i].assign(outputs.row(0), outputs.row(0) + outputs.row_size());
    });
    for (const std::vector<float>& outputs : all) output.add(outputs);
  };
  if (o.lines) {
    for_each_batch(o, inputs, read);
  } else {
    if (o.has_ids()) inputs.add(o.ids);
    if (o.text) inputs.add(read_text(*o.text), o.pair);
    read();
  }
  inputs.report_cut();
}

}  // namespace

void add_classify(Command& program) {
  const auto [command, o] = new_command<ClassifyOptions>(program, "classify", "Show the labels of a text, with scores");
  add_text_inputs(command, *o,
                  "Read a text from each line of stdin: a JSON string, a list of ids, or for a pair a list of two "
                  "strings or {\"text\",\"text_pair\"}");
  add_optional(command, "TEXT", o->text, "The text; - reads it from stdin");
  add_ids(command, "--ids", o->ids, "Token ids as in 1,2,3, instead of TEXT");
  add_pair(command, *o);
  add_number<std::int64_t>(command, "--top", o->top, "Number of labels to show (default: 5)", 1);
  command.add_flag("--raw", o->raw, "Show the outputs of the head instead of scores");
  finish_command(command, o, run_classify,
                 "Scores are those of the model's problem_type: softmax for one label of several, sigmoid for several "
                 "labels or a\nsingle one, the outputs themselves for a regression. With --lines, the first label of "
                 "each text.\n"
                 "Example: vitrine classify sentiment/ \"What a lovely day.\" --json");
}

}  // namespace vitrine::cli
