// The values of a forward pass: dense rows of floats.
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
  Shape(
      std::initializer_list<std::int64_t> sizes);  ///< Throws InternalError for more than four sizes or a negative one.

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return sizes_[static_cast<std::size_t>(i)]; }
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(rank_)}; }
  std::int64_t count() const;  ///< The number of elements.
  bool operator==(const Shape& other) const = default;

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  ///< As in `[3, 2304]`.

/// Dense float32 values in row-major order. A view: the arena (or whoever made it) owns the memory.
struct Tensor {
  float* data = nullptr;
  Shape shape;

  std::int64_t count() const { return shape.count(); }
  std::int64_t rows() const { return shape[0]; }
  /// Elements of one row: the product of all sizes but the first.
  std::int64_t row_size() const;
  float* row(std::int64_t i) const { return data + i * row_size(); }
  std::span<float> values() const { return {data, static_cast<std::size_t>(count())}; }
  Tensor row_range(std::int64_t first, std::int64_t n) const;
  Tensor reshaped(const Shape& other) const { return {data, other}; }  ///< The same elements under another shape.
};

}  // namespace vitrine
