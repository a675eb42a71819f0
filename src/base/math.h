// vitrine's own versions of the libm functions on which results depend. They compute the same way on every machine: by
// additions, multiplications, divisions and std::fma, all exact or correctly rounded as IEEE 754 requires, in a fixed
// order. The results of libm differ in the last bit between versions and processors.
#pragma once

#include <span>

namespace vitrine::math {

// The largest errors that tests/base/math_test.cpp finds, in units of the last place of a double (ulp): exp 0.9 (1
// where the result is subnormal), log 0.85, the others 0.51 (erfc 0.75 where its value is below 2^-1022). exp and log
// take a few nanoseconds, as those of libm do; the others compute with pairs of doubles and take microseconds.

double exp(double x);
void exp(std::span<const double> x, double* y);  ///< y[i] = exp(x[i]), in half the time.
double log(double x);
double pow(double x, double y);  ///< NaN for x < 0.
double erf(double x);
double erfc(double x);
double tanh(double x);
double sin(double x);  ///< NaN for |x| > 2^20.
double cos(double x);  ///< NaN for |x| > 2^20.
/// The quantile of the standard normal distribution for p in (0, 1), with a relative error of 1e-16.
double normal_quantile(double p);

}  // namespace vitrine::math
