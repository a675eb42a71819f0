#include "inspect/timing.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "ops/attention_sites.h"

namespace vitrine {
namespace {

constexpr double kFloatBytes = 4;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double bytes_of(const OpCost& cost) { return kFloatBytes * (cost.weights + cost.activations) + cost.kv_bytes; }

/// Taps that read the clock, and divide the time among the ops of a ledger.
class OpClock : public Taps {
 public:
  explicit OpClock(const Ledger& ledger) : ledger_(ledger), last_(now()) {}

  bool wants(const SiteId& id) const override { return sites_.wants(id); }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override {
    const std::span<const LedgerOp> ops = ledger_.ops();
    if (ops.size() == seconds.size()) return value;  // another name of the same value
    const double time = now(), elapsed = time - last_;
    const std::size_t first = seconds.size();
    double total = 0;
    for (std::size_t i = first; i < ops.size(); ++i) total += bytes_of(ops[i].cost);
    for (std::size_t i = first; i < ops.size(); ++i) {
      const double share = total > 0 ? bytes_of(ops[i].cost) / total : 1.0 / static_cast<double>(ops.size() - first);
      seconds.push_back(elapsed * share);
    }
    last_ = time;
    return value;
  }

  std::vector<double> seconds;  ///< Of each op.

 private:
  const Ledger& ledger_;
  SiteClock sites_;
  double last_;
};

/// The ops of one pass, and the shortest times of `repeats` passes.
struct TimedOps {
  Ledger ledger;
  std::vector<double> seconds;
};

TimedOps timed_ops(const GenerateContext& context, const Tokens& tokens, int repeats) {
  TimedOps result;
  Arena arena;  // which the later passes find in memory
  const Arena::Mark start = arena.mark();
  for (int i = 0; i < repeats; ++i) {
    arena.release(start);
    result.ledger = {};
    Pass pass = text_pass(context, arena, tokens);
    pass.ledger = &result.ledger;
    pass.logits = {LogitRequest::Rows::range, 0, static_cast<std::int64_t>(tokens.ids.size()), {}};
    OpClock clock(result.ledger);
    pass.taps = &clock;
    context.model->forward(pass, tokens);
    clock.seconds.resize(result.ledger.ops().size());
    if (i == 0) {
      result.seconds = std::move(clock.seconds);
      continue;
    }
    for (std::size_t op = 0; op < result.seconds.size(); ++op) {
      result.seconds[op] = std::min(result.seconds[op], clock.seconds[op]);
    }
  }
  return result;
}

}  // namespace

std::vector<double> op_times(const GenerateContext& context, const Tokens& tokens, const Account& account,
                             int repeats) {
  const TimedOps timed = timed_ops(context, tokens, repeats);
  enum class Place : std::uint8_t { first, layer, last };
  std::map<std::tuple<Place, Stack, int, std::string>, double> sums;
  bool before = true;
  for (std::size_t i = 0; i < timed.seconds.size(); ++i) {
    const LedgerOp& op = timed.ledger.ops()[i];
    before = before && (op.layer < 0 || op.stack == Stack::encoder);
    const Place place = op.layer >= 0 ? Place::layer : before ? Place::first : Place::last;
    const Stack stack = place == Place::layer ? op.stack : Stack::only;
    sums[{place, stack, std::max(op.layer, -1), account_name(op)}] += timed.seconds[i];
  }
  std::vector<double> result;
  for (const Op& op : account.first) result.push_back(sums[{Place::first, Stack::only, -1, op.name}]);
  for (const Account::Layers& layers : account.layers) {
    for (const Op& op : layers.ops) {
      double sum = 0;
      for (const int layer : layers.group.layers) sum += sums[{Place::layer, layers.stack, layer, op.name}];
      result.push_back(sum / static_cast<double>(layers.group.layers.size()));
    }
  }
  for (const Op& op : account.last) result.push_back(sums[{Place::last, Stack::only, -1, op.name}]);
  return result;
}

void SiteClock::start() {
  times_.clear();
  last_ = now();
}

bool SiteClock::wants(const SiteId& id) const {
  const SiteInfo& site = info(id.site);
  if (site.on_demand || site.in_expert()) return false;
  if (id.site == AttentionSite::scores_raw || id.site == AttentionSite::scores || id.site == AttentionSite::pattern)
    return false;
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
