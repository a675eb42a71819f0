// Shared by the tests of the kernels: special and extreme numbers, comparison by bits, arrays that end at an
// inaccessible page.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/tables.h"

namespace vitrine {

/// A test over every instruction set of this machine.
class EachIsa : public testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

inline std::string isa_test_name(const testing::TestParamInfo<Isa>& info) { return std::string(name_of(info.param)); }

enum class Numbers { ordinary, tiny, special };

/// Ordinary: normal deviates. Tiny: products underflow, with zeros of both signs. Special: infinities and NaN as well.
inline std::vector<float> numbers(std::int64_t n, Numbers kind, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float tiny[] = {0.0f, -0.0f, 1e-30f, -1e-30f, 1e-42f, -3e-45f, 1.17549435e-38f, 1e-19f, -1e-22f, 1.0f};
  const float special[] = {kInfinity, -kInfinity, std::nanf(""), 3e38f, -3e38f, 200.0f, -200.0f};
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& x : out) {
    x = normal(random);
    if (kind == Numbers::tiny) x = tiny[random() % std::size(tiny)];
    if (kind == Numbers::special && random() % 8 == 0) x = special[random() % std::size(special)];
  }
  return out;
}

/// The same bits, or both NaN: which NaN comes out of two is the instruction's choice.
inline bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " elements and " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) {
      return testing::AssertionFailure() << "element " << i << ": " << std::hexfloat << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

/// Σ of sixteen lanes by the tree of kernels.h.
inline float sum_of_lanes(const float (&lane)[16]) {
  float s[16];
  std::copy(std::begin(lane), std::end(lane), s);
  for (int half : {8, 4, 2, 1}) {
    for (int l = 0; l < half; ++l) s[l] += s[l + half];
  }
  return s[0];
}

/// Elements that end at an inaccessible page: an access beyond them ends the test.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t size) : size_(size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t usable = (size * sizeof(T) + page) / page * page;
    bytes_ = usable + page;
    void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(base);
    if (mprotect(base_ + usable, page, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = base_ + usable - size * sizeof(T);
  }
  explicit Guarded(std::span<const T> values) : Guarded(values.size()) {
    if (!values.empty()) std::memcpy(data_, values.data(), values.size_bytes());
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, bytes_); }

  T* data() { return reinterpret_cast<T*>(data_); }
  std::span<const T> values() { return {data(), size_}; }

 private:
  std::size_t size_, bytes_;
  std::byte* base_;
  std::byte* data_;
};

}  // namespace vitrine
