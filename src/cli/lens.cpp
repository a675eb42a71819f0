// vitrine lens: what every state of the residual stream would predict.
#include "inspect/lens.h"

#include <fmt/format.h>

#include "base/math.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/token_word.h"
#include "inspect/trained_lens.h"

namespace vitrine::cli {
namespace {

constexpr int kPieceWidth = 12;  // of a token in the table, in terminal cells
constexpr int kColumnWidth = kPieceWidth + 8;

struct LensArguments : Options {
  int top = 5;
  std::vector<std::string> words;
  bool sublayers = false;
  std::string tuned, jacobian;  // files
};

Json json_of(const Session& session, const LensToken& token) {
  return {{"id", token.id}, {"piece", session.piece(token.id)}, {"logit", token.logit}, {"logprob", token.logprob}};
}

Json json_of(const Session& session, const LensCell& cell) {
  Json top = Json::array(), tokens = Json::array();
  for (const LensToken& token : cell.top) top.push_back(json_of(session, token));
  for (const LensToken& token : cell.tokens) {
    tokens.push_back({{"id", token.id}, {"logit", token.logit}, {"logprob", token.logprob}, {"rank", token.rank}});
  }
  return {{"top", top}, {"entropy", cell.entropy}, {"kl", cell.kl}, {"tokens", tokens}};
}

/// The most likely token of each state, with its probability, in columns of positions [first, last).
std::string band(const Session& session, const Lens& found, std::size_t first, std::size_t last) {
  std::vector<Table::Column> columns = {{"state"}};
  for (std::size_t t = first; t < last; ++t) {
    columns.push_back({"… " + fitted(session.label(session.rows()[t]), kPieceWidth)});
    columns.push_back({"%", Table::Align::right});
  }
  Table table(columns);
  for (std::size_t state = 0; state < found.states.size(); ++state) {
    std::vector<std::string> cells = {name_of(found.states[state])};
    for (std::size_t t = first; t < last; ++t) {
      const LensToken& best = found.cells[state][t].top.front();
      cells.push_back(fitted(session.label(best.id), kPieceWidth));
      cells.push_back(fmt::format("{:.1f}", 100 * math::exp(best.logprob)));
    }
    table.add(std::move(cells));
  }
  return table.text();
}

/// The log-probability and the rank of the chosen tokens at the last position.
std::string tokens_table(const Session& session, const Lens& found) {
  Table table({{"state"},
               {"token"},
               {"logit", Table::Align::right},
               {"logprob", Table::Align::right},
               {"rank", Table::Align::right}});
  for (std::size_t state = 0; state < found.states.size(); ++state) {
    for (const LensToken& token : found.cells[state].back().tokens) {
      table.add({name_of(found.states[state]), session.label(token.id), fmt::format("{:.3f}", token.logit),
                 fmt::format("{:.3f}", token.logprob), std::to_string(token.rank)});
    }
  }
  return table.text();
}

std::optional<TrainedLens> trained_lens(const LensArguments& o, const StackConfig& config) {
  if (!o.tuned.empty()) return read_trained_lens(o.tuned, LensKind::tuned, config);
  if (!o.jacobian.empty()) return read_trained_lens(o.jacobian, LensKind::jacobian, config);
  return {};
}

void run_lens(const LensArguments& o) {
  if (!o.tuned.empty() && !o.jacobian.empty()) throw UsageError("--jacobian", "give --tuned or --jacobian, not both");
  const Session session = open_full_session(o);
  const std::optional<TrainedLens> trained = trained_lens(o, session.checkpoint.model->config());
  LensOptions options{o.top, tokens_of(session, o.words), o.sublayers};
  if (trained) options.trained = &*trained;
  const Lens found = lens(session.context(o), session.tokens(), options);
  if (o.json) {
    Json states = Json::array(), all = Json::array();
    for (const SiteId& state : found.states) states.push_back(name_of(state));
    for (const std::vector<LensCell>& row : found.cells) {
      Json cells = Json::array();
      for (const LensCell& cell : row) cells.push_back(json_of(session, cell));
      all.push_back(std::move(cells));
    }
    return print_json({{"ids", session.rows()}, {"states", states}, {"lens", all}});
  }
  const std::size_t n = session.rows().size();
  const auto per_band = static_cast<std::size_t>(std::max(1, (terminal_columns() - 26) / kColumnWidth));
  for (std::size_t first = 0; first < n; first += per_band) {
    print((first > 0 ? "\n" : "") + band(session, found, first, std::min(n, first + per_band)));
  }
  if (!o.words.empty()) print("\n" + tokens_table(session, found));
}

}  // namespace

void add_lens(Command& program) {
  const auto [command, o] = new_command<LensArguments>(
      program, "lens",
      "Show what every state of the residual stream would predict (logit lens, tuned lens, Jacobian lens)");
  add_model_and_text(command, *o);
  add_second_input(command, *o);
  add_number<int>(command, "--top", o->top, "Number of tokens of each state in the JSON (default: 5)", 1, 1 << 20);
  add_list(command, "--token", o->words, "Also show this token, a word or #ID; may be given several times");
  command.add_flag("--sublayers", o->sublayers, "Also show the states between attention and MLP");
  command.add_option("--tuned", o->tuned,
                     "Map the states by this tuned lens, a .safetensors file or a folder with lens.safetensors");
  command.add_option("--jacobian", o->jacobian, "Map the states by this Jacobian lens");
  finish_command(
      command, o, run_lens,
      "Each state goes through the model's own last step: final norm, with the state's own statistics, unembedding,\n"
      "scale and softcap. The last state is what predict shows. In the JSON, kl is KL(final || state), in nats.\n"
      "A trained lens (train with [lens], docs/lens.md) maps each state but the last one before that step.\n"
      "Example: vitrine lens gpt2/ --ids 464,3139,286 --token '#262' --sublayers");
}

}  // namespace vitrine::cli
