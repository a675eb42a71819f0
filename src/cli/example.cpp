// vitrine example: write out every number of one training step of a tiny model.
#include "example/example.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_writer.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/wrapper.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"

namespace vitrine::cli {
namespace {

constexpr std::uint64_t kSeed = 4;  // without --seed the example is always the same

struct ExampleCommand : Options {
  std::string config, ids_text = "0,1,2,3,0", optimizer = "sgd", format = "text", out;
  std::vector<std::string> cells;
  std::int32_t target = 5;
  std::optional<double> lr;
  ExampleStyle style;
};

ExampleModel model_of(const ExampleCommand& o) {
  const std::uint64_t seed = o.seed.value_or(kSeed);
  if (o.config.empty()) return document_model(seed);
  const Json json = read_text_config(o.config);
  const Family family = family_of(json, o.config);
  return random_model(read_model_config(family, json, o.config, o.allowed_config_keys), o.config, seed);
}

ExampleOptions options_of(const ExampleCommand& o) {
  ExampleOptions options;
  options.ids = o.ids;
  options.target = o.target;
  options.cells = o.cells;
  const bool is_sgd = o.optimizer == "sgd";
  options.optimizer.kind = is_sgd ? OptimizerConfig::Kind::sgd : OptimizerConfig::Kind::adamw;
  options.optimizer.momentum = 0;
  if (is_sgd) options.optimizer.weight_decay = 0;
  options.optimizer.max_norm.reset();
  options.lr = o.lr.value_or(is_sgd ? 0.5 : 0.01);
  if (!(options.lr > 0)) throw BadInput("--lr", "expected a positive number, got {}", options.lr);
  return options;
}

Json to_json(const ExampleSection& s) {
  Json json = {{"part", name_of(s.part)}, {"name", s.name}, {"shape", s.shape.sizes()}, {"values", s.values}};
  if (!s.formula.empty()) json["file"] = s.file;
  if (!s.origins.empty()) json["origins"] = s.origins;
  for (const Difference& d : s.differences) {
    json["differences"].push_back(d.taken && d.smooth ? Json(d.slope) : Json());
  }
  for (const SpelledCell& cell : s.cells) {
    json["cells"].push_back(
        {{"name", cell.name}, {"arithmetic", cell.arithmetic}, {"result", cell.result}, {"value", cell.value}});
  }
  return json;
}

Json to_json(const WorkedExample& e, std::uint64_t seed) {
  Json sections = Json::array();
  for (const ExampleSection& s : e.sections) sections.push_back(to_json(s));
  return {{"title", e.title},
          {"seed", seed},
          {"ids", e.ids},
          {"target", e.target},
          {"optimizer", e.optimizer},
          {"params", e.n_params},
          {"loss", e.loss},
          {"loss_after", e.loss_after},
          {"probability", e.probability},
          {"probability_after", e.probability_after},
          {"differences",
           {{"taken", e.differences.taken},
            {"not_smooth", e.differences.not_smooth},
            {"largest", e.differences.largest},
            {"where", e.differences.where}}},
          {"sections", sections}};
}

void run_example(ExampleCommand& o) {
  o.ids = parse_ids(o.ids_text, "--ids");
  const ExampleModel model = model_of(o);
  const WorkedExample example = work_example(model, options_of(o));
  std::string text;
  if (o.format == "html") {
    text = example_html(example, o.style);
  } else if (o.format == "markdown") {
    text = example_markdown(example, o.style);
  } else {
    text = example_text(example, o.style);
  }
  if (!o.out.empty()) {
    stop_cleanly();
    write_file(o.out, text);
  }
  if (o.json) return print_json(to_json(example, o.seed.value_or(kSeed)));
  if (o.out.empty()) return print(text);
  print(fmt::format("{}: {} matrices, loss {:.4f} before the update and {:.4f} after it\n", o.out,
                    example.sections.size(), example.loss, example.loss_after));
}

}  // namespace

void add_example(Command& program) {
  const auto [command, o] = new_command<ExampleCommand>(
      program, "example", "Show every matrix of one training step of a tiny model: forward, backward, update");
  command.add_option(
      "--config", o->config,
      "The config.json of a tiny model of any family, whose weights are drawn at random (default: 8 words, 2 blocks)");
  command.add_option("--ids", o->ids_text, "Token ids of the text")->capture_default_str();
  add_number<std::int32_t>(command, "--target", o->target, "The id to be predicted after the text (default: 5)");
  add_choice(command, "--optimizer", o->optimizer, {"sgd", "adamw"}, "The optimizer: sgd or adamw")
      ->capture_default_str();
  add_number<double>(command, "--lr", o->lr, "The learning rate (default: 0.5 for SGD, 0.01 for AdamW)");
  add_list(command, "--cell", o->cells,
           "A cell whose arithmetic is written out, as in 'blocks.0.attn.hook_q[0,1]'; the prefix grad: names a "
           "gradient, new: a parameter after the update; may be given several times");
  add_number<int>(command, "--digits", o->style.digits, "Digits after the decimal point (default: 3)", 1, 7);
  add_choice(command, "--format", o->format, {"text", "markdown", "html"}, "The format: text, markdown or html")
      ->capture_default_str();
  command.add_option("--out", o->out, "The file to write (default: stdout)");
  finish_command(command, o, run_example, "Example: vitrine example --format html --out example.html");
}

}  // namespace vitrine::cli
