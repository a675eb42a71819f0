// vitrine predict: show the most likely next tokens after every prefix of a text.
#include "base/math.h"
#include "generate/score.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"

namespace vitrine::cli {
namespace {

// In terminal cells.
constexpr int kPieceWidth = 16;   // of a token, at most
constexpr int kPrefixWidth = 27;  // of a prefix: tokens, probabilities and the space between them

struct PredictOptions : Options, SplitOptions {
  int top = 10;
};

struct Prefix {
  std::int32_t id = 0;  // its last token
  std::vector<TokenLogprob> top;
};

Json prefix_json(const Session& session, const Prefix& prefix) {
  Json top = Json::array();
  for (const TokenLogprob& t : prefix.top) {
    top.push_back(
        {{"id", t.id}, {"piece", session.piece(t.id)}, {"logprob", t.logprob}, {"prob", math::exp(t.logprob)}});
  }
  return {{"id", prefix.id}, {"piece", session.piece(prefix.id)}, {"top", top}};
}

/// A table with a column for each prefix, headed by its last token, and a row for each rank.
std::string band(const Session& session, const std::vector<Prefix>& prefixes) {
  std::vector<Table::Column> columns = {{"", Table::Align::right}};
  for (const Prefix& prefix : prefixes) {
    columns.push_back({"… " + fitted(session.label(prefix.id), kPieceWidth)});
    columns.push_back({"%", Table::Align::right});
  }
  Table table(columns);
  for (std::size_t rank = 0; rank < prefixes.front().top.size(); ++rank) {
    std::vector<std::string> cells = {std::to_string(rank + 1)};
    for (const Prefix& prefix : prefixes) {
      cells.push_back(fitted(session.label(prefix.top[rank].id), kPieceWidth));
      cells.push_back(fmt::format("{:.1f}", 100 * math::exp(prefix.top[rank].logprob)));
    }
    table.add(cells);
  }
  return table.text();
}

void run_predict(const PredictOptions& o) {
  const Session session = open_full_session(o);
  const auto per_band = static_cast<std::size_t>(std::max(1, (terminal_columns() - 4) / kPrefixWidth));
  Json tokens = Json::array();
  std::vector<Prefix> pending;
  bool first = true;
  const auto show = [&] {
    if (!pending.empty()) print((first ? "" : "\n") + band(session, pending));
    pending.clear();
    first = false;
  };
  predict(session.context(o), session.tokens(), o.top,
          [&](std::int64_t position, const std::vector<TokenLogprob>& top) {
            const Prefix prefix{session.rows()[static_cast<std::size_t>(position)], top};
            if (o.json) return tokens.push_back(prefix_json(session, prefix));
            pending.push_back(prefix);
            if (pending.size() == per_band) show();
          });
  if (o.json) return print_json({{"tokens", tokens}});
  show();
}

}  // namespace

void add_predict(Command& program) {
  const auto [command, o] =
      new_command<PredictOptions>(program, "predict", "Show the most likely next tokens after every prefix of a text");
  add_model_and_text(command, *o);
  add_second_input(command, *o);
  add_dictionaries(command, *o);
  add_number<int>(command, "--top", o->top, "Number of tokens to show (default: 10)", 1, 1 << 20);
  add_split(command, *o);
  finish_command(
      command, o, run_predict,
      "The head of a column is the last token of a prefix. Below it are the tokens most likely to follow that prefix,\n"
      "with their probabilities in percent.\n"
      "Example: vitrine predict stories260K.bin \"Once upon a\" --tokenizer tok512.bin --top 5");
}

}  // namespace vitrine::cli
