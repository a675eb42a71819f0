#include "base/math.h"
#include "base/rng.h"
#include "look/figures.h"

namespace vitrine {

void add_text_values(const Recording& r, LookData& data) {
  const std::int64_t n = r.n_tokens();
  std::vector<std::int32_t> ids;
  std::vector<double> probs;
  for (const std::vector<TokenLogprob>& top : r.top) {
    for (const TokenLogprob& t : top) {
      ids.push_back(t.id);
      probs.push_back(math::exp(t.logprob));
    }
  }
  const auto k = static_cast<std::int64_t>(r.top.front().size());
  data.add(kTextBlock, "tokens.logprob", r.logprob);
  data.add(kTextBlock, "tokens.rank", r.rank);
  data.add(kTextBlock, "top.id", {n, k}, ids);
  data.add(kTextBlock, "top.prob", {n, k}, probs);
}

void add_funnel_values(const Recording& r, const SamplingConfig& sampling, std::uint64_t seed, LookData& data) {
  const auto end = r.facts.ids.begin() + r.position + 1;
  const std::vector<std::int32_t> history(r.facts.ids.begin(), end);
  const std::vector<FunnelToken> tokens = sampling_funnel(r.logits(), history, sampling);
  std::vector<std::int32_t> ids, kept;
  std::vector<double> logits, probs;
  for (const FunnelToken& t : tokens) {
    ids.push_back(t.id);
    logits.push_back(t.logit);
    probs.push_back(t.prob);
    kept.push_back(static_cast<std::int32_t>(t.removed));
  }
  data.add("funnel", "funnel.id", ids);
  data.add("funnel", "funnel.logit", logits);
  data.add("funnel", "funnel.prob", probs);
  data.add("funnel", "funnel.kept", kept);
  const std::vector<double> draw = {uniform(seed, 0, 0)};
  data.add("funnel", "funnel.draw", {}, draw);
}

}  // namespace vitrine
