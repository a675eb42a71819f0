// What the joins of the methods share: finding the tensors of one layer, and reading their elements.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/bind_tensors.h"
#include "checkpoint/hugging_face/group_config.h"
#include "checkpoint/hugging_face/group_store.h"

namespace vitrine {

inline constexpr std::string_view kF32[] = {"F32"}, kI64[] = {"I64"}, kI32[] = {"I32"}, kI8[] = {"I8"}, kU8[] = {"U8"};
inline constexpr std::string_view kScaleTypes[] = {"F16", "BF16", "F32"};

/// The layers that have a tensor of this ending, without it.
inline std::vector<std::string> layers_with(const StoredTensors& tensors, std::string_view ending) {
  std::vector<std::string> layers;
  for (const auto& [name, tensor] : tensors.all) {
    if (name.ends_with(ending)) layers.push_back(name.substr(0, name.size() - ending.size()));
  }
  return layers;
}

/// The tensors of one layer.
class LayerTensors {
 public:
  LayerTensors(StoredTensors& tensors, std::string layer) : tensors_(tensors), layer_(std::move(layer)) {}

  const std::string& layer() const { return layer_; }
  const StoredTensor* find(std::string_view ending) const {
    const auto it = tensors_.all.find(layer_ + std::string(ending));
    return it != tensors_.all.end() ? &it->second : nullptr;
  }
  const StoredTensor& at(std::string_view ending) const {
    const StoredTensor* const tensor = find(ending);
    if (tensor == nullptr) throw BadCheckpoint(tensors_.where, "tensor {}{} is missing", layer_, ending);
    return *tensor;
  }
  /// Throws BadCheckpoint unless the tensor has one of these types and this shape.
  void expect(std::string_view ending, std::span<const std::string_view> types,
              const std::vector<std::int64_t>& shape) const;
  /// The layer's name in the file, by the tensor that ends so.
  std::string name_of_module(std::string_view ending) const;
  /// Throws BadCheckpoint if the config says that the layer, whose codes are in the tensor that ends so, has none.
  void expect_listed(const GroupConfig& config, std::string_view ending) const;
  /// Removes tensors that the weight no longer needs.
  void erase(std::initializer_list<std::string_view> endings) {
    for (const std::string_view ending : endings) tensors_.all.erase(layer_ + std::string(ending));
  }
  /// Puts `weight` in the place of the tensor that ends so, under the name NAME.weight. The file's bytes leave memory.
  void replace(std::string_view ending, StoredTensor weight);

  StoredTensors& all() const { return tensors_; }

 private:
  StoredTensors& tensors_;
  std::string layer_;
};

/// A whole number of `bits` bits of a row of words, dense and lowest bits first; word i is `stride` words after the
/// last one.
inline std::uint32_t bits_at(const std::byte* words, std::int64_t stride, std::int64_t i, int bits) {
  const std::int64_t at = i * bits, word = at / 32;
  const int shift = static_cast<int>(at % 32);
  const auto load = [&](std::int64_t w) {
    std::uint32_t value = 0;
    std::memcpy(&value, words + w * stride * std::int64_t{sizeof value}, sizeof value);
    return value;
  };
  std::uint32_t value = load(word) >> shift;
  if (shift + bits > 32) value |= load(word + 1) << (32 - shift);
  return value & ((std::uint32_t{1} << bits) - 1);
}

/// Element i of a tensor of floats: F32, F16 or BF16.
float float_at(const StoredTensor& tensor, std::int64_t i);
std::int32_t int32_at(const StoredTensor& tensor, std::int64_t i);

/// Where columns are stored whose groups are not in order: those of group 0 first, each group as in the file. Empty if
/// they are in order. Throws BadCheckpoint unless every group but the last has `group` columns.
std::vector<std::int32_t> places_of_columns(const LayerTensors& layer, std::string_view ending, std::int64_t cols,
                                            std::int64_t group);

/// The sizes of a matrix `[rows, cols]` of words; throws BadCheckpoint for another tensor.
std::array<std::int64_t, 2> matrix_of_words(const LayerTensors& layer, std::string_view ending);
/// A matrix of signed bytes; in place if its rows consist of whole blocks. Throws BadCheckpoint for another tensor.
PackedWeight weight_of_bytes(const LayerTensors& layer, std::string_view ending);

constexpr std::int64_t groups_in(std::int64_t n, std::int64_t group) { return n / group + (n % group != 0 ? 1 : 0); }

}  // namespace vitrine
