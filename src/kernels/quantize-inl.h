// The search for the scales of a part: a run of elements that share a scale, and in some formats a minimum. Sixteen
// parts are searched at a time, one in each lane, so a lane computes the same operations whatever is next to it.
//
// Every element has a weight, and what is minimized is Σ w (x − y)², where y is the stored value. For given codes the
// best scale follows from a linear equation, and for a given scale the best codes are the nearest ones; so scales on a
// grid are rounded to codes, which give their best scale. The integers of a super-block are chosen by the errors that
// they really make, and its scale from all of its codes. The header of a vector type is included before this one.
#pragma once

#include "kernels/kernels.h"

namespace vitrine {
namespace {

/// Sixteen parts: element i of each.
template <int kSize>
struct Parts {
  Vec x[kSize];
  Vec w[kSize];
};

/// a / b; 0 where b is 0.
inline Vec divided(Vec a, Vec b) { return select(less(zero(), abs(b)), a / b, zero()); }
inline Vec clamped(Vec a, float low, float high) {
  a = select(less(a, broadcast(low)), broadcast(low), a);
  return select(less(broadcast(high), a), broadcast(high), a);
}
inline Vec to_half(Vec a) {
  std::uint16_t halves[kLanes];
  store_f16(a, halves);
  return load_f16(halves);
}

/// The sum over each group of kGroup neighboring lanes, in all of its lanes.
template <int kGroup>
inline Vec sum_of_group(Vec a) {
  float lanes[kLanes];
  store_f32(a, lanes);
  for (int first = 0; first < kLanes; first += kGroup) {
    float sum = 0;
    for (int l = first; l < first + kGroup; ++l) sum += lanes[l];
    for (int l = first; l < first + kGroup; ++l) lanes[l] = sum;
  }
  return load_f32(lanes);
}

/// The lane of each group with the largest magnitude, in all of its lanes.
template <int kGroup>
inline Vec extreme_of_group(Vec a) {
  float lanes[kLanes];
  store_f32(a, lanes);
  for (int first = 0; first < kLanes; first += kGroup) {
    float extreme = 0;
    for (int l = first; l < first + kGroup; ++l) {
      if (__builtin_fabsf(extreme) < __builtin_fabsf(lanes[l])) extreme = lanes[l];
    }
    for (int l = first; l < first + kGroup; ++l) lanes[l] = extreme;
  }
  return load_f32(lanes);
}

// What the codes of a format without a minimum stand for.

/// Whole numbers from −kHalf to kHalf − 1.
template <int kHalf>
struct Integers {
  static constexpr float kLowest = -kHalf, kHighest = kHalf - 1;
  static constexpr float kStep = 0.1F;  // of the grid of scales
  static Vec nearest(Vec t) { return clamped(round_even(t), kLowest, kHighest); }
  static Vec code(Vec t) { return nearest(t) + broadcast(kHalf); }
};

/// The values of iq4_nl and iq4_xs.
struct NonLinear {
  static constexpr float kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static constexpr float kLowest = -127, kHighest = 113;
  static constexpr float kStep = 1.0F;
  /// Calls step(i, mask) for i from 1 to 15: the lanes whose nearest value is i or a later one.
  template <class Step>
  [[gnu::always_inline]] static void each_step(Vec t, Step step) {
    for (int i = 1; i < 16; ++i) step(i, less(broadcast((kValues[i - 1] + kValues[i]) / 2), t));
  }
  static Vec nearest(Vec t) {
    Vec value = broadcast(kLowest);
    each_step(t, [&](int i, Mask above) { value = select(above, broadcast(kValues[i]), value); });
    return value;
  }
  static Vec code(Vec t) {
    Vec index = zero();
    each_step(t, [&](int i, Mask above) { index = select(above, broadcast(static_cast<float>(i)), index); });
    return index;
  }
};

/// A scale, and by how much it reduces Σ w x².
struct ScaleFit {
  Vec scale, gain;
};

/// Σ w x v and Σ w v² of the values v nearest to x · inverse.
struct ScaleSums {
  Vec xv, vv;
};

template <class Levels, int kSize>
[[gnu::always_inline]] inline ScaleSums sums_of(const Parts<kSize>& p, Vec inverse) {
  ScaleSums s = {zero(), zero()};
  for (int i = 0; i < kSize; ++i) {
    const Vec v = Levels::nearest(p.x[i] * inverse), wv = p.w[i] * v;
    s.xv = fma(wv, p.x[i], s.xv);
    s.vv = fma(wv, v, s.vv);
  }
  return s;
}

/// By this much a scale must be better, so that rounding does not choose among scales that are equally good.
constexpr float kBetter = 1 + 5e-7F;

template <class Levels, int kSize>
void try_inverse(const Parts<kSize>& p, Vec inverse, ScaleFit& best) {
  const ScaleSums s = sums_of<Levels>(p, inverse);
  const Vec scale = divided(s.xv, s.vv), gain = scale * s.xv;
  const Mask better = less(best.gain * broadcast(kBetter), gain);
  best.scale = select(better, scale, best.scale);
  best.gain = select(better, gain, best.gain);
}

constexpr float kNoPart = 1e-30F;  // a part whose elements are all smaller is stored as 0

/// The best scale of each part. The grid is around the scales for which the largest element has the lowest or the
/// highest value.
template <class Levels, int kSize>
ScaleFit best_scale(const Parts<kSize>& p) {
  Vec extreme = zero();
  for (int i = 0; i < kSize; ++i) extreme = select(less(abs(extreme), abs(p.x[i])), p.x[i], extreme);
  const Vec inverse = select(less(broadcast(kNoPart), abs(extreme)), broadcast(1) / extreme, zero());
  ScaleFit best = {zero(), zero()};
  for (int step = -9; step <= 9; ++step) {
    const float by = Levels::kStep * static_cast<float>(step);
    try_inverse<Levels>(p, broadcast(Levels::kLowest + by) * inverse, best);
    try_inverse<Levels>(p, broadcast(Levels::kHighest + by) * inverse, best);
  }
  for (int i = 0; i < 3; ++i) try_inverse<Levels>(p, divided(broadcast(1), best.scale), best);
  return best;
}

/// Σ w (x − step v)² of the nearest values.
template <class Levels, int kSize>
Vec error_of(const Parts<kSize>& p, Vec step) {
  const Vec inverse = divided(broadcast(1), step);
  Vec error = zero();
  for (int i = 0; i < kSize; ++i) {
    const Vec v = Levels::nearest(p.x[i] * inverse), difference = p.x[i] - step * v;
    error = fma(p.w[i] * difference, difference, error);
  }
  return error;
}

/// The scale d of each super-block and the integers of its parts.
struct ScaleChoice {
  Vec d, integer, error;
};

/// For kGroup parts that share a d, integers from kLow to −kLow − 1.
template <class Levels, int kGroup, int kLow, int kSize>
ScaleChoice choose_scales(const Parts<kSize>& p) {
  const Vec scale = best_scale<Levels>(p).scale;
  ScaleChoice best = {zero(), zero(), broadcast(__builtin_inff())};
  const Vec extreme = extreme_of_group<kGroup>(scale);
  for (const float low : {static_cast<float>(kLow), static_cast<float>(-kLow - 1)}) {
    Vec d = to_half(extreme * broadcast(1 / low));
    for (int round = 0; round < 3; ++round) {
      ScaleChoice now = {d, zero(), broadcast(__builtin_inff())};
      const Vec nearest = round_even(divided(scale, d));
      const auto try_integer = [&](Vec to) {
        const Vec integer = clamped(to, kLow, -kLow - 1), error = error_of<Levels>(p, d * integer);
        const Mask better = less(error, now.error);
        now.integer = select(better, integer, now.integer);
        now.error = select(better, error, now.error);
      };
      for (int by = -1; by <= 1; ++by) try_integer(nearest + broadcast(static_cast<float>(by)));
      try_integer(zero() - nearest);  // few codes are as good with the other sign, which may not have to be clamped
      const ScaleSums s = sums_of<Levels>(p, divided(broadcast(1), d * now.integer));
      now.error = sum_of_group<kGroup>(now.error);
      const Mask better = less(now.error, best.error);
      best.d = select(better, now.d, best.d);
      best.integer = select(better, now.integer, best.integer);
      best.error = select(better, now.error, best.error);
      d = to_half(
          divided(sum_of_group<kGroup>(now.integer * s.xv), sum_of_group<kGroup>(now.integer * now.integer * s.vv)));
    }
  }
  return best;
}

/// The scale of each part in half precision.
template <class Levels, int kSize>
Vec choose_half_scale(const Parts<kSize>& p) {
  Vec best = to_half(best_scale<Levels>(p).scale), error = error_of<Levels>(p, best);
  for (int round = 0; round < 2; ++round) {
    const ScaleSums s = sums_of<Levels>(p, divided(broadcast(1), best));
    const Vec d = to_half(divided(s.xv, s.vv)), now = error_of<Levels>(p, d);
    const Mask better = less(now, error);
    best = select(better, d, best);
    error = select(better, now, error);
  }
  return best;
}

}  // namespace
}  // namespace vitrine
