#include "cli/against.h"

#include <fmt/format.h>

#include "base/math.h"
#include "cli/progress.h"
#include "cli/table.h"

namespace vitrine::cli {

std::vector<std::int32_t> text_ids(const Session& session, std::string_view text, SpecialTokens policy) {
  std::vector<std::int32_t> ids = session.tokenizer->encode(text, policy);
  const bool begins_with_bos = !ids.empty() && session.bos() && ids.front() == *session.bos();
  if (policy == SpecialTokens::apply && begins_with_bos) ids.erase(ids.begin());
  return ids;
}

Compared evaluate_against(const GenerateContext& own, const GenerateContext& other, bool layers,
                          std::span<const std::int32_t> text, const EvalConfig& config) {
  ModelComparison comparison(own, other, layers);
  ProgressBar bar("compare");
  const ScoreWindow score_window = [&](std::span<const std::int32_t> ids, std::int64_t first_row,
                                       const std::function<void(std::int64_t)>& done) {
    const double nats = comparison.add(ids, first_row);
    done(static_cast<std::int64_t>(ids.size()));
    return nats;
  };
  const Evaluation evaluation = evaluate_windows(own, text, config, score_window, bar.reporter());
  return {evaluation, comparison.result()};
}

void add_difference(const ModelDifference& d, Json& object) {
  const auto n = static_cast<double>(d.tokens);
  object["against"] = {{"loss", d.nats / n},
                       {"ln_ppl_ratio", (d.own_nats - d.nats) / n},
                       {"kl",
                        {{"mean", d.kl.mean},
                         {"stderr", d.kl.stderr_of_mean},
                         {"median", d.kl.median},
                         {"p90", d.kl.p90},
                         {"p99", d.kl.p99},
                         {"p999", d.kl.p999},
                         {"max", d.kl.max}}},
                       {"same_top", d.same_top},
                       {"dp_rms", d.dp_rms},
                       {"tokens", d.tokens}};
  if (d.resid_errors.empty()) return;
  Json layers = Json::array();
  for (std::size_t i = 0; i < d.resid_errors.size(); ++i) {
    layers.push_back({{"layer", i}, {"resid_error", d.resid_errors[i]}});
  }
  object["layers"] = layers;
}

std::string to_string(const ModelDifference& d) {
  const auto n = static_cast<double>(d.tokens);
  std::string text = fmt::format(
      "against        {:.6f} nats per token, perplexity ratio {:.5f}\n"
      "KL divergence  mean {:.3e} ± {:.1e}, median {:.1e}, 90 % {:.1e}, 99 % {:.1e}, 99.9 % {:.1e}, max {:.1e}\n"
      "same top       {:.2f} %\nΔp             {:.4f} (root mean square, of the tokens of the text)\n",
      d.nats / n, math::exp((d.own_nats - d.nats) / n), d.kl.mean, d.kl.stderr_of_mean, d.kl.median, d.kl.p90, d.kl.p99,
      d.kl.p999, d.kl.max, 100 * d.same_top, d.dp_rms);
  if (d.resid_errors.empty()) return text;
  Table table({{"layer", Table::Align::right}, {"error of the stream", Table::Align::right}});
  for (std::size_t i = 0; i < d.resid_errors.size(); ++i) {
    table.add({fmt::format("{}", i), fmt::format("{:.2f} %", 100 * d.resid_errors[i])});
  }
  return text + table.text();
}

}  // namespace vitrine::cli
