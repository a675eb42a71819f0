// The search of quantize-inl.h for formats with a minimum: x is stored as scale · code − min, with min ≥ 0 where it is
// an integer of the format.
#pragma once

#include "kernels/quantize-inl.h"

namespace vitrine {
namespace {

/// The codes nearest to (x + min) · inverse, from 0 to kMax.
template <int kMax>
[[gnu::always_inline]] inline Vec code_of(Vec x, Vec min, Vec inverse) {
  return clamped(round_even((x + min) * inverse), 0, kMax);
}

struct MinFit {
  Vec scale, min, error;
};

/// Σ w and Σ w x.
struct PartSums {
  Vec w, x;
};

template <int kSize>
PartSums part_sums(const Parts<kSize>& p) {
  PartSums sums = {zero(), zero()};
  for (int i = 0; i < kSize; ++i) {
    sums.w = sums.w + p.w[i];
    sums.x = fma(p.w[i], p.x[i], sums.x);
  }
  return sums;
}

/// Σ w q, Σ w q² and Σ w x q of the codes q.
struct CodeSums {
  Vec q, qq, xq;
};

template <int kMax, int kSize>
[[gnu::always_inline]] inline CodeSums code_sums(const Parts<kSize>& p, Vec min, Vec inverse) {
  CodeSums s = {zero(), zero(), zero()};
  for (int i = 0; i < kSize; ++i) {
    const Vec q = code_of<kMax>(p.x[i], min, inverse), wq = p.w[i] * q;
    s.q = s.q + wq;
    s.qq = fma(wq, q, s.qq);
    s.xq = fma(wq, p.x[i], s.xq);
  }
  return s;
}

/// Σ w (x − step q + min)² of the nearest codes.
template <int kMax, int kSize>
Vec error_of(const Parts<kSize>& p, Vec step, Vec min) {
  const Vec inverse = divided(broadcast(1), step);
  Vec error = zero();
  for (int i = 0; i < kSize; ++i) {
    const Vec shifted_x = p.x[i] + min, q = clamped(round_even(shifted_x * inverse), 0, kMax);
    const Vec difference = shifted_x - step * q;
    error = fma(p.w[i] * difference, difference, error);
  }
  return error;
}

/// Rounds with a scale and a minimum, and tries the scale and the minimum that are best for these codes. A minimum of
/// either sign is allowed if kSigned.
template <int kMax, bool kSigned, int kSize>
void try_fit(const Parts<kSize>& p, const PartSums& all, Vec min, Vec inverse, MinFit& best) {
  const CodeSums s = code_sums<kMax>(p, min, inverse);
  const Vec determinant = all.w * s.qq - s.q * s.q;
  const Mask solvable = less(zero(), determinant);
  Vec new_scale = divided(all.w * s.xq - all.x * s.q, determinant);
  Vec new_min = divided(s.q * s.xq - s.qq * all.x, determinant);
  if constexpr (!kSigned) {
    const Mask negative = less(new_min, zero());
    new_scale = select(negative, divided(s.xq, s.qq), new_scale);
    new_min = select(negative, zero(), new_min);
  }
  const Vec error = error_of<kMax>(p, new_scale, new_min);
  const Vec comparable = select(solvable, error, broadcast(__builtin_inff()));
  const Mask better = less(comparable, best.error);
  best.scale = select(better, new_scale, best.scale);
  best.min = select(better, new_min, best.min);
  best.error = select(better, error, best.error);
}

/// The best scale and minimum of each part. The grid is around the scale for which the codes reach from the smallest to
/// the largest element.
template <int kMax, bool kSigned, int kSize>
MinFit best_scale_and_min(const Parts<kSize>& p) {
  Vec low = kSigned ? p.x[0] : zero(), high = p.x[0];
  for (int i = 0; i < kSize; ++i) {
    low = select(less(p.x[i], low), p.x[i], low);
    high = select(less(high, p.x[i]), p.x[i], high);
  }
  const Vec range = high - low, most = broadcast(kMax);
  const Vec inverse = select(less(broadcast(kNoPart), range), broadcast(1) / range, zero());
  const PartSums all = part_sums(p);
  MinFit best = {range * broadcast(1.0F / kMax), zero() - low, zero()};
  best.error = error_of<kMax>(p, best.scale, best.min);
  for (int step = -10; step <= 10; ++step) {
    const Vec grid = (most + broadcast(0.1F * static_cast<float>(step))) * inverse;
    try_fit<kMax, kSigned>(p, all, best.min, grid, best);
  }
  for (int i = 0; i < 3; ++i) try_fit<kMax, kSigned>(p, all, best.min, divided(broadcast(1), best.scale), best);
  return best;
}

/// The scales d and d_min of each super-block and the integers of its parts.
struct MinChoice {
  Vec d, d_min, scale, min, error;
};

inline void keep_better(const MinChoice& now, MinChoice& best) {
  const Mask better = less(now.error, best.error);
  best.d = select(better, now.d, best.d);
  best.d_min = select(better, now.d_min, best.d_min);
  best.scale = select(better, now.scale, best.scale);
  best.min = select(better, now.min, best.min);
  best.error = select(better, now.error, best.error);
}

/// The integers of each part, next to those of its fit, that give the smallest error with d and d_min.
template <int kMax, int kIntegers, int kSize>
MinChoice nearby_integers(const Parts<kSize>& p, const MinFit& fit, Vec d, Vec d_min) {
  MinChoice best = {d, d_min, zero(), zero(), broadcast(__builtin_inff())};
  const Vec scale = round_even(divided(fit.scale, d)), min = round_even(divided(fit.min, d_min));
  for (int i = 0; i < 9; ++i) {
    MinChoice now = best;
    now.scale = clamped(scale + broadcast(static_cast<float>(i / 3 - 1)), 0, kIntegers);
    now.min = clamped(min + broadcast(static_cast<float>(i % 3 - 1)), 0, kIntegers);
    now.error = error_of<kMax>(p, d * now.scale, d_min * now.min);
    keep_better(now, best);
  }
  return best;
}

/// For kGroup parts that share d and d_min, and integers from 0 to kIntegers.
template <int kMax, int kGroup, int kIntegers, int kSize>
MinChoice choose_scales_and_mins(const Parts<kSize>& p) {
  const MinFit fit = best_scale_and_min<kMax, false>(p);
  const PartSums all = part_sums(p);
  const Vec per_integer = broadcast(1.0F / kIntegers);
  Vec d = to_half(extreme_of_group<kGroup>(fit.scale) * per_integer);
  Vec d_min = to_half(extreme_of_group<kGroup>(fit.min) * per_integer);
  MinChoice best = {zero(), zero(), zero(), zero(), broadcast(__builtin_inff())};
  for (int round = 0; round < 3; ++round) {
    MinChoice now = nearby_integers<kMax, kIntegers>(p, fit, d, d_min);
    const CodeSums s = code_sums<kMax>(p, d_min * now.min, divided(broadcast(1), d * now.scale));
    now.error = sum_of_group<kGroup>(now.error);
    keep_better(now, best);
    // The d and d_min that are best for these codes solve two linear equations.
    const auto sum = [](Vec a) { return sum_of_group<kGroup>(a); };
    const Vec ss = sum(now.scale * now.scale * s.qq), sm = sum(now.scale * now.min * s.q);
    const Vec mm = sum(now.min * now.min * all.w), xs = sum(now.scale * s.xq), xm = sum(now.min * all.x);
    const Vec determinant = ss * mm - sm * sm;
    const Mask solvable = less(zero(), determinant);
    d = to_half(select(solvable, (xs * mm - xm * sm) / determinant, divided(xs, ss)));
    d_min = to_half(select(solvable, (xs * sm - xm * ss) / determinant, d_min));
  }
  return best;
}

/// The scale and the minimum of each part in half precision.
template <int kMax, int kSize>
MinFit choose_half_scale_and_min(const Parts<kSize>& p) {
  const MinFit fit = best_scale_and_min<kMax, true>(p);
  MinFit best = {to_half(fit.scale), to_half(fit.min), zero()};
  best.error = error_of<kMax>(p, best.scale, best.min);
  return best;
}

}  // namespace
}  // namespace vitrine
