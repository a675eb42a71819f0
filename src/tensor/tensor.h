// The values of a forward: dense rows of floats.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace vitrine {

/// Up to four sizes, outermost first.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  /// Throws InternalError for more than four sizes or a negative one.
  Shape(std::initializer_list<std::int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
    if (rank_ > kMaxRank) refuse(sizes);
    std::int64_t* to = sizes_.data();
    for (const std::int64_t size : sizes) {
      if (size < 0) refuse(sizes);
      *to++ = size;
    }
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return sizes_[static_cast<std::size_t>(i)]; }
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(rank_)}; }
  std::int64_t count() const { return count_from(0); }  ///< The number of elements.
  /// The product of the sizes from axis `first` on.
  std::int64_t count_from(int first) const {
    std::int64_t n = 1;
    for (int i = first; i < rank_; ++i) n *= sizes_[static_cast<std::size_t>(i)];
    return n;
  }
  bool operator==(const Shape& other) const = default;

 private:
  [[noreturn]] static void refuse(std::initializer_list<std::int64_t> sizes);

  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  ///< `[3, 2304]`

/// Dense float32 values in row-major order. A view: the memory usually belongs to an arena.
struct Tensor {
  float* data = nullptr;
  Shape shape;

  std::int64_t count() const { return shape.count(); }
  std::int64_t rows() const { return shape[0]; }
  /// Elements of one row: the product of all sizes but the first.
  std::int64_t row_size() const { return shape.count_from(1); }
  float* row(std::int64_t i) const { return data + i * row_size(); }
  std::span<float> values() const { return {data, static_cast<std::size_t>(count())}; }
  Tensor row_range(std::int64_t first, std::int64_t n) const;
  Tensor reshaped(const Shape& other) const { return {data, other}; }  ///< The same elements with another shape.
};

}  // namespace vitrine
