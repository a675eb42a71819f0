// vitrine heads: what each head attends to, or reads of its state.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/rng.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "inspect/head_scores.h"

namespace vitrine::cli {
namespace {

struct HeadsArguments : Options {
  std::int64_t repeated = 0;
};

/// N random tokens, twice.
std::vector<std::int32_t> repeated_ids(std::int64_t n, std::int64_t vocab_size, std::uint64_t seed) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    const double draw = uniform(seed, 0, static_cast<std::uint64_t>(i));
    ids.push_back(static_cast<std::int32_t>(draw * static_cast<double>(vocab_size)));
  }
  ids.reserve(2 * ids.size());
  ids.insert(ids.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
  return ids;
}

Session open_repeated(const HeadsArguments& o, std::uint64_t seed) {
  if (o.has_ids() || o.positionals > 1) throw UsageError("--repeated", "draws its tokens: give no TEXT");
  Session session = open_model(o, o.positionals == 1 ? o.first : "", false);
  if (session.has_encoder()) throw Unsupported("--repeated", "the model is an encoder–decoder: give TEXT and --target");
  session.ids = repeated_ids(o.repeated, session.checkpoint.model->config().vocab_size, seed);
  return session;
}

Json to_json(const HeadScores& h) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json object = {{"layer", h.layer},
                 {"sublayer", h.sublayer},
                 {"head", h.head},
                 {"kv_head", h.kv_head},
                 {"window", or_null(h.window)},
                 {"previous", or_null(h.previous)},
                 {"first", or_null(h.first)},
                 {"current", h.current},
                 {"duplicate", or_null(h.duplicate)},
                 {"induction", or_null(h.induction)},
                 {"distance", h.distance},
                 {"entropy", h.entropy}};
  if (h.nothing) object["nothing"] = *h.nothing;
  if (!h.sizes.empty()) object["half_life"] = or_null(h.half_life), object["sizes"] = h.sizes;
  return object;
}

/// The sizes of a state over the text, as bars of which the largest is full, and the last one as a number.
std::string drawn(const std::vector<double>& sizes) {
  constexpr std::string_view kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::size_t kMost = 12;
  const std::size_t n = std::min(kMost, sizes.size());
  const double largest = *std::max_element(sizes.begin(), sizes.end());
  std::string text;
  for (std::size_t i = 0; i < n; ++i) {
    const double share = largest > 0 ? sizes[(i + 1) * sizes.size() / n - 1] / largest : 0;
    text += kBars[std::min<std::size_t>(7, static_cast<std::size_t>(share * 8))];
  }
  return fmt::format("{} {:.3g}", text, sizes.back());
}

std::string name_of(const HeadScores& h) {
  return h.sublayer == "attn" ? fmt::format("{}.{}", h.layer, h.head)
                              : fmt::format("{}.{}.{}", h.layer, h.sublayer, h.head);
}

void run_heads(const HeadsArguments& o) {
  const std::uint64_t seed = o.seed ? *o.seed : std::random_device()();
  const Session session = o.repeated > 0 ? open_repeated(o, seed) : open_full_session(o);
  const std::vector<HeadScores> all = head_scores(session.context(o), session.tokens());
  if (o.json) {
    Json heads = Json::array();
    for (const HeadScores& h : all) heads.push_back(to_json(h));
    Json object = {{"ids", session.rows()}, {"heads", heads}};
    if (o.repeated > 0) object["seed"] = seed;
    return print_json(object);
  }
  std::vector<Table::Column> columns;
  for (const char* name :
       {"head", "K/V", "window", "previous", "first", "current", "duplicate", "induction", "distance", "entropy"}) {
    columns.push_back({name, Table::Align::right});
  }
  const bool has_sinks = std::any_of(all.begin(), all.end(), [](const HeadScores& h) { return h.nothing.has_value(); });
  if (has_sinks) columns.push_back({"nothing", Table::Align::right});
  const bool has_states = std::any_of(all.begin(), all.end(), [](const HeadScores& h) { return !h.sizes.empty(); });
  if (has_states) columns.push_back({"half-life", Table::Align::right});
  if (has_states) columns.push_back({"size of the state", Table::Align::left});
  Table table(columns);
  const auto text = [](const std::optional<double>& value) { return value ? fmt::format("{:.3f}", *value) : "-"; };
  for (const HeadScores& h : all) {
    std::vector<std::string> row = {name_of(h),
                                    std::to_string(h.kv_head),
                                    h.window ? std::to_string(*h.window) : "-",
                                    text(h.previous),
                                    text(h.first),
                                    text(h.current),
                                    text(h.duplicate),
                                    text(h.induction),
                                    fmt::format("{:.2f}", h.distance),
                                    text(h.entropy)};
    if (has_sinks) row.push_back(text(h.nothing));
    if (has_states) row.push_back(h.half_life ? fmt::format("{:.3g}", *h.half_life) : "-");
    if (has_states) row.push_back(h.sizes.empty() ? "-" : drawn(h.sizes));
    table.add(row);
  }
  print(table.text());
}

}  // namespace

void add_heads(Command& program) {
  const auto [command, o] =
      new_command<HeadsArguments>(program, "heads", "Show what each head attends to, or reads of its state");
  add_model_and_text(command, *o);
  o->takes_one_model = [&repeated = o->repeated] { return repeated > 0; };
  add_second_input(command, *o);
  add_number<std::int64_t>(command, "--repeated", o->repeated, "Instead of TEXT: N random tokens (--seed), twice", 1,
                           1 << 24);
  finish_command(
      command, o, run_heads,
      "Means over the queries of a text: the weight on the previous token, on the first and on the token itself, on\n"
      "earlier equal tokens (duplicate), on the tokens right after those (induction); the distance in tokens, and the\n"
      "entropy in nats; in models with sinks, the share of nothing. - where no query has such a token.\n"
      "Of a recurrence the weights are the shares of |M|, its effective attention; then the half-life of what its "
      "state\n"
      "holds, in tokens, and the size of the state over the text.\n"
      "Example: vitrine heads gpt2/ --repeated 25 --seed 1");
}

}  // namespace vitrine::cli
