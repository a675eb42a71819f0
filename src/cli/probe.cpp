// vitrine probe: linear probes, which read labels of texts from the value of a site.
#include <fmt/format.h>

#include <cmath>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "train/probe/probe_trainer.h"

namespace vitrine::cli {
namespace {

struct ProbeCommand : Options {
  std::string site, pool;
};

struct ProbeTrainOptions : ProbeCommand {
  double c = 1;
  std::string out;
};

struct ProbeEvalOptions : ProbeCommand {
  std::string probe;
};

struct OpenedTexts {
  Session session;
  LabeledTexts texts;
};

OpenedTexts open_texts(const ProbeCommand& o) {
  if (o.positionals == 0) throw MissingArgument("FILE");
  const bool has_model = o.positionals == 2;
  OpenedTexts result{open_model(o, has_model ? o.first : "", true), {}};
  const ModelConfig& config = result.session.checkpoint.model->config();
  result.texts = read_labeled_texts(has_model ? o.second : o.first, *result.session.tokenizer,
                                    o.no_special ? SpecialTokens::none : SpecialTokens::apply,
                                    config.encoder ? config.encoder->max_seq_len : config.max_seq_len);
  return result;
}

Json to_json(const ProbedSite& site, const std::vector<Json>& labels, const ProbeScores& scores) {
  return {{"site", site.site},
          {"pool", name_of(site.pool)},
          {"labels", labels},
          {"texts", scores.n},
          {"auroc", scores.auroc ? Json(*scores.auroc) : Json()},
          {"accuracy", scores.accuracy},
          {"loss", scores.loss}};
}

void show(const ProbedSite& site, const std::vector<Json>& labels, const ProbeScores& scores) {
  std::string names;
  for (const Json& label : labels) names += (names.empty() ? "" : ", ") + label.dump();
  print(
      fmt::format("site      {}, {}\nlabels    {}\ntexts     {}\nauroc     {}\naccuracy  {:.4f}\n"
                  "loss      {:.4f} nats\n",
                  site.site, site.pool == ProbePool::last ? "its last row" : "the mean of its rows", names, scores.n,
                  scores.auroc ? fmt::format("{:.4f}", *scores.auroc) : "–", scores.accuracy, scores.loss));
}

void run_probe_train(const ProbeTrainOptions& o) {
  if (o.site.empty()) throw MissingArgument("--site");
  if (!(o.c > 0) || !std::isfinite(o.c)) throw UsageError("--C", fmt::format("expected a number above 0, got {}", o.c));
  const auto [session, texts] = open_texts(o);
  stop_cleanly();
  const ProbedSite site{o.site, probe_pool_named("--pool", o.pool.empty() ? "last" : o.pool)};
  const TrainedProbe probe = train_probe(session.context(o), texts, site, o.c);
  write_probe(o.out, probe.facts, probe.weight, probe.bias);
  const ProbedSite of_probe{probe.facts.site, site.pool};
  if (!o.json) return show(of_probe, probe.facts.labels, probe.scores);
  Json object = to_json(of_probe, probe.facts.labels, probe.scores);
  object.update({{"C", o.c}, {"iterations", probe.iterations}, {"gradient_norm", probe.gradient_norm}});
  print_json(object);
}

void run_probe_eval(const ProbeEvalOptions& o) {
  const ReadProbe probe = read_probe(o.probe);
  ProbedSite site{o.site.empty() ? probe.facts.site : o.site};
  if (site.site.empty()) throw BadInput(o.probe, "the file names no site; give --site");
  const std::string& pool = o.pool.empty() ? probe.facts.pool : o.pool;
  if (pool.empty()) throw BadInput(o.probe, "the file does not say how rows become one vector; give --pool");
  site.pool = probe_pool_named("--pool", pool);
  const auto [session, texts] = open_texts(o);
  stop_cleanly();
  const ProbeScores scores = evaluate_probe(session.context(o), texts, site, o.probe, probe);
  if (!o.json) return show(site, probe.facts.labels, scores);
  print_json(to_json(site, probe.facts.labels, scores));
}

void add_common_options(Command& command, ProbeCommand& o, const char* about_site, const char* about_pool) {
  add_positionals(command, o, "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME", "FILE",
                  "Lines of {\"text\", \"label\"}; a single positional is FILE");
  add_modifiers(command, o);
  command.add_option("--site", o.site, about_site)->type_name("SITE");
  add_choice(command, "--pool", o.pool, {"last", "mean"}, about_pool);
}

void add_probe_train(Command& group) {
  const auto [command, o] =
      new_command<ProbeTrainOptions>(group, "train", "Learn to read the labels of texts from the value of a site");
  add_common_options(command, *o, "The site, as in docs/sites.md, with a row for each token",
                     "What is read of a text: the last row, or the mean of all (default: last)");
  add_number<double>(command, "--C", o->c, "The weight of the losses next to the penalty ½ W² (default: 1)");
  command.add_option("--out", o->out, "The .safetensors to write: weight, bias")->required();
  finish_command(command, o, run_probe_train,
                 "Logistic regression with an L2 penalty, at its minimum. Labels are whole numbers, truth values or "
                 "texts.\n"
                 "Example: vitrine probe train texts.jsonl --site blocks.3.hook_resid_post --out probe.safetensors");
}

void add_probe_eval(Command& group) {
  const auto [command, o] =
      new_command<ProbeEvalOptions>(group, "eval", "Measure how well a probe reads the labels of texts");
  add_common_options(command, *o, "The site (default: that of the probe)",
                     "What is read of a text: the last row, or the mean of all (default: that of the probe)");
  command.add_option("--probe", o->probe, "The .safetensors that probe train has written")->required();
  finish_command(command, o, run_probe_eval,
                 "auroc is the area under the ROC curve; of more than two labels the mean, each against the rest.\n"
                 "Example: vitrine probe eval held-out.jsonl --probe probe.safetensors --json");
}

}  // namespace

void add_probe(Command& program) {
  Command& group = *program.add_subcommand("probe", "Train and evaluate linear probes of sites");
  group.require_subcommand();
  add_probe_train(group);
  add_probe_eval(group);
}

}  // namespace vitrine::cli
