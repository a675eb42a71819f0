#include "inspect/timing.h"

#include <algorithm>
#include <chrono>

namespace vitrine {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

void SiteClock::start() {
  times_.clear();
  last_ = now();
}

bool SiteClock::wants(const SiteId& id) const {
  const SiteInfo& site = info(id.site);
  if (site.on_demand || site.in_expert()) return false;
  if (id.site == Site::scores_raw || id.site == Site::scores || id.site == Site::pattern) return false;
  return !site.name.ends_with("hook_scale") && !site.name.ends_with("hook_normalized") && id.site != Site::loss;
}

Tensor SiteClock::visit(Pass&, const SiteId& id, const Tensor& value) {
  const double time = now();
  times_.push_back({id, time - last_});
  last_ = time;
  return value;
}

std::vector<SiteTime> site_times(const GenerateContext& context, const Tokens& tokens, int repeats) {
  std::vector<std::vector<double>> seconds;  // [site][run]
  SiteClock clock;
  for (int i = 0; i < repeats; ++i) {
    Arena arena;
    Pass pass = text_pass(context, arena, tokens);
    pass.taps = &clock;
    pass.logits.rows = LogitRequest::Rows::last_of_segments;
    pass.logits.receive = [](std::int64_t, const Tensor&) {};
    clock.start();
    context.model->forward(pass, tokens);
    seconds.resize(clock.times().size());
    for (std::size_t site = 0; site < seconds.size(); ++site) seconds[site].push_back(clock.times()[site].seconds);
  }
  std::vector<SiteTime> medians = clock.times();
  for (std::size_t site = 0; site < medians.size(); ++site) {
    std::sort(seconds[site].begin(), seconds[site].end());
    medians[site].seconds = seconds[site][seconds[site].size() / 2];
  }
  return medians;
}

}  // namespace vitrine
