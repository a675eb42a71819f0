// vitrine patch: runs of a corrupted prompt, each with one value of a clean run.
#include "inspect/patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/token_word.h"
#include "inspect/edges.h"

namespace vitrine::cli {
namespace {

struct PatchArguments : Options {
  std::string model;
  std::optional<std::string> clean, corrupted;
  std::vector<std::int32_t> clean_ids, corrupted_ids;
  std::string word;
  std::optional<std::string> against;
  std::string site;
  std::string metric = "logit";
  bool approximate = false;
  std::vector<std::string> frozen;
  bool edges = false;
  int ig_steps = 1;
  int top = 20;
};

/// The ids of one prompt.
std::vector<std::int32_t> prompt_of(const PatchArguments& o, const Session& session, const char* option,
                                    const std::optional<std::string>& text, const std::vector<std::int32_t>& ids) {
  if (text.has_value() == !ids.empty()) {
    throw UsageError(option, fmt::format("give either {} or {}-ids", option, option));
  }
  if (!text) return ids;
  return session.tokenizer->encode(*text, o.no_special ? SpecialTokens::none : SpecialTokens::apply);
}

void show(const Session& session, const Patch& found, const std::vector<std::int32_t>& ids) {
  constexpr int kWidth = 9;
  const auto right = Table::Align::right;
  std::vector<Table::Column> columns = {{"recovered", right}};
  const auto longer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const std::size_t n = std::max_element(found.recovered.begin(), found.recovered.end(), longer)->size();
  for (std::size_t i = 0; i < n; ++i) {
    columns.push_back({found.by_head ? std::to_string(i) : fitted(session.label(ids[i]), kWidth), right});
  }
  Table table(std::move(columns));
  for (std::size_t layer = 0; layer < found.recovered.size(); ++layer) {
    std::vector<std::string> cells = {fmt::format("layer {}", layer)};
    for (const double value : found.recovered[layer]) {
      cells.push_back(std::isnan(value) ? "–" : fmt::format("{:.3f}", value));
    }
    cells.resize(n + 1);
    table.add(std::move(cells));
  }
  print(table.text());
  print(fmt::format("metric: clean {:.4f}, corrupted {:.4f}\n", found.clean, found.corrupted));
}

Json to_json(const EdgeNode& node) {
  Json object = {{"kind", name_of(node.kind)}};
  if (node.layer >= 0) object["layer"] = node.layer;
  if (node.head >= 0) object["head"] = node.head;
  return object;
}

void show_edges(const Session& session, const EdgeScores& found, const std::vector<Edge>& edges,
                const std::vector<std::int32_t>& ids) {
  constexpr int kWidth = 16;
  Table table({{"source"}, {"target"}, {"", Table::Align::right}, {"token"}, {"score", Table::Align::right}});
  for (const Edge& edge : edges) {
    table.add({name_of(edge.source), name_of(edge.target), std::to_string(edge.position),
               fitted(session.label(ids[static_cast<std::size_t>(edge.position)]), kWidth),
               fmt::format("{:+.4f}", edge.score)});
  }
  print(table.text());
  print(fmt::format("{} of {} edges; metric: clean {:.4f}, corrupted {:.4f}\n", grouped(std::ssize(edges)),
                    grouped(found.count()), found.clean, found.corrupted));
}

/// patch --edges.
void run_edges(const PatchArguments& o, const Session& session, const std::vector<std::int32_t>& clean,
               const std::vector<std::int32_t>& corrupted) {
  if (!o.site.empty() || o.approximate || !o.frozen.empty()) {
    throw UsageError("--edges", "it has no effect with --site, --approximate and --freeze");
  }
  Objective objective{token_of(session, o.word), {}, std::ssize(clean) - 1, o.metric == "logprob"};
  if (o.against) objective.against = token_of(session, *o.against);
  const EdgeScores found = edge_scores(session.context(o), clean, corrupted, objective, o.ig_steps);
  const std::vector<Edge> edges = found.strongest(static_cast<std::size_t>(o.top));
  if (!o.json) return show_edges(session, found, edges, clean);
  Json list = Json::array();
  for (const Edge& edge : edges) {
    list.push_back({{"source", to_json(edge.source)},
                    {"target", to_json(edge.target)},
                    {"position", edge.position},
                    {"score", edge.score}});
  }
  print_json({{"clean", {{"ids", clean}, {"metric", found.clean}}},
              {"corrupted", {{"ids", corrupted}, {"metric", found.corrupted}}},
              {"ig_steps", o.ig_steps},
              {"n_edges", found.count()},
              {"edges", list}});
}

void run_patch(const PatchArguments& o) {
  const Session session = open_for_texts(o, o.model, o.clean || o.corrupted);
  if (session.has_encoder()) throw Unsupported("patch", "the model is an encoder–decoder");
  const std::vector<std::int32_t> clean = prompt_of(o, session, "--clean", o.clean, o.clean_ids);
  const std::vector<std::int32_t> corrupted = prompt_of(o, session, "--corrupted", o.corrupted, o.corrupted_ids);
  if (o.edges) return run_edges(o, session, clean, corrupted);
  if (o.ig_steps != 1) throw UsageError("--ig-steps", "give --edges, too");
  const std::string site = o.site.empty() ? "hook_resid_pre" : o.site;
  PatchOptions options;
  options.site = patch_site(site);
  options.token = token_of(session, o.word);
  if (o.against) options.against = token_of(session, *o.against);
  options.is_logprob = o.metric == "logprob";
  options.approximate = o.approximate;
  options.frozen = o.frozen;
  const Patch found = patch(session.context(o), clean, corrupted, options);
  if (!o.json) return show(session, found, clean);
  Json object = {{"clean", {{"ids", clean}, {"metric", found.clean}}},
                 {"corrupted", {{"ids", corrupted}, {"metric", found.corrupted}}},
                 {"site", site},
                 {"axes", {"layer", found.by_head ? "head" : "position"}},
                 {"metric", found.metric},
                 {"recovered", found.recovered}};
  if (o.approximate) object["approximate"] = found.approximate;
  print_json(object);
}

}  // namespace

void add_patch(Command& program) {
  const auto [command, o] = new_command<PatchArguments>(
      program, "patch", "Run a corrupted prompt with one value of a clean one at a time (activation patching)");
  add_model(command, *o, o->model);
  add_optional(command, "--clean", o->clean, "The prompt whose values are used");
  add_ids(command, "--clean-ids", o->clean_ids, "Its token ids as in 1,2,3, instead");
  add_optional(command, "--corrupted", o->corrupted, "The prompt that runs with them, of the same length");
  add_ids(command, "--corrupted-ids", o->corrupted_ids, "Its token ids as in 1,2,3, instead");
  command.add_option("--token", o->word, "The token whose logit at the last position is measured, a word or #ID")
      ->required();
  add_optional(command, "--against", o->against, "Subtract that of this token");
  command.add_option("--site", o->site,
                     "hook_resid_pre (default), _mid or _post, hook_attn_out or hook_mlp_out: by layer and position; "
                     "attn.hook_z, _q, _k, _v or _pattern: by layer and head");
  add_choice(command, "--metric", o->metric, {"logit", "logprob"}, "logit (default) or logprob");
  command.add_flag("--approximate", o->approximate,
                   "Also estimate each change of the metric from one backward: gradient times difference");
  add_list(command, "--freeze", o->frozen,
           "A glob of sites that keep their values of the corrupted prompt; may be given several times");
  command.add_flag("--edges", o->edges,
                   "Instead, estimate what each connection between embedding, heads, MLPs and logits carries: a "
                   "source's difference times the gradient at a target's input (EAP)");
  add_number<int>(command, "--ig-steps", o->ig_steps,
                  "With --edges: the mean gradient of N runs between the embeddings of the corrupted and the clean "
                  "prompt (EAP-IG; default: 1, that of the corrupted prompt)",
                  1, 10'000);
  add_number<int>(command, "--top", o->top, "With --edges: the number of edges, the strongest first (default: 20)", 1,
                  1 << 30);
  command.add_flag("--no-special", o->no_special,
                   "Add no special tokens to the texts, and treat none in them as special");
  add_modifiers(command, *o);
  add_dictionaries(command, *o);
  finish_command(command, o, run_patch,
                 "recovered is 0 for the metric of the corrupted prompt and 1 for that of the clean one; it has no "
                 "value (null in JSON) if both are equal.\n"
                 "Example: vitrine patch gpt2/ --clean-ids 464,3139,286 --corrupted-ids 464,3140,286 --token '#262'");
}

}  // namespace vitrine::cli
