// vitrine predict: show the most likely next tokens after every prefix of a text.
#include "base/math.h"
#include "generate/score.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/probe_options.h"
#include "cli/table.h"
#include "inspect/probe_values.h"

namespace vitrine::cli {
namespace {

// In terminal cells.
constexpr int kPieceWidth = 16;   // of a token, at most
constexpr int kPrefixWidth = 27;  // of a prefix: tokens, probabilities and the space between them

struct PredictOptions : Options, SplitOptions, ProbeOptions {
  int top = 10;
};

struct Prefix {
  std::int64_t position = 0;  // of its last token
  std::int32_t id = 0;
  std::vector<TokenLogprob> top;
};

/// The logits of the session's probes at every token that a model reads.
class ProbeRows {
 public:
  explicit ProbeRows(const Session& session)
      : is_empty_(!has_probes(session.applied.dictionaries)),
        recorder_({kProbeGlob}, {}, site_layers(session.checkpoint.model->config(), session.applied.dictionaries),
                  [this](const SiteId& id, const Tensor& rows) { add(name_of(id), rows); }) {
    if (!is_empty_) check_has_rows(session.checkpoint.model->config());
  }
  ProbeRows(const ProbeRows&) = delete;
  ProbeRows& operator=(const ProbeRows&) = delete;

  bool empty() const { return is_empty_; }
  Taps* taps() { return empty() ? nullptr : &recorder_; }
  Json json() const { return probe_values_json(values_); }

  /// Of each probe, its name and its logits at a position.
  template <class Visit>
  void for_each(std::int64_t position, Visit visit) const {
    for (const SequenceRecorder::Recorded& own : values_) {
      const auto n = static_cast<std::size_t>(own.shape.count_from(1));
      visit(own.name, std::span(own.values).subspan(static_cast<std::size_t>(position) * n, n));
    }
  }

 private:
  void add(const std::string& name, const Tensor& rows) {
    auto own = std::ranges::find(values_, name, &SequenceRecorder::Recorded::name);
    if (own == values_.end()) own = values_.insert(own, {name, {0, rows.row_size()}, {}});
    own->values.insert(own->values.end(), rows.data, rows.data + rows.count());
    own->shape = {own->shape[0] + rows.rows(), rows.row_size()};
  }

  bool is_empty_;
  std::vector<SequenceRecorder::Recorded> values_;
  Recorder recorder_;
};

Json prefix_json(const Session& session, const Prefix& prefix) {
  Json top = Json::array();
  for (const TokenLogprob& t : prefix.top) {
    top.push_back(
        {{"id", t.id}, {"piece", session.piece(t.id)}, {"logprob", t.logprob}, {"prob", math::exp(t.logprob)}});
  }
  return {{"id", prefix.id}, {"piece", session.piece(prefix.id)}, {"top", top}};
}

/// A table with a column for each prefix, headed by its last token, a row for each rank and one for each probe.
std::string band(const Session& session, const std::vector<Prefix>& prefixes, const ProbeRows& probes) {
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
  std::vector<std::vector<std::string>> of_probes;
  for (const Prefix& prefix : prefixes) {
    std::size_t i = 0;
    probes.for_each(prefix.position, [&](const std::string& name, std::span<const float> logits) {
      if (of_probes.size() == i) of_probes.push_back({name});
      std::string text;
      for (const float logit : logits) text += fmt::format("{}{:.2f}", text.empty() ? "" : " ", logit);
      of_probes[i].insert(of_probes[i].end(), {text, ""});
      ++i;
    });
  }
  for (const std::vector<std::string>& cells : of_probes) table.add(cells);
  return table.text();
}

void run_predict(const PredictOptions& o) {
  Session session = open_full_session(o);
  open_probes(o, o, session);
  ProbeRows probes(session);
  GenerateContext context = session.context(o);
  if (!probes.empty()) context.taps = probes.taps();
  const auto per_band = static_cast<std::size_t>(std::max(1, (terminal_columns() - 4) / kPrefixWidth));
  Json tokens = Json::array();
  std::vector<Prefix> pending;
  bool first = true;
  const auto show = [&] {
    if (!pending.empty()) print((first ? "" : "\n") + band(session, pending, probes));
    pending.clear();
    first = false;
  };
  predict(context, session.tokens(), o.top, [&](std::int64_t position, const std::vector<TokenLogprob>& top) {
    const Prefix prefix{position, session.rows()[static_cast<std::size_t>(position)], top};
    if (o.json) return tokens.push_back(prefix_json(session, prefix));
    pending.push_back(prefix);
    if (pending.size() == per_band) show();
  });
  if (o.json) {
    Json object = {{"tokens", tokens}};
    if (!probes.empty()) object["probes"] = probes.json();
    return print_json(object);
  }
  show();
}

}  // namespace

void add_predict(Command& program) {
  const auto [command, o] =
      new_command<PredictOptions>(program, "predict", "Show the most likely next tokens after every prefix of a text");
  add_model_and_text(command, *o);
  add_second_input(command, *o);
  add_dictionaries(command, *o);
  add_probes(command, *o);
  add_number<int>(command, "--top", o->top, "Number of tokens to show (default: 10)", 1, 1 << 20);
  add_split(command, *o);
  finish_command(
      command, o, run_predict,
      "The head of a column is the last token of a prefix. Below it are the tokens most likely to follow that prefix,\n"
      "with their probabilities in percent.\n"
      "Example: vitrine predict stories260K.bin \"Once upon a\" --tokenizer tok512.bin --top 5");
}

}  // namespace vitrine::cli
