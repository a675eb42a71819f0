// Codes in words along the rows or the columns of a stored matrix `[in, out]`: GPTQ and AWQ.
#include <algorithm>

#include "checkpoint/hugging_face/group_parts.h"
#include "checkpoint/hugging_face/group_store.h"
#include "checkpoint/hugging_face/group_weights.h"
#include "quant/groups.h"

namespace vitrine {
namespace {

/// The scales `[groups, rows]` of GPTQ and AWQ.
void read_scales_by_group(const LayerTensors& layer, PackedWeight& weight) {
  layer.expect(".scales", kScaleTypes, {groups_in(weight.cols, weight.group), weight.rows});
  weight.scale = [&scales = layer.at(".scales"), rows = weight.rows](std::int64_t row, std::int64_t group) {
    return float_at(scales, group * rows + row);
  };
}

void join_gptq_layer(const GroupConfig& config, const LayerTensors& layer, StoredTensor& to) {
  layer.expect_listed(config, ".qweight");
  const GroupKind& kind = config.kinds.front();
  const int bits = kind.bits;
  const auto [words, rows] = matrix_of_words(layer, ".qweight");
  const StoredTensor& codes = layer.at(".qweight");
  if (words * 32 % bits != 0) {
    throw BadCheckpoint(codes.file, "tensor {}.qweight: expected whole columns of {} bits, got {} words", layer.layer(),
                        bits, words);
  }
  PackedWeight weight{integers_of(bits), rows, words * 32 / bits};
  weight.group = kind.group > 0 ? std::min(kind.group, weight.cols) : weight.cols;
  weight.places = places_of_columns(layer, ".g_idx", weight.cols, weight.group);
  weight.read = [data = codes.bytes.data(), rows = rows, bits](std::int64_t c, std::int64_t first, std::int64_t n,
                                                               std::uint8_t* out) {
    const std::int64_t bit = c * bits, line = 4 * rows;
    take_bits(data + bit / 32 * line + 4 * first, line, static_cast<int>(bit % 32), bits, n, out);
  };
  read_scales_by_group(layer, weight);
  const std::int64_t zero_words = groups_in(rows * bits, 32);
  layer.expect(".qzeros", kI32, {groups_in(weight.cols, weight.group), zero_words});
  const unsigned less = config.zeros_are_one_less ? 1 : 0, mask = (1U << bits) - 1;
  weight.zero = [data = layer.at(".qzeros").bytes.data(), zero_words, bits, less, mask](std::int64_t row,
                                                                                        std::int64_t group) {
    return static_cast<std::uint8_t>((bits_at(data + 4 * group * zero_words, 1, row, bits) + less) & mask);
  };
  store_weight(weight, to, layer.all());
}

/// The columns of the nibbles of a word of AWQ, and the inverse.
constexpr int kColumnOfNibble[8] = {0, 2, 4, 6, 1, 3, 5, 7};
constexpr int kNibbleOfColumn[8] = {0, 4, 1, 5, 2, 6, 3, 7};

std::uint8_t awq_code(const std::byte* words, std::int64_t column) {
  return static_cast<std::uint8_t>(bits_at(words, 1, column / 8 * 8 + kNibbleOfColumn[column % 8], 4));
}

void join_awq_layer(const GroupConfig& config, const LayerTensors& layer, StoredTensor& to) {
  layer.expect_listed(config, ".qweight");
  const GroupKind& kind = config.kinds.front();
  const auto [cols, words] = matrix_of_words(layer, ".qweight");
  PackedWeight weight{DType::int4, words * 8, cols};
  weight.group = kind.group > 0 ? std::min(kind.group, cols) : cols;
  weight.read = [data = layer.at(".qweight").bytes.data(), words = words](std::int64_t c, std::int64_t first,
                                                                          std::int64_t n, std::uint8_t* out) {
    take_nibbles(data + 4 * (c * words + first / 8), n / 8, kColumnOfNibble, out);
  };
  read_scales_by_group(layer, weight);
  layer.expect(".qzeros", kI32, {groups_in(cols, weight.group), words});
  weight.zero = [data = layer.at(".qzeros").bytes.data(), words = words](std::int64_t row, std::int64_t group) {
    return awq_code(data + 4 * group * words, row);
  };
  store_weight(weight, to, layer.all());
}

}  // namespace

void join_gptq(const GroupConfig& config, StoredTensors& tensors) {
  for (const std::string& name : layers_with(tensors, ".qweight")) {
    LayerTensors layer(tensors, name);
    StoredTensor weight = layer.at(".qweight");
    join_gptq_layer(config, layer, weight);
    layer.replace(".qweight", std::move(weight));
    layer.erase({".qzeros", ".scales", ".g_idx"});
  }
}

void join_awq(const GroupConfig& config, StoredTensors& tensors) {
  for (const std::string& name : layers_with(tensors, ".qweight")) {
    LayerTensors layer(tensors, name);
    StoredTensor weight = layer.at(".qweight");
    join_awq_layer(config, layer, weight);
    layer.replace(".qweight", std::move(weight));
    layer.erase({".qzeros", ".scales"});
  }
}

}  // namespace vitrine
