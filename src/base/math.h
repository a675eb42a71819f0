// The functions of libm that results depend on, computed the same way on every machine: by additions, multiplications,
// divisions and std::fma, all exact or correctly rounded by IEEE 754, in a fixed order. libm's own differ in the last
// bit between versions and processors.
#pragma once

namespace vitrine::math {

// The largest errors that tests/base/math_test.cpp finds, in units of the last place of a double (ulp): exp 0.9 (1
// where the result is subnormal), log 0.85, the others 0.51 (erfc 0.75 where its value is below 2^-1022). exp and log
// take some nanoseconds, as libm's do; the others compute with pairs of doubles and take microseconds.

double exp(double x);
double log(double x);
double pow(double x, double y);  ///< NaN for x < 0.
double erf(double x);
double erfc(double x);
double tanh(double x);
double sin(double x);  ///< NaN for |x| > 2^20.
double cos(double x);  ///< NaN for |x| > 2^20.

}  // namespace vitrine::math
