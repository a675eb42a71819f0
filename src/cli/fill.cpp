// vitrine fill: the most likely tokens in place of the masks of a text.
#include <fmt/format.h>

#include "base/error.h"
#include "base/math.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/token_word.h"
#include "generate/score.h"

namespace vitrine::cli {
namespace {

struct FillOptions : Options {
  int top = 5;
  std::optional<std::int32_t> mask_id;
};

void run_fill(const FillOptions& o) {
  Session session = open_session(o);
  set_types(o, session);
  const ModelConfig& config = session.checkpoint.model->config();
  const bool is_pair = o.pair || !o.types.empty();
  const bool shows_next = is_pair && config.pooler && config.pooler->next_sentence;
  double is_next = 0;
  const std::int32_t mask = o.mask_id ? *o.mask_id : mask_token(session, "--mask-id");
  Json masks = Json::array();
  std::string text;
  predict_masked(
      session.context(o), {session.ids, session.types}, mask, o.top,
      [&](std::int64_t position, const std::vector<TokenLogprob>& top) {
        Json tokens = Json::array();
        Table table({{fmt::format("position {}", position)}, {"%", Table::Align::right}});
        for (const TokenLogprob& t : top) {
          const double probability = math::exp(t.logprob);
          table.add({session.label(t.id), fmt::format("{:.1f}", 100 * probability)});
          tokens.push_back(
              {{"id", t.id}, {"piece", session.piece(t.id)}, {"logprob", t.logprob}, {"prob", probability}});
        }
        masks.push_back({{"position", position}, {"top", tokens}});
        text += (text.empty() ? "" : "\n") + table.text();
      },
      shows_next ? [&](double p) { is_next = p; } : std::function<void(double)>());
  if (o.json) {
    Json object = {{"ids", session.ids}, {"masks", masks}};
    if (shows_next) object["is_next"] = is_next;
    return print_json(object);
  }
  print(text);
  if (shows_next) print(fmt::format("\nthe second text follows the first with {:.1f} %\n", 100 * is_next));
}

}  // namespace

void add_fill(Command& program) {
  const auto [command, o] = new_command<FillOptions>(
      program, "fill", "Show the most likely tokens in place of every mask ([MASK], <mask>) of a text");
  add_model_and_text(command, *o);
  add_pair(command, *o);
  add_types(command, *o);
  add_number<int>(command, "--top", o->top, "Number of tokens to show (default: 5)", 1, 1 << 20);
  add_number<std::int32_t>(command, "--mask-id", o->mask_id,
                           "Id of the mask token (default: [MASK] or <mask> of the vocabulary)", 0);
  finish_command(command, o, run_fill,
                 "For models that attend in both directions, such as BERT and RoBERTa. Probabilities are in percent.");
}

}  // namespace vitrine::cli
