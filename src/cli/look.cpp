// vitrine look: write a page that shows everything about one text in a model.
#include "look/look.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_writer.h"
#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/token_word.h"
#include "inspect/layout.h"
#include "model/count.h"

namespace vitrine::cli {
namespace {

struct LookCommand : Options {
  std::string out, max_size = "16M";
  std::optional<std::int64_t> position;
  std::vector<std::string> words;
  std::optional<std::string> corrupted;
};

/// A number of bytes: 500000, 900K, 16M, 1G.
std::int64_t bytes_in(const std::string& text) {
  std::string digits = text;
  std::int64_t unit = 1;
  for (const auto& [letter, factor] : {std::pair{'K', 1 << 10}, std::pair{'M', 1 << 20}, std::pair{'G', 1 << 30}}) {
    if (!digits.ends_with(letter)) continue;
    unit = factor;
    digits.pop_back();
    break;
  }
  const auto number = number_in<std::int64_t>(digits);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (!number || *number <= 0 || *number > kMost / unit) {
    throw BadInput("--max-size", "expected a size such as 16M, up to 1024G, got \"{}\"", text);
  }
  return *number * unit;
}

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
      if (about.site == Site::tokens || about.site == Site::loss) continue;
      flow.push_back({{"name", name_of(layout.site)},
                      {"shape", to_string(layout.shape)},
                      {"in_block", about.in_block},
                      {"meaning", about.meaning}});
    }
    groups.push_back({{"layers", group.layers},
                      {"flow", flow},
                      {"config", rows_of(describe_block(config.blocks[static_cast<std::size_t>(group.first())]))}});
  }
  return groups;
}

Json about_json(const LookCommand& o, const Session& session) {
  const ModelConfig& config = session.checkpoint.model->config();
  const std::string path = o.first.empty() || (o.positionals == 1 && !o.has_ids) ? default_model() : o.first;
  const bool is_default = path == default_model();
  std::string ids;
  for (const std::int32_t id : session.ids) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  const std::size_t slash = path.find_last_of('/', path.size() - 2);
  return {{"model", is_default ? "the default model" : path.substr(slash == std::string::npos ? 0 : slash + 1)},
          {"description", session.checkpoint.description},
          {"params", count_params(config)},
          {"bytes", stored_bytes(*session.checkpoint.model)},
          {"config", rows_of(describe_model(config))},
          {"groups", groups_json(config)},
          {"model_argument", is_default ? "" : shell_quoted(path)},
          {"arguments", (is_default ? "--ids " : shell_quoted(path) + " --ids ") + ids}};
}

/// A second text as ids, with the special tokens of the first.
std::vector<std::int32_t> encoded(const Session& session, const LookCommand& o, const std::string& text) {
  if (session.tokenizer == nullptr) throw BadInput("--corrupted", "expected a model with a tokenizer");
  return session.tokenizer->encode(text, o.no_special ? SpecialTokens::none : SpecialTokens::apply);
}

void print_plan(const LookPlan& plan) {
  Table table({{"part"}, {"at most", Table::Align::right}, {""}});
  for (const LookPart& part : plan.parts) {
    table.add({part.what, fmt::format("{:.2f} MB", static_cast<double>(part.bytes) / 1e6),
               part.included ? (part.exact ? "" : "exact with " + part.option) : "left out; " + part.option});
  }
  print(table.text());
}

void run_look(const LookCommand& o) {
  const std::int64_t max_bytes = bytes_in(o.max_size);
  const Session session = open_session(o);
  const Model& model = *session.checkpoint.model;
  LookSubject subject{session.context(o), 4, {}, about_json(o, session)};
  subject.bytes_per_weight =
      static_cast<double>(stored_bytes(model)) / static_cast<double>(count_params(model.config()));
  subject.bytes_of = [&](std::int32_t id) {
    if (session.tokenizer == nullptr || id >= session.tokenizer->vocab_size()) return "#" + std::to_string(id);
    const std::string bytes = session.tokenizer->bytes(id);
    return bytes.empty() ? session.tokenizer->piece(id) : bytes;
  };
  LookOptions options;
  options.ids = session.ids;
  options.words = tokens_of(session, o.words);
  if (o.corrupted) options.corrupted = encoded(session, o, *o.corrupted);
  options.position = o.position;
  options.seed = o.seed.value_or(0);
  options.max_bytes = max_bytes;
  check_look(subject, options);
  const LookPlan plan = plan_look(model.config(), static_cast<std::int64_t>(session.ids.size()), max_bytes);
  if (!o.json) print_plan(plan);
  stop_cleanly();
  Look look = look_at(subject, options, plan);
  const std::string page = page_of(look, "vitrine: " + subject.about["model"].get<std::string>(), max_bytes);
  write_file(o.out, page);
  if (o.json) {
    return print_json({{"out", o.out},
                       {"bytes", page.size()},
                       {"ids", session.ids},
                       {"figures", look.about["contains"]},
                       {"left_out", look.about["left_out"]}});
  }
  print(fmt::format("{}: {:.2f} MB, {} tokens\n", o.out, static_cast<double>(page.size()) / 1e6, session.ids.size()));
}

}  // namespace

void add_look(CLI::App& program) {
  CLI::App& command = *program.add_subcommand("look", "Write a page that shows everything about one text in a model");
  const auto o = std::make_shared<LookCommand>();
  add_model_and_text(command, *o);
  command.add_option("--out", o->out, "The HTML file to write; it needs no other file and no network")->required();
  add_number<std::int64_t>(command, "--position", o->position,
                           "The position whose values are followed in detail (default: the last)", 0);
  add_list(command, "--words", o->words,
           "A word of the figures of the embedding, of one token, or #ID; may be given several times (default: the "
           "text's)");
  command.add_option("--corrupted", o->corrupted,
                     "Another text with as many tokens: shows which values of TEXT restore its prediction in it");
  command.add_option("--max-size", o->max_size, "The largest size of the file, such as 900K or 16M")
      ->capture_default_str();
  finish_command(command, o, run_look, "Example: vitrine look \"Once upon a time there was a\" --out report.html");
}

}  // namespace vitrine::cli
