// The time that passes between the sites of a forward.
#pragma once

#include <vector>

#include "inspect/account.h"
#include "inspect/text_pass.h"

namespace vitrine {

/// The time from the site before it (of the first one: from the beginning of the pass).
struct SiteTime {
  SiteId site;
  double seconds = 0;
};

/// Taps that only read the clock. They leave out the sites that change how the forward computes: divisors and
/// normalized rows (a norm is then three ops), scores and patterns (attention then stores them), those on demand and
/// those of single experts.
class SiteClock : public Taps {
 public:
  /// Forgets the times, and begins to measure.
  void start();
  bool wants(const SiteId& id) const override;
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  const std::vector<SiteTime>& times() const { return times_; }

 private:
  std::vector<SiteTime> times_;
  double last_ = 0;
};

/// The median of `repeats` passes over a text with logits at its last position. The sum over the sites is the time of
/// the pass up to hook_logits.
std::vector<SiteTime> site_times(const GenerateContext& context, const Tokens& tokens, int repeats = 3);

/// The seconds of the ops of an account, in its order: those of one layer of each group, as the mean over its layers. A
/// time between two sites is shared by the ops between them in proportion to the bytes that they read and write. Each
/// is the shortest of `repeats` passes over the text with logits at every position.
std::vector<double> op_times(const GenerateContext& context, const Tokens& tokens, const Account& account,
                             int repeats = 2);

}  // namespace vitrine
