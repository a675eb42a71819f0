// Several taps on one pass.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "pass/pass.h"

namespace vitrine {

/// Each value goes through the taps that want it, in their order. What one of them needs of the whole pass holds for
/// all: joined segments, and the end of the pass at a failure.
class TapChain : public Taps {
 public:
  explicit TapChain(std::vector<Taps*> taps) : taps_(std::move(taps)) {}

  bool wants(const SiteId& id) const override { return any_of(&Taps::wants, id); }
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
  bool ends_at_failure() const override { return any_of(&Taps::ends_at_failure); }
  bool joins_segments() const override { return any_of(&Taps::joins_segments); }
  bool takes_groups(const SiteId& id) const override {
    for (const Taps* taps : taps_) {
      if (taps->wants(id) && !taps->takes_groups(id)) return false;
    }
    return true;
  }
  bool wants_gradient(const SiteId& id) const override { return any_of(&Taps::wants_gradient, id); }
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
  template <class Answer, class... Question>
  bool any_of(Answer answer, const Question&... question) const {
    return std::any_of(taps_.begin(), taps_.end(),
                       [&](const Taps* taps) { return std::invoke(answer, taps, question...); });
  }

  std::vector<Taps*> taps_;
};

}  // namespace vitrine
