// vitrine look: write a page that shows everything about one text in a model.
#include "look/look.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file_writer.h"
#include "cli/commands.h"
#include "cli/feature_index.h"
#include "cli/label_text.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/token_word.h"
#include "generate/classify.h"
#include "generate/make_request.h"
#include "inspect/attribution.h"
#include "inspect/layout.h"
#include "metrics/metrics.h"
#include "model/check_compute.h"
#include "model/count.h"
#include "report/describe.h"
#include "train/run_folder.h"

namespace vitrine::cli {
namespace {

struct LookCommand : Options {
  std::string out, max_size = "16M";
  std::optional<std::int64_t> position;
  std::string features_index;
  std::vector<std::string> words, cells, writes;
  std::optional<std::string> analogy, corrupted, run, label;
  bool ceilings = false;
};

Json rows_of(const OrderedJson& described) {
  Json rows = Json::array();
  for (const auto& [key, value] : described.items()) {
    rows.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  return rows;
}

Json groups_json(const ModelConfig& config) {
  Json groups = Json::array();
  for (const LayerGroup& group : layer_groups(config)) {
    Json flow = Json::array();
    for (const SiteLayout& layout : site_layout(config, group.first())) {
      const SiteInfo& about = info(layout.site.site);
      if (layout.site.site == Site::tokens || layout.site.site == Site::loss) continue;
      flow.push_back({{"name", name_of(layout.site)},
                      {"shape", to_string(layout.shape)},
                      {"in_block", about.in_block()},
                      {"meaning", about.meaning}});
    }
    groups.push_back({{"layers", group.layers},
                      {"flow", flow},
                      {"config", rows_of(json_of(describe_layer(config, static_cast<std::size_t>(group.first()))))}});
  }
  return groups;
}

/// The options that the values of a run depend on, as on a command line.
std::string run_options(const LookCommand& o) {
  std::string options;
  for (const std::string& adapter : o.adapters) options += "--adapter " + shell_quoted(adapter) + " ";
  for (const std::string& control : o.controls) options += "--control " + shell_quoted(control) + " ";
  if (o.compute != "auto") options += "--compute " + o.compute + " ";
  if (o.kv != "f32") options += "--kv " + o.kv + " ";
  for (const std::string& key : o.allowed_config_keys) options += "--allow-config-key " + shell_quoted(key) + " ";
  for (const std::string& name : o.allowed_tensors) options += "--allow-tensor " + shell_quoted(name) + " ";
  return options;
}

std::string sae_options(const LookCommand& o) {
  std::string options;
  for (const std::string& sae : o.dictionaries) options += "--sae " + shell_quoted(sae) + " ";
  if (!o.skipped_tokens.empty()) options += "--sae-skip " + shell_quoted(o.skipped_tokens) + " ";
  return options;
}

/// Of a path, without a slash at its end.
std::string last_part(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.find_last_of('/') + 1);
}

Json about_json(const LookCommand& o, const Session& session) {
  const ModelConfig& config = session.checkpoint.model->config();
  const bool is_default = o.first.empty() || (o.positionals == 1 && !o.has_ids());
  const std::string path = is_default ? default_model() : o.first;
  std::string name = is_default ? "the default model" : last_part(o.as_given(path));
  bool is_first = true;
  for (const std::vector<std::string>* const modifiers : {&o.adapters, &o.controls}) {
    for (const std::string& one : *modifiers) {
      name += (is_first ? " with " : " and ") + last_part(o.as_given(one));
      is_first = false;
    }
  }
  return {{"model", name},
          {"description", session.checkpoint.description},
          {"params", count_params(config)},
          {"bytes", stored_bytes(*session.checkpoint.model)},
          {"products", products_name(*session.checkpoint.model, session.compute)},
          {"config", rows_of(json_of(describe_model(config)))},
          {"groups", groups_json(config)},
          {"model_path", shell_quoted(path)},
          {"model_argument", is_default ? "" : shell_quoted(path)},
          {"run_options", run_options(o)},
          {"sae_options", sae_options(o)},
          {"features_index", o.features_index.empty() ? "" : shell_quoted(o.features_index)}};
}

/// A second text as ids, with the special tokens of the first.
std::vector<std::int32_t> encoded(const Session& session, const LookCommand& o, const std::string& text) {
  if (session.tokenizer == nullptr) throw BadInput("--corrupted", "expected a model with a tokenizer");
  return session.tokenizer->encode(text, o.no_special ? SpecialTokens::none : SpecialTokens::apply);
}

/// The indexes of the folder, of which at least one is of a dictionary of the page.
FeatureIndexes indexes_of(const LookCommand& o, const Session& session) {
  if (o.features_index.empty()) return {};
  if (o.dictionaries.empty()) throw MissingArgument("--sae");
  FeatureIndexes all = open_feature_indexes(o.features_index);
  std::string wanted;
  for (const AppliedDictionary& applied : session.applied.dictionaries) {
    if (index_of(all, *applied.dictionary) != nullptr) return all;
    wanted += (wanted.empty() ? "" : " or ") + index_key(*applied.dictionary);
  }
  throw BadInput("--features-index", "expected an index of {}, got one of {}", wanted, all.front()->key());
}

/// The run's checkpoints and its curve of losses.
LookRun run_in(const LookCommand& o) {
  LookRun run;
  run.folder = *o.run;
  run.steps = checkpoint_steps(*o.run);
  if (run.steps.empty()) throw BadInput("--run", "expected a folder of a training run, {} has no checkpoints", *o.run);
  const MetricCurves metrics = read_metrics(*o.run);
  if (const auto loss = metrics.curves.find("loss"); loss != metrics.curves.end()) run.losses = loss->second;
  run.open = [&o, folder = *o.run](std::int64_t step) {
    return load_checkpoint(checkpoint_path(folder, step), {o.allowed_config_keys, o.allowed_tensors});
  };
  return run;
}

/// What generate samples with, unless it is greedy: at temperature 0 nothing is drawn.
SamplingConfig sampling_of(RequestDefaults model) {
  model.sampling.greedy = false;
  if (model.sampling.temperature == 0) model.sampling.temperature.reset();
  return choose_sampling({}, model).config;
}

LookOptions options_of(const LookCommand& o, const Session& session) {
  LookOptions options;
  options.ids = session.ids;
  if (o.position) options.position = resolve_position(*o.position, static_cast<std::int64_t>(session.ids.size()));
  options.embedding.words = tokens_of(session, o.words);
  if (o.analogy) options.embedding.analogy = terms_in(session, *o.analogy, "--analogy");
  if (o.corrupted) options.change.corrupted = encoded(session, o, *o.corrupted);
  for (const std::string& text : o.writes) options.change.writes.push_back(parse_site_write(text));
  if (o.corrupted && !o.writes.empty()) throw UsageError("--set", "give either --set or --corrupted");
  options.cells = o.cells;
  options.sampling = sampling_of(session.defaults());
  options.seed = o.seed.value_or(0);
  options.max_bytes = bytes_in(o.max_size, "--max-size");
  return options;
}

/// The label whose output the page explains: --class, else the one with the largest output.
LookLabel label_of(const LookCommand& o, const Session& session, const LabelText& text, std::int64_t position) {
  const TaskHead& head = *session.checkpoint.model->config().task;
  LookLabel label;
  label.texts = text.tokens.texts;
  label.types = text.tokens.types;
  label.choice.position = position;
  label.path.baseline = baseline_of({}, session);
  label.path.keeps = text.kept();
  if (o.label) {
    label.choice.label = label_number(head.labels, *o.label, "--class");
  } else {
    const std::vector<std::vector<std::int32_t>> ids = {text.tokens.ids}, types = {text.tokens.types};
    read_outputs(session.context(o), {ids, types}, 1, [&](std::size_t, const Tensor& all) {
      const Tensor row = all.row_range(head.pool == TaskHead::Pool::none ? position : 0, 1);
      label.choice.label = static_cast<std::size_t>(std::max_element(row.data, row.data + row.count()) - row.data);
    });
  }
  const std::string& name = head.labels[label.choice.label];
  std::string given = o.has_ids() ? fmt::format("--ids {}", fmt::join(o.ids, ",")) : shell_quoted(text.texts.front());
  if (text.texts.size() > 1) given += " --pair " + shell_quoted(text.texts[1]);
  label.about = {{"name", name},
                 {"text", given},
                 {"class", shell_quoted(name)},
                 {"texts", label.texts},
                 {"baseline", label.path.baseline},
                 {"steps", label.path.steps}};
  return label;
}

void print_plan(const LookPlan& plan) {
  Table table({{"part"}, {"at most", Table::Align::right}, {""}});
  for (const LookPart& part : plan.parts) {
    table.add({part.what, fmt::format("{:.2f} MB", static_cast<double>(part.bytes) / 1e6),
               part.included ? (part.exact ? "" : "exact with " + part.option) : "left out; " + part.option});
  }
  print(table.text());
}

void run_look(const LookCommand& given) {
  LookCommand o = given;
  read_text_once(o);
  Session session = open_session(o);
  const Model& model = *session.checkpoint.model;
  std::optional<LabelText> text;
  if (model.config().task) {
    TextInputOptions as_text;
    static_cast<Options&>(as_text) = o;
    TextInputs inputs(session, as_text);
    text = label_text(o, session, inputs, o.pair, true);
    session.ids = text->tokens.ids;
  } else if (o.pair || o.label) {
    throw Unsupported("look", "--pair and --class are of a model with labels");
  }
  LookOptions options = options_of(o, session);
  if (text) {
    const std::int64_t last = std::ssize(session.ids) - 1;
    options.label = label_of(o, session, *text, options.position.value_or(last));
  }
  LookSubject subject;
  subject.context = session.context(o);
  subject.context.modifiers.dictionaries = {};
  subject.dictionaries = session.applied.dictionaries;
  subject.feature_indexes = indexes_of(o, session);
  subject.about = about_json(o, session);
  subject.bytes_per_weight =
      static_cast<double>(stored_bytes(model)) / static_cast<double>(count_params(model.config()));
  subject.bytes_of = [&](std::int32_t id) {
    if (session.tokenizer == nullptr || id >= session.tokenizer->vocab_size()) return "#" + std::to_string(id);
    const std::string bytes = session.tokenizer->bytes(id);
    return bytes.empty() ? session.tokenizer->piece(id) : bytes;
  };
  if (o.run) subject.run = run_in(o);
  check_look(subject, options);
  const LookPlan plan = plan_look(subject, options);
  if (!o.json) print_plan(plan);
  stop_cleanly();
  if (o.ceilings) {
    const Ceilings limits = measure_ceilings(*session.pool, false);
    subject.ceilings = {limits.read_bytes_per_s, limits.f32_flops_per_s};
  }
  Look look = look_at(subject, options, plan);
  const LookPage page =
      page_of(look, "vitrine: " + subject.about["model"].get<std::string>(), options.max_bytes, *session.pool);
  FileWriter file(o.out);
  for (const auto& piece : page.pieces) file.write(std::as_bytes(std::span(*piece)));
  file.commit();
  if (o.json) {
    return print_json({{"out", o.out},
                       {"bytes", page.bytes},
                       {"ids", session.ids},
                       {"figures", look.about["contains"]},
                       {"left_out", look.about["left_out"]}});
  }
  print(fmt::format("{}: {:.2f} MB, {} tokens\n", o.out, static_cast<double>(page.bytes) / 1e6, session.ids.size()));
}

}  // namespace

void add_look(Command& program) {
  const auto [command, o] =
      new_command<LookCommand>(program, "look", "Write a page that shows everything about one text in a model");
  add_model_and_text(command, *o);
  command.add_option("--out", o->out, "The HTML file to write; it needs no other file and no network")->required();
  add_number<std::int64_t>(
      command, "--position", o->position,
      "The position whose values are followed in detail, from the end if negative (default: the last)");
  add_list(
      command, "--words", o->words,
      "A word of the figures of the embedding, of one token, or #ID; may be given several times (default: the text's)");
  command.add_option("--analogy", o->analogy,
                     "A sum of words of one token, or #ID, such as \"king - man + woman\": shows the nearest tokens");
  add_list(command, "--cell", o->cells,
           "A value SITE[index], such as blocks.0.mlp.hook_post[3,7], whose formula and operands are shown; may be "
           "given several times");
  add_list(command, "--set", o->writes,
           "Show a second run with this change of a value, as in trace; may be given several times");
  command.add_option("--corrupted", o->corrupted,
                     "Another text with as many tokens: shows which values of TEXT restore its prediction in it");
  command.add_option("--run", o->run, "A folder of train: shows the text at each of its checkpoints");
  add_optional(command, "--class", o->label,
               "The label that the page explains (default: the one with the largest output)");
  add_pair(command, *o);
  add_read_dictionaries(command, *o);
  add_features_index(command, o->features_index, "whose contexts the page shows of the features that are active");
  command.add_flag("--ceilings", o->ceilings,
                   "Measure the limits of this machine, as bench does, and show the ops next to them");
  command.add_option("--max-size", o->max_size, "The largest size of the file, such as 900K or 16M")
      ->capture_default_str();
  finish_command(command, o, run_look, "Example: vitrine look \"Once upon a time there was a\" --out report.html");
}

}  // namespace vitrine::cli
