// The taps of a Watch.
#pragma once

#include <vector>

#include "inspect/recorder.h"
#include "model/config.h"
#include "pass/pass.h"
#include "vitrine/vitrine.h"

namespace vitrine {

/// Hands a copy of each chosen value to the caller's function; what the function leaves there takes the value's place.
class SiteWatcher : public Taps {
 public:
  SiteWatcher(const Watch& watch, const ModelConfig& config);
  bool wants(const SiteId& id) const override;
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  /// Throws BadInput where a glob met no site in the passes so far.
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
