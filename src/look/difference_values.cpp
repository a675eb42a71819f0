#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "inspect/text_pass.h"
#include "look/figures.h"

namespace vitrine {
namespace {

/// KL(before ‖ after) in nats.
double divergence(std::span<const float> before, std::span<const float> after) {
  const double own = log_sum_exp(before), other = log_sum_exp(after);
  double sum = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double log_p = static_cast<double>(before[i]) - own, p = math::exp(log_p);
    if (p > 0) sum += p * (log_p - (static_cast<double>(after[i]) - other));
  }
  return sum;
}

/// rms(after − before) / rms(before)
double relative_change(std::span<const float> before, std::span<const float> after) {
  double change = 0, size = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double x = static_cast<double>(before[i]), d = static_cast<double>(after[i]) - x;
    change += d * d;
    size += x * x;
  }
  return std::sqrt(change / size);
}

/// The most likely tokens after the followed position of either run, those of the first run first.
std::vector<std::int32_t> candidates(const Recording& before, const Recording& after) {
  std::vector<std::int32_t> ids;
  const auto p = static_cast<std::size_t>(before.position);
  for (const auto* top : {&before.top[p], &after.top[p]}) {
    for (const TokenLogprob& t : *top) {
      if (std::find(ids.begin(), ids.end(), t.id) == ids.end()) ids.push_back(t.id);
    }
  }
  return ids;
}

}  // namespace

void add_difference_values(const Recording& before, const Recording& after, LookData& data) {
  const std::int64_t n = before.n_tokens();
  std::vector<double> kl, stream, probs;
  for (std::int64_t t = 0; t < n; ++t)
    kl.push_back(divergence(before.row("hook_logits", t), after.row("hook_logits", t)));
  std::vector<std::string> names;
  for (const SiteId& state : stream_states(*before.facts.config, true)) {
    names.push_back(name_of(state));
    for (std::int64_t t = 0; t < n; ++t) {
      stream.push_back(relative_change(before.row(names.back(), t), after.row(names.back(), t)));
    }
  }
  const std::vector<std::int32_t> ids = candidates(before, after);
  for (const std::int32_t id : ids) {
    for (const Recording* r : {&before, &after}) probs.push_back(math::exp(logprob(r->logits(), id)));
  }
  data.add("difference", "difference.kl", kl);
  data.add("difference", "difference.stream", {static_cast<std::int64_t>(names.size()), n}, stream);
  data.label(names);
  data.add("difference", "difference.id", ids);
  data.add("difference", "difference.prob", {static_cast<std::int64_t>(ids.size()), 2}, probs);
}

}  // namespace vitrine
