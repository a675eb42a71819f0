// vitrine eval on conversations and on pairs of answers.
#include "cli/eval_conversations.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "conversation/sample_file.h"
#include "train/conversation_data.h"
#include "train/score_pieces.h"

namespace vitrine::cli {
namespace {

constexpr std::int64_t kBatchIds = 4096;  // of the samples that run at once

SampleFile read_file(const Options& o, const ConversationKeys& keys, const Session& session, const std::string& model,
                     const std::string& path, bool is_pairs) {
  if (session.has_encoder()) throw Unsupported("eval", "an encoder–decoder reads no conversations");
  const ConversationEncoder encoder(
      open_conversation_model({model, o.tokenizer, keys.chat_template, o.tokenizer_options}), keys.options());
  return read_samples(path, encoder, {is_pairs, session.checkpoint.model->config().max_seq_len, TooLong::refuse});
}

/// Calls `take(batch)` for groups of lines.
template <class Take>
void for_each_batch(const SampleFile& file, bool is_pairs, Take take) {
  ProgressBar bar("eval");
  Batch batch;
  for (std::size_t line = 0; line < file.lines.size(); ++line) {
    for (const Sample& sample : file.lines[line]) append_sample(sample, batch);
    if (is_pairs) batch.pairs.push_back(static_cast<std::int64_t>(line));
    const bool is_last = line + 1 == file.lines.size();
    if (!is_last && static_cast<std::int64_t>(batch.inputs.size()) < kBatchIds) continue;
    take(batch);
    batch = {};
    bar.update(static_cast<std::int64_t>(line) + 1, static_cast<std::int64_t>(file.lines.size()));
  }
}

ExecutionContext machine_of(const GenerateContext& context, Arena& arena) { return context.make_pass(arena, {}); }

}  // namespace

void eval_conversations(const Options& o, const ConversationKeys& keys, const Session& session,
                        const std::string& model, const std::string& path) {
  const SampleFile file = read_file(o, keys, session, model, path, false);
  const GenerateContext context = session.context(o);
  Arena arena;
  double nats = 0;
  std::int64_t n = 0;
  for_each_batch(file, false, [&](const Batch& batch) {
    const std::vector<double> sums =
        score_pieces(*session.checkpoint.model, machine_of(context, arena), session.applied, batch);
    nats += std::accumulate(sums.begin(), sums.end(), 0.0);
    n += batch.n_counted();
  });
  const double loss = nats / static_cast<double>(n), perplexity = math::exp(loss);
  if (o.json) {
    return print_json(
        {{"loss", loss}, {"perplexity", perplexity}, {"tokens", n}, {"conversations", file.lines.size()}});
  }
  print(
      fmt::format("loss           {:.6f} nats per learned token\nperplexity     {:.4f}\n"
                  "over           {} learned tokens of {} conversations\n",
                  loss, perplexity, grouped(n), grouped(static_cast<std::int64_t>(file.lines.size()))));
}

void eval_preferences(const Options& o, const ConversationKeys& keys, const PreferenceKeys& preference,
                      const Session& session, const std::string& model, const std::string& path) {
  const SampleFile file = read_file(o, keys, session, model, path, true);
  const GenerateContext context = session.context(o);
  const PreferenceOptions options = preference.options();
  // Without an adapter nothing tells the model from its reference, so its own log-probabilities are compared.
  const bool has_reference = options.has_reference() && !session.applied.empty();
  double mean_chosen = 0;
  for (const auto& samples : file.lines) mean_chosen += static_cast<double>(samples.front().n_learned());
  mean_chosen /= static_cast<double>(file.lines.size());
  Arena arena;
  PairSums sums;
  PairScore total;
  for_each_batch(file, true, [&](const Batch& batch) {
    const auto score = [&](const Modifiers& modifiers) {
      return score_pairs(*session.checkpoint.model, machine_of(context, arena), modifiers, batch);
    };
    const std::vector<PairScore> scores = score(session.applied);
    const std::vector<PairScore> references = has_reference ? score({}) : std::vector<PairScore>(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      AnswerLengths lengths = lengths_of(batch, i);
      lengths.mean_chosen = mean_chosen;
      sums.add(pair_loss(options, scores[i], references[i], lengths));
      total.chosen += scores[i].chosen;
      total.rejected += scores[i].rejected;
    }
  });
  const auto n = static_cast<double>(sums.n);
  const double loss = sums.loss / n, accuracy = static_cast<double>(sums.n_right) / n, margin = sums.margin / n;
  if (o.json) {
    return print_json({{"loss", loss},
                       {"accuracy", accuracy},
                       {"margin", margin},
                       {"chosen_logprob", total.chosen / n},
                       {"rejected_logprob", total.rejected / n},
                       {"reference", has_reference ? Json("base") : Json()},
                       {"pairs", sums.n}});
  }
  print(fmt::format(
      "loss           {:.6f} ({})\naccuracy       {:.4f}\nmargin         {:.6f}\n"
      "log-probability {:.4f} nats of the chosen answers, {:.4f} of the rejected\nover           {} pairs\n",
      loss, preference.objective, accuracy, margin, total.chosen / n, total.rejected / n, grouped(sums.n)));
}

PreferenceOptions PreferenceKeys::options() const {
  using Objective = PreferenceOptions::Objective;
  constexpr std::pair<const char*, Objective> kObjectives[] = {{"dpo", Objective::dpo},
                                                               {"ipo", Objective::ipo},
                                                               {"hinge", Objective::hinge},
                                                               {"simpo", Objective::simpo},
                                                               {"orpo", Objective::orpo}};
  PreferenceOptions options;
  for (const auto& [name, value] : kObjectives) {
    if (objective == name) options.objective = value;
  }
  options.beta = beta;
  options.label_smoothing = label_smoothing;
  options.gamma = gamma;
  return options;
}

void add_preference_keys(Command& command, PreferenceKeys& keys) {
  add_file(command, "--pairs", keys.path, "JSON Lines with a chosen and a rejected answer on each line");
  add_choice(command, "--objective", keys.objective, {"dpo", "ipo", "hinge", "simpo", "orpo"},
             "With --pairs: the loss, as in [preference] of train")
      ->capture_default_str();
  add_number<double>(command, "--beta", keys.beta, "With --pairs: β of the loss (default: 0.1)", 1e-9, 1e9);
  add_number<double>(command, "--label-smoothing", keys.label_smoothing, "With --pairs: ε of dpo (default: 0)", 0, 0.5);
  add_number<double>(command, "--gamma", keys.gamma, "With --pairs: γ of simpo (default: 0)", -1e9, 1e9);
}

}  // namespace vitrine::cli
