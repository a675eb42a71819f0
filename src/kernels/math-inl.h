// exp, tanh, sin, cos and the activations on vectors, by argument reduction and minimax polynomials fitted for this
// file. Errors are measured in tests/kernels/math_test.cpp.
#pragma once

namespace vitrine {
namespace {

/// The smaller of a and limit; NaN if a is NaN.
inline Vec at_most(Vec a, float limit) { return select(less(broadcast(limit), a), broadcast(limit), a); }
inline Vec at_least(Vec a, float limit) { return select(less(a, broadcast(limit)), broadcast(limit), a); }

/// highest · x^n + … + lowest by Horner's rule, with the coefficients in order of descending powers.
template <class... Rest>
Vec polynomial(Vec x, float highest, Rest... lower) {
  Vec sum = broadcast(highest);
  ((sum = fma(sum, x, broadcast(lower))), ...);
  return sum;
}

// ln 2 as the sum of two floats. n · kLn2High has at most 32 bits and is exact in the fused reduction.
constexpr float kLog2E = 1.44269504f;
constexpr float kLn2High = 0.693147182f;
constexpr float kLn2Low = -1.90465421e-9f;

/// exp(x) = 2^n · exp(r), |r| ≤ ln 2 / 2 (Cody and Waite), exp(r) = 1 + r + r² q(r).
inline Vec exp(Vec x) {
  // Beyond these bounds the result is +0 or infinity, by the rounding of the last step.
  const Vec bounded = at_most(at_least(x, -104.0f), 89.0f);
  const Vec n = round_even(bounded * broadcast(kLog2E));
  const Vec r = fma(n, broadcast(-kLn2Low), fma(n, broadcast(-kLn2High), bounded));
  const Vec q = polynomial(r, 0.00138200796f, 0.00836868398f, 0.0416682735f, 0.166665211f, 0.49999994f);
  const Vec one = broadcast(1.0f);
  return times_power_of_two(one + fma(r * r, q, r), n);
}

/// exp(x) − 1 − x without cancellation near 0: the polynomial of exp there.
inline Vec exp_minus_line(Vec x) {
  const Vec q = polynomial(x, 0.00138200796f, 0.00836868398f, 0.0416682735f, 0.166665211f, 0.49999994f);
  const Vec far = (exp(x) - broadcast(1.0f)) - x;
  return select(less(abs(x), broadcast(0.34f)), x * x * q, far);
}

/// tanh x = x + x³ p(x²) near 0, 1 − 2 / (exp(2x) + 1) elsewhere; odd to the last bit.
inline Vec tanh(Vec x) {
  const Vec magnitude = abs(x);
  const Vec square = magnitude * magnitude;
  const Vec p =
      polynomial(square, -0.00569229666f, 0.0206281673f, -0.0537365153f, 0.133314058f, -0.333332807f) * square;
  const Vec near_zero = fma(p, magnitude, magnitude);
  const Vec one = broadcast(1.0f);
  const Vec far = one - broadcast(2.0f) / (exp(magnitude + magnitude) + one);
  return with_sign_of(select(less(magnitude, broadcast(0.625f)), near_zero, far), x);
}

struct SinCos {
  Vec sin, cos;
};

/// x = n · π/2 + r with π/2 in three floats (Cody and Waite); then Taylor-like minimax polynomials on |r| ≤ π/4.
inline SinCos sin_cos(Vec x) {
  const Vec n = round_even(x * broadcast(0.636619772f));
  const Vec high = fma(n, broadcast(-1.57079637f), x);
  const Vec r = fma(n, broadcast(1.77635684e-15f), fma(n, broadcast(4.37113883e-8f), high));
  const Vec square = r * r;
  const Vec sin_p = polynomial(square, -0.000195078814f, 0.00833210628f, -0.166666538f);
  const Vec sin_r = fma(sin_p * square, r, r);
  const Vec cos_p = polynomial(square, 2.44314251e-5f, -0.00138873048f, 0.0416666456f, -0.5f);
  const Vec cos_r = fma(cos_p, square, broadcast(1.0f));

  const Vec one = broadcast(1.0f);
  const Vec minus_one = broadcast(-1.0f);
  const Vec half = broadcast(0.5f);
  const Vec quadrant = fma(round_even(n * broadcast(0.25f)), broadcast(-4.0f), n);  // n mod 4 as −2 … 2
  const Mask odd = less(abs(abs(quadrant) - one), half);
  const Vec sin_sign = select(less(one, abs(quadrant - half)), minus_one, one);  // −2, −1 and 2
  const Vec cos_sign = select(less(one, abs(quadrant + half)), minus_one, one);  // −2, 1 and 2
  return {sin_sign * select(odd, cos_r, sin_r), cos_sign * select(odd, sin_r, cos_r)};
}

/// x / (1 + exp(−a)) without overflow: for a < 0 as x exp(a) / (1 + exp(a)).
inline Vec times_sigmoid(Vec x, Vec a) {
  const Vec one = broadcast(1.0f);
  const Vec e = exp(zero() - abs(a));
  return x * select(less(a, zero()), e, one) / (one + e);
}

/// log(1 + exp(x)) = max(x, 0) + log1p(e), e = exp(−|x|): log1p(e) = 2 atanh(s) with s = e / (2 + e) ≤ 1/3, by its
/// series 2s + 2s³ r(s²), computed as e − s (e − 2s² r), for 2s = e − s e.
inline Vec softplus(Vec x) {
  const Vec e = exp(zero() - abs(x));
  const Vec s = e / (broadcast(2.0f) + e);
  const Vec square = s * s;
  const Vec r = polynomial(square, 1.0f / 15, 1.0f / 13, 1.0f / 11, 1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3);
  const Vec log1p = fma(zero() - s, e - (square + square) * r, e);
  return select(is_nan(x), x, select(less(zero(), x), x, zero())) + log1p;
}

/// erfc(x / √2) for x ≥ 0 = exp(−x²/2) p(u), u = (x − 4.125) / (x + 4.125) (after Shepherd and Laframboise 1981). The
/// square is computed in two parts, so that the relative error stays small where the value is small.
inline Vec erfc_of_scaled(Vec x) {
  const Vec bounded = at_most(x, 14.5f);  // exp(−14.5²/2) is 0
  const Vec half = broadcast(0.5f);
  const Vec square = bounded * bounded;
  const Vec rest = fma(bounded, bounded, zero() - square);
  const Vec e = exp(zero() - half * square);
  const Vec gauss = fma(e, zero() - half * rest, e);
  const Vec pole = broadcast(4.125f);
  const Vec u = (bounded - pole) / (bounded + pole);
  return gauss * polynomial(u, 3.74272204e-05f, -4.47023449e-05f, -0.000488896098f, 0.0010729658f, 0.00258713937f,
                            -0.0207851864f, 0.0669850037f, -0.147085071f, 0.24723728f, -0.33316341f, 0.183636636f);
}

inline Vec relu(Vec x) { return select(less(x, zero()), zero(), x); }

/// x / (1 + exp(−x))
inline Vec silu(Vec x) { return times_sigmoid(x, x); }

/// x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), computed as x σ(2 √(2/π) (x + 0.044715 x³)), which is the same without
/// cancellation.
inline Vec gelu_tanh(Vec x) {
  constexpr float kTwoRootTwoOverPi = 1.59576912f;
  const Vec cubic = fma(broadcast(0.044715f * kTwoRootTwoOverPi), x * x, broadcast(kTwoRootTwoOverPi));
  return times_sigmoid(x, x * cubic);
}

/// 1 + erf(x / √2). Near 0, it uses the odd polynomial x p(x²) for erf; elsewhere, it is erfc(|x| / √2) for x < 0 and 2
/// − erfc(|x| / √2) for x > 0, without cancellation.
inline Vec one_plus_erf(Vec x) {
  const Vec erf_over_x =
      polynomial(x * x, -1.63372515e-05f, 0.000230034682f, -0.00237603881f, 0.0199483261f, -0.132981077f, 0.797884583f);
  const Vec near_zero = fma(x, erf_over_x, broadcast(1.0f));
  const Vec tail = erfc_of_scaled(abs(x));
  const Vec far = select(less(x, zero()), tail, broadcast(2.0f) - tail);
  return select(less(abs(x), broadcast(1.0f)), near_zero, far);
}

/// x/2 (1 + erf(x / √2))
inline Vec gelu_erf(Vec x) { return broadcast(0.5f) * x * one_plus_erf(x); }

}  // namespace
}  // namespace vitrine
