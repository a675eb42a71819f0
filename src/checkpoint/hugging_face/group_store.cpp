#include "checkpoint/hugging_face/group_store.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "quant/groups.h"

namespace vitrine {
namespace {

/// What a weight's view needs, in one place that does not move.
struct StoredGroups {
  ZeroMemory codes, scales, zeros;
  std::vector<std::int32_t> places;
  std::vector<float> values;
  GroupTables tables;
};

/// Reads columns of some rows, in the order in which they are stored, and packs them.
void pack_rows(const PackedWeight& weight, const std::vector<std::int64_t>& order, std::int64_t first, std::int64_t n,
               std::int64_t row_bytes, std::byte* to) {
  const BlockSize size = block_size(weight.type);
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(kGroupBlock * kPackRows));
  for (std::int64_t begin = 0; begin < weight.cols; begin += kGroupBlock) {
    for (std::int64_t i = 0; i < kGroupBlock; ++i) {
      std::uint8_t* const column = columns.data() + i * kPackRows;
      const std::int64_t place = begin + i;
      if (place >= weight.cols) {
        std::fill_n(column, kPackRows, std::uint8_t{0});
      } else {
        weight.read(order.empty() ? place : order[static_cast<std::size_t>(place)], first, n, column);
      }
    }
    pack_columns(weight.type, columns.data(), n, row_bytes, to + begin / kGroupBlock * size.bytes);
  }
}

void fill(const PackedWeight& weight, StoredGroups& to, std::int64_t row_bytes) {
  const std::int64_t groups = (weight.cols + weight.group - 1) / weight.group;
  float* const scales = to.scales.floats();
  auto* const zeros = reinterpret_cast<std::uint8_t*>(to.zeros.bytes());
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    for (std::int64_t g = 0; g < groups; ++g) {
      scales[r * groups + g] = weight.scale(r, g);
      if (weight.zero) zeros[r * groups + g] = weight.zero(r, g);
    }
  }
  if (weight.bytes != nullptr) return;
  std::vector<std::int64_t> order(weight.places.size());
  for (std::size_t c = 0; c < order.size(); ++c) {
    order[static_cast<std::size_t>(weight.places[c])] = static_cast<std::int64_t>(c);
  }
  for (std::int64_t first = 0; first < weight.rows; first += kPackRows) {
    const std::int64_t n = std::min(kPackRows, weight.rows - first);
    pack_rows(weight, order, first, n, row_bytes, to.codes.bytes() + first * row_bytes);
  }
}

}  // namespace

void store_weight(const PackedWeight& weight, StoredTensor& to, StoredTensors& tensors) {
  const std::int64_t row_size = (weight.cols + kGroupBlock - 1) / kGroupBlock * kGroupBlock;
  const std::int64_t row_bytes = bytes_of(weight.type, row_size);
  const std::int64_t n_scales = weight.rows * ((weight.cols + weight.group - 1) / weight.group);
  const auto stored = std::make_shared<StoredGroups>();
  stored->places = weight.places;
  stored->values = weight.values;
  stored->scales.resize(n_scales * std::int64_t{sizeof(float)}, "scales");
  if (weight.zero) stored->zeros.resize(n_scales, "zeros");
  if (weight.bytes == nullptr) stored->codes.resize(weight.rows * row_bytes, "codes of weights");
  if (!tensors.without_values) fill(weight, *stored, row_bytes);

  GroupTables& tables = stored->tables;
  if (weight.zero) tables.zeros = reinterpret_cast<const std::uint8_t*>(stored->zeros.bytes());
  if (!weight.values.empty()) tables.values = stored->values.data();
  if (!weight.places.empty()) tables.places = stored->places.data();
  const std::byte* const codes = weight.bytes != nullptr ? weight.bytes : stored->codes.bytes();
  to.type = weight.type;
  to.dtype = name_of(weight.type);
  to.shape = {weight.rows, weight.cols};
  to.bytes = {codes, static_cast<std::size_t>(weight.rows * row_bytes)};
  to.row_size = row_size;
  to.scales = StoredScales{stored->scales.bytes(), 1, weight.group, &tables};
  tensors.storage.push_back(stored);
}

}  // namespace vitrine
