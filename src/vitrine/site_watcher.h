// The taps of a Watch.
#pragma once

#include <vector>

#include "inspect/recorder.h"
#include "model/config.h"
#include "pass/pass.h"
#include "vitrine/vitrine.h"

namespace vitrine {

/// Passes a copy of each selected value to the caller's function; the forward continues with the copy as the function
/// leaves it.
class SiteWatcher : public Taps {
 public:
  SiteWatcher(const Watch& watch, const ModelConfig& config);
  bool wants(const SiteId& id) const override;
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                  const Tensor& factor) override;
  void visit_steps(Pass&, const SiteId&, const Tensor&) override {}
  /// Throws BadInput if a glob has matched no site in the passes so far.
  void check_all_met() const;

 private:
  struct Glob {
    std::string text;
    SiteSelection sites;
    bool is_met = false;
  };

  std::vector<Glob> globs_;
  SiteFunction function_;
};

}  // namespace vitrine
