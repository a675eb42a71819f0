// The taps of a Watch.
#pragma once

#include <string>
#include <vector>

#include "inspect/recorder.h"
#include "pass/pass.h"
#include "vitrine/vitrine.h"

namespace vitrine {

/// Passes each selected value to the caller's function; the forward continues with what the function makes of it.
class SiteWatcher : public Taps {
 public:
  /// Throws BadInput for a Watch with two functions.
  SiteWatcher(const Watch& watch, const SiteLayers& layers);
  bool is_watching() const { return static_cast<bool>(tap_); }
  bool wants(const SiteId& id) const override;
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                  const Tensor& factor) override;
  void visit_steps(Pass&, const SiteId&, const Tensor&) override {}
  std::optional<SiteId> last_wanted() const override;
  /// Throws BadInput if a glob has matched no site in the passes so far.
  void check_all_met() const;

 protected:
  /// The replacement, or `value` if there is none.
  Tensor replaced(Pass& pass, const SiteId& id, const Tensor& value);
  const SiteSelection& sites() const { return sites_; }

 private:
  std::vector<std::string> globs_;
  std::vector<bool> glob_met_;
  SiteSelection sites_;
  SiteTap tap_;
};

}  // namespace vitrine
