// Several taps on one pass.
#pragma once

#include <utility>
#include <vector>

#include "pass/pass.h"

namespace vitrine {

/// Each value goes through the taps that want it, in their order.
class TapChain : public Taps {
 public:
  explicit TapChain(std::vector<Taps*> taps) : taps_(std::move(taps)) {}

  bool wants(const SiteId& id) const override {
    for (const Taps* taps : taps_) {
      if (taps->wants(id)) return true;
    }
    return false;
  }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    Tensor result = value;
    for (Taps* taps : taps_) {
      if (taps->wants(id)) result = taps->visit(pass, id, result);
    }
    return result;
  }
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                  const Tensor& factor) override {
    for (Taps* taps : taps_) {
      if (taps->wants(id)) taps->visit_step(pass, id, value, first, count, factor);
    }
  }
  void visit_steps(Pass& pass, const SiteId& id, const Tensor& value) override {
    for (Taps* taps : taps_) {
      if (taps->wants(id)) taps->visit_steps(pass, id, value);
    }
  }
  bool takes_groups(const SiteId& id) const override {
    for (const Taps* taps : taps_) {
      if (taps->wants(id) && !taps->takes_groups(id)) return false;
    }
    return true;
  }
  bool wants_gradient(const SiteId& id) const override {
    for (const Taps* taps : taps_) {
      if (taps->wants_gradient(id)) return true;
    }
    return false;
  }
  void visit_gradient(Pass& pass, const SiteId& id, const Tensor& gradient) override {
    for (Taps* taps : taps_) {
      if (taps->wants_gradient(id)) taps->visit_gradient(pass, id, gradient);
    }
  }
  std::optional<SiteId> last_wanted() const override {
    std::optional<SiteId> last;
    for (const Taps* taps : taps_) {
      const std::optional<SiteId> own = taps->last_wanted();
      if (!own) return {};
      if (!last || precedes(*last, *own)) last = own;
    }
    return last;
  }

 private:
  std::vector<Taps*> taps_;
};

}  // namespace vitrine
