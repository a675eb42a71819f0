// A gated linear unit whose halves are clamped, and whose linear half is moved by one.
//
//   g' = min(g, limit), u' = min(max(u, −limit), limit)
//   y = (u' + 1) · g' · σ(alpha · g')
//   dg = (u' + 1) · σ · (1 + alpha · g' · (1 − σ)) · dy where g ≤ limit, else 0
//   du = g' · σ · dy where |u| ≤ limit, else 0
//
// Source: OpenAI 2025 (gpt-oss).
#pragma once

#include "base/fields.h"
#include "pass/pass.h"

namespace vitrine {

struct ClampedSwiglu {
  float limit = 7;
  float alpha = 1.702f;

  bool operator==(const ClampedSwiglu&) const = default;
};

template <ConfigOf<ClampedSwiglu> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"limit", "the halves of a gated FFN are clamped, the gate from above alone", "none"}, c.limit);
  visit(Field{"alpha", "factor of the gate within the sigmoid"}, c.alpha);
}

Tensor clamped_swiglu(Pass& p, const ClampedSwiglu& c, const Tensor& gate, const Tensor& up);

}  // namespace vitrine
