#include <algorithm>
#include <cstring>
#include <iterator>

#include "checkpoint/hugging_face/group_parts.h"
#include "checkpoint/hugging_face/group_store.h"
#include "checkpoint/hugging_face/group_weights.h"
#include "quant/groups.h"

namespace vitrine {
namespace {

/// Sets the group and the scales of a weight, `[rows, groups]`, `[rows]`, or one; false: they are not as the kind says.
bool set_scales(const LayerTensors& layer, const GroupKind& kind, PackedWeight& weight) {
  const StoredTensor& scales = layer.at(".weight_scale");
  const bool is_float =
      std::find(std::begin(kScaleTypes), std::end(kScaleTypes), scales.dtype) != std::end(kScaleTypes);
  const bool is_one = kind.group == GroupKind::kWholeMatrix;
  weight.group = kind.group > 0 ? std::min(kind.group, weight.cols) : weight.cols;
  const std::int64_t groups = groups_in(weight.cols, weight.group);
  const std::vector<std::int64_t> one = {1}, by_row = {weight.rows}, all = {is_one ? 1 : weight.rows, groups};
  const bool is_vector = is_one ? scales.shape.empty() || scales.shape == one : groups == 1 && scales.shape == by_row;
  if (!is_float || !(is_vector || scales.shape == all)) return false;
  weight.scale = [&scales, groups, is_one](std::int64_t row, std::int64_t group) {
    return float_at(scales, is_one ? 0 : row * groups + group);
  };
  return true;
}

/// Calls fits(kind) for the kinds of a layer, whose codes are in the tensor that ends so, until one fits. Throws
/// BadCheckpoint if none does.
template <class Fits>
const GroupKind& kind_of(const GroupConfig& config, const LayerTensors& layer, std::string_view ending, Fits fits) {
  layer.expect_listed(config, ending);
  const std::string module = layer.name_of_module(ending);
  bool is_target = false;
  for (const GroupKind& kind : config.kinds) {
    if (!kind.targets.contains(module)) continue;
    is_target = true;
    if (fits(kind)) return kind;
  }
  const StoredTensor& codes = layer.at(ending);
  if (!is_target) {
    throw BadCheckpoint(codes.file, "tensor {}{}: no targets of config_groups have its module", layer.layer(), ending);
  }
  const StoredTensor& scales = layer.at(".weight_scale");
  throw BadCheckpoint(codes.file, "tensor {}.weight_scale: expected scales as config_groups says, got {} {} for {} {}",
                      layer.layer(), scales.dtype, Json(scales.shape).dump(), codes.dtype, Json(codes.shape).dump());
}

/// The columns of a packed weight; 0: its shape is not that of such codes.
std::int64_t columns_of(const LayerTensors& layer, std::int64_t rows, std::int64_t words, int bits) {
  const StoredTensor* const shape = layer.find(".weight_shape");
  if (shape == nullptr || layer.all().without_values) return words * 32 / bits;
  layer.expect(".weight_shape", kI64, {2});
  std::int64_t sizes[2];
  std::memcpy(sizes, shape->bytes.data(), sizeof sizes);
  const bool fits =
      sizes[0] == rows && sizes[1] >= 1 && sizes[1] <= kMaxSize && groups_in(sizes[1] * bits, 32) == words;
  return fits ? sizes[1] : 0;
}

/// Whether columns have groups of their own: −1 is an index that was never set.
bool has_order(const LayerTensors& layer, std::int64_t cols) {
  const StoredTensor* const index = layer.find(".weight_g_idx");
  if (index == nullptr || layer.all().without_values) return false;
  layer.expect(".weight_g_idx", kI32, {cols});
  for (std::int64_t c = 0; c < cols; ++c) {
    if (int32_at(*index, c) == -1) return false;
  }
  return true;
}

/// Zeros of a kind that has none, which older files hold, are 0.
bool are_all_zero(const StoredTensor& tensor) {
  return std::all_of(tensor.bytes.begin(), tensor.bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Whether a layer has zeros. Throws BadCheckpoint if it has some that its kind does not have.
bool has_zeros(const LayerTensors& layer, const GroupKind& kind) {
  if (!kind.is_symmetric) return true;
  const StoredTensor* const zeros = layer.find(".weight_zero_point");
  if (zeros == nullptr || layer.all().without_values || are_all_zero(*zeros)) return false;
  throw BadCheckpoint(zeros->file, "tensor {}.weight_zero_point: expected zeros, because config_groups says symmetric",
                      layer.layer());
}

void join_packed(const GroupConfig& config, const LayerTensors& layer, StoredTensor& to) {
  const auto [rows, words] = matrix_of_words(layer, ".weight_packed");
  PackedWeight weight;
  const GroupKind& kind = kind_of(config, layer, ".weight_packed", [&, rows = rows, words = words](const auto& each) {
    if (!each.is_packed) return false;
    weight = {integers_of(each.bits), rows, columns_of(layer, rows, words, each.bits)};
    return weight.cols > 0 && set_scales(layer, each, weight);
  });
  const int bits = kind.bits;
  const StoredTensor& codes = layer.at(".weight_packed");
  if (has_order(layer, weight.cols)) {
    weight.places = places_of_columns(layer, ".weight_g_idx", weight.cols, weight.group);
  }
  if (bits == 4 && weight.places.empty() && weight.cols % kGroupBlock == 0) {
    weight.bytes = codes.bytes.data();  // the layout of int4
  } else {
    weight.read = [data = codes.bytes.data(), words = words, bits](std::int64_t c, std::int64_t first, std::int64_t n,
                                                                   std::uint8_t* out) {
      for (std::int64_t r = 0; r < n; ++r) {
        out[r] = static_cast<std::uint8_t>(bits_at(data + 4 * (first + r) * words, 1, c, bits));
      }
    };
  }
  if (has_zeros(layer, kind)) {
    const std::int64_t groups = groups_in(weight.cols, weight.group);
    layer.expect(".weight_zero_point", kI32, {groups_in(rows * bits, 32), groups});
    weight.zero = [data = layer.at(".weight_zero_point").bytes.data(), groups, bits](std::int64_t row,
                                                                                     std::int64_t group) {
      return static_cast<std::uint8_t>(bits_at(data + 4 * group, groups, row, bits));
    };
  }
  store_weight(weight, to, layer.all());
}

void join_bytes(const GroupConfig& config, const LayerTensors& layer, StoredTensor& to) {
  PackedWeight weight = weight_of_bytes(layer, ".weight");
  const GroupKind& kind = kind_of(config, layer, ".weight", [&](const GroupKind& each) {
    return !each.is_packed && !each.is_float && set_scales(layer, each, weight);
  });
  if (has_zeros(layer, kind)) {
    layer.expect(".weight_zero_point", kI8, layer.at(".weight_scale").shape);
    const bool is_one = kind.group == GroupKind::kWholeMatrix;
    const std::int64_t groups = groups_in(weight.cols, weight.group);
    weight.zero = [&zeros = layer.at(".weight_zero_point"), groups, is_one](std::int64_t row, std::int64_t group) {
      const auto at = static_cast<std::size_t>(is_one ? 0 : row * groups + group);
      return static_cast<std::uint8_t>(std::to_integer<unsigned>(zeros.bytes[at]) ^ 0x80U);
    };
  }
  store_weight(weight, to, layer.all());
}

/// Codes in E4M3 are joined as those of the method fp8 are.
void check_floats(const GroupConfig& config, const LayerTensors& layer) {
  const std::vector<std::int64_t>& shape = layer.at(".weight").shape;
  PackedWeight weight;
  if (shape.size() == 2) weight.rows = shape[0], weight.cols = shape[1];
  kind_of(config, layer, ".weight",
          [&](const GroupKind& kind) { return kind.is_float && weight.cols > 0 && set_scales(layer, kind, weight); });
}

}  // namespace

void join_compressed(const GroupConfig& config, StoredTensors& tensors) {
  for (const std::string& name : layers_with(tensors, ".weight_packed")) {
    LayerTensors layer(tensors, name);
    StoredTensor weight = layer.at(".weight_packed");
    join_packed(config, layer, weight);
    layer.replace(".weight_packed", std::move(weight));
    layer.erase({".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx"});
  }
  for (const std::string& name : layers_with(tensors, ".weight_scale")) {
    LayerTensors layer(tensors, name);
    StoredTensor weight = layer.at(".weight");
    if (weight.dtype == "F8_E4M3") {
      check_floats(config, layer);
    } else {
      join_bytes(config, layer, weight);
      layer.replace(".weight", std::move(weight));
      layer.erase({".weight_scale", ".weight_zero_point"});
    }
  }
  for (const std::string_view ending : {".input_scale", ".input_zero_point", ".output_scale"}) {
    for (const std::string& name : layers_with(tensors, ending)) LayerTensors(tensors, name).erase({ending});
  }
}

}  // namespace vitrine
