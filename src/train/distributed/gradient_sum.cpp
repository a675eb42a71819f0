#include "train/distributed/gradient_sum.h"

#include <algorithm>
#include <utility>

namespace vitrine {

void GradientSum::clear() {
  for (ZeroMemory& sum : sums_) spare_.push_back(std::move(sum));
  sums_.clear();
  n_ = 0;
}

void GradientSum::begin(ThreadPool& pool) {
  const std::span<float> all = gradients_.values();
  pool.parallel_for(static_cast<std::int64_t>(all.size()), kGrain, [&](std::int64_t first, std::int64_t end, int) {
    std::fill(all.begin() + first, all.begin() + end, 0.0f);
  });
}

/// The kept sums form a binary counter: each set bit of n_ has one sum.
void GradientSum::add(ThreadPool& pool, const Kernels& k) {
  for (std::int64_t n = n_++; n % 2 == 1; n /= 2) add_last(pool, k);
  if (spare_.empty()) spare_.emplace_back();
  sums_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  gradients_.exchange(sums_.back());
}

void GradientSum::finish(ThreadPool& pool, const Kernels& k) {
  gradients_.exchange(sums_.back());
  spare_.push_back(std::move(sums_.back()));
  sums_.pop_back();
  while (!sums_.empty()) add_last(pool, k);
  n_ = 0;
}

void GradientSum::finish_last(ThreadPool& pool, const Kernels& k, std::int64_t first, std::int64_t end) const {
  float* const total = gradients_.values().data();
  pool.parallel_for(end - first, kGrain, [&](std::int64_t from, std::int64_t to, int) {
    for (auto sum = sums_.rbegin(); sum != sums_.rend(); ++sum) {
      k.add(sum->floats() + first + from, total + first + from, to - from, total + first + from);
    }
  });
}

/// gradients = the last sum + gradients. The buffer of the last sum becomes spare.
void GradientSum::add_last(ThreadPool& pool, const Kernels& k) {
  const std::span<float> total = gradients_.values();
  const float* const part = sums_.back().floats();
  pool.parallel_for(static_cast<std::int64_t>(total.size()), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    k.add(part + begin, total.data() + begin, end - begin, total.data() + begin);
  });
  spare_.push_back(std::move(sums_.back()));
  sums_.pop_back();
}

}  // namespace vitrine
