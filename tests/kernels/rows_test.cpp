// Kernels over one row: their definitions in kernels.h, every length and misalignment, and no byte outside the arrays.
#include <functional>

#include "kernels/kernel_testing.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxLength = 35;

/// One kernel with its numbers filled in. a, b, c: n floats each. y: 2n + 1 floats, what the kernel writes or returns.
using Run = std::function<void(const Kernels& k, const float* a, const float* b, const float* c, std::int64_t n,
                               float* y)>;

struct RowCase {
  std::string name;
  Run run;
  Run definition;  // the comment of kernels.h written out; empty for approximations, which math_test.cpp measures
  bool in_place = true;
};

float lane_sum(std::int64_t n, const std::function<float(std::int64_t i, float so_far)>& add) {
  float lane[16] = {};
  for (std::int64_t i = 0; i < (n + 15) / 16 * 16; ++i) lane[i % 16] = i < n ? add(i, lane[i % 16]) : lane[i % 16] + 0.0f;
  return sum_of_lanes(lane);
}

RowCase sums(std::string name, Run run, std::function<float(const float* a, std::int64_t n)> definition) {
  return {std::move(name), std::move(run),
          [definition](const Kernels&, const float* a, const float*, const float*, std::int64_t n, float* y) {
            y[0] = definition(a, n);
          },
          false};
}

RowCase elementwise(std::string name, Run run, std::function<float(float a, float b, float c)> definition) {
  return {std::move(name), std::move(run),
          [definition](const Kernels&, const float* a, const float* b, const float* c, std::int64_t n, float* y) {
            for (std::int64_t i = 0; i < n; ++i) y[i] = definition(a[i], b[i], c[i]);
          }};
}

#define VITRINE_RUN \
  [=]([[maybe_unused]] const Kernels& k, [[maybe_unused]] const float* a, [[maybe_unused]] const float* b, \
      [[maybe_unused]] const float* c, [[maybe_unused]] std::int64_t n, [[maybe_unused]] float* y)
