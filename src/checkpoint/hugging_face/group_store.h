// Codes in groups as the engine stores them (quant/groups.h), from the packing of a file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/bind_tensors.h"
#include "tensor/dtype.h"
#include "tensor/zero_memory.h"

namespace vitrine {

/// A weight `[rows, cols]` in the packing of a file.
struct PackedWeight {
  DType type = DType::int4;
  std::int64_t rows = 0, cols = 0;
  /// Codes of column c in rows [first, first + n), to `to`; `first` is a multiple of 64 (kPackRows). Not called if
  /// `bytes` has data.
  std::function<void(std::int64_t c, std::int64_t first, std::int64_t n, std::uint8_t* to)> read{};
  const std::byte* bytes = nullptr;    ///< Rows of whole blocks, as the engine stores them.
  std::int64_t group = 1;              ///< Columns, counted as they are stored.
  std::vector<std::int32_t> places{};  ///< Where each column is stored; empty: in order.
  std::vector<float> values{};         ///< Of nf4 and fp4.
  /// The scale of a row's group, and its zero; no function: all zeros are the type's.
  std::function<float(std::int64_t row, std::int64_t group)> scale{};
  std::function<std::uint8_t(std::int64_t row, std::int64_t group)> zero{};
};

/// Gives `to` the codes, scales and zeros of a weight, in memory that is added to the storage of `tensors`. Codes that
/// have the engine's layout stay where they are. If the file's bytes are not known (`tensors.without_values`), memory
/// of the right size is left as it is, which costs none.
void store_weight(const PackedWeight& weight, StoredTensor& to, StoredTensors& tensors);

}  // namespace vitrine
