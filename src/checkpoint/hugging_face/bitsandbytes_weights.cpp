#include <bit>
#include <cstdint>
#include <numeric>

#include "checkpoint/hugging_face/group_parts.h"
#include "checkpoint/hugging_face/group_store.h"
#include "checkpoint/hugging_face/group_weights.h"
#include "quant/groups.h"

namespace vitrine {
namespace {

/// Throws BadCheckpoint unless the config says that layers have codes of so many bits.
void expect_bits(const GroupConfig& config, const LayerTensors& layer, int bits) {
  layer.expect_listed(config, ".weight");
  if (config.kinds.front().bits == bits) return;
  throw BadCheckpoint(layer.at(".weight").file, "tensor {}.weight: its codes have {} bits; quantization_config says {}",
                      layer.layer(), bits, config.kinds.front().bits);
}

/// W = q · SCB / 127.
void join_int8(const GroupConfig& config, const LayerTensors& layer, StoredTensor& to) {
  expect_bits(config, layer, 8);
  PackedWeight weight = weight_of_bytes(layer, ".weight");
  weight.group = weight.cols;
  layer.expect(".SCB", kF32, {weight.rows});
  weight.scale = [&scales = layer.at(".SCB")](std::int64_t row, std::int64_t) { return float_at(scales, row) / 127; };
  if (const StoredTensor* const format = layer.find(".weight_format");
      format != nullptr && !layer.all().without_values) {
    const bool is_by_rows = !format->bytes.empty() && format->bytes[0] == std::byte{0};
    if (!is_by_rows) throw Unsupported(format->file, "tensor {}.weight_format: expected 0, rows", layer.layer());
  }
  store_weight(weight, to, layer.all());
}

/// What the JSON text of a weight with a table of values says.
struct TableState {
  std::int64_t rows = 0, cols = 0, block = 64, nested_block = 256;
  float nested_offset = 0;
};

TableState read_state(const StoredTensor& text, const std::string& name, std::string_view type) {
  const Json json =
      parse_json({reinterpret_cast<const char*>(text.bytes.data()), text.bytes.size()}, text.file + ", tensor " + name);
  ConfigReader reader(json, text.file + ", tensor " + name);
  TableState state;
  state.block = reader.size("blocksize");
  state.nested_block = reader.size_or("nested_blocksize", state.nested_block);
  state.nested_offset = static_cast<float>(reader.number_or("nested_offset", 0));
  const std::vector<std::int64_t> shape = reader.sizes_or_empty("shape");
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || std::max(shape[0], shape[1]) > kMaxSize) {
    throw BadCheckpoint(text.file, "tensor {}: expected the shape of a matrix, got {}", name, Json(shape).dump());
  }
  state.rows = shape[0], state.cols = shape[1];
  if (const std::string named = reader.text_or("quant_type", type); named != type) {
    throw BadCheckpoint(text.file, "tensor {}: expected quant_type {}, got {}", name, type, named);
  }
  for (const char* key : {"dtype", "nested_dtype"}) reader.ignore(key);
  reader.finish();
  return state;
}

/// The scale of each of n blocks: itself, or an entry of a table, times a scale of a block of them, plus an offset.
std::function<float(std::int64_t)> scale_of_block(const LayerTensors& layer, const TableState& state, std::int64_t n) {
  const StoredTensor& scales = layer.at(".weight.absmax");
  if (layer.find(".weight.nested_absmax") == nullptr) {
    layer.expect(".weight.absmax", kF32, {n});
    return [&scales](std::int64_t i) { return float_at(scales, i); };
  }
  layer.expect(".weight.absmax", kU8, {n});
  layer.expect(".weight.nested_absmax", kF32, {groups_in(n, state.nested_block)});
  layer.expect(".weight.nested_quant_map", kF32, {256});
  return [&scales, &nested = layer.at(".weight.nested_absmax"), &map = layer.at(".weight.nested_quant_map"),
          block = state.nested_block, offset = state.nested_offset](std::int64_t i) {
    return float_at(map, std::to_integer<std::int64_t>(scales.bytes[static_cast<std::size_t>(i)])) *
               float_at(nested, i / block) +
           offset;
  };
}

void join_table(const GroupConfig& config, const LayerTensors& layer, std::string_view state_ending, DType type,
                StoredTensor& to) {
  expect_bits(config, layer, 4);
  const StoredTensor& codes = layer.at(".weight");
  const auto n_bytes = static_cast<std::int64_t>(codes.bytes.size());
  const bool knows_shape = !layer.all().without_values;
  const std::vector<std::int64_t>& scales = layer.at(".weight.absmax").shape;
  if (scales.size() != 1 || scales[0] < 1) {
    throw BadCheckpoint(codes.file, "tensor {}.weight.absmax: expected one dimension, got {}", layer.layer(),
                        Json(scales).dump());
  }
  // Without the shape, a row of all elements. Blocks have a power of two of them.
  TableState state{1, n_bytes * 2};
  state.block = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(groups_in(n_bytes * 2, scales[0]))));
  if (knows_shape) state = read_state(layer.at(state_ending), layer.layer() + std::string(state_ending), name_of(type));
  const std::int64_t count = state.rows * state.cols;  // below 2^62
  if (codes.dtype != "U8" || n_bytes != groups_in(count, 2)) {
    throw BadCheckpoint(codes.file,
                        "tensor {}.weight: expected U8 with two codes a byte for {} × {} elements, got {} {}",
                        layer.layer(), state.rows, state.cols, codes.dtype, Json(codes.shape).dump());
  }
  PackedWeight weight{type, state.rows, state.cols};
  // Blocks go on from row to row. A part of each that ends where both it and the rows do is a group.
  weight.group = knows_shape ? std::gcd(state.cols, state.block) : state.block;
  const auto of_block = scale_of_block(layer, state, groups_in(count, state.block));
  weight.scale = [of_block, state, group = weight.group](std::int64_t row, std::int64_t g) {
    return of_block((row * state.cols + g * group) / state.block);
  };
  layer.expect(".weight.quant_map", kF32, {16});
  for (std::int64_t i = 0; i < 16; ++i) weight.values.push_back(float_at(layer.at(".weight.quant_map"), i));
  if (state.cols % kGroupBlock == 0) {
    weight.bytes = codes.bytes.data();
  } else {
    weight.read = [data = codes.bytes.data(), cols = state.cols](std::int64_t c, std::int64_t first, std::int64_t n,
                                                                 std::uint8_t* out) {
      for (std::int64_t r = 0; r < n; ++r) {
        const std::int64_t i = (first + r) * cols + c;
        const unsigned byte = std::to_integer<unsigned>(data[i / 2]);
        out[r] = static_cast<std::uint8_t>(i % 2 == 0 ? byte >> 4 : byte & 15U);
      }
    };
  }
  store_weight(weight, to, layer.all());
  if (!knows_shape) to.shape = {}, to.row_size = 0, to.n_elements = count;
}

}  // namespace

void join_bitsandbytes(const GroupConfig& config, StoredTensors& tensors) {
  for (const std::string& name : layers_with(tensors, ".SCB")) {
    LayerTensors layer(tensors, name);
    StoredTensor weight = layer.at(".weight");
    join_int8(config, layer, weight);
    layer.replace(".weight", std::move(weight));
    layer.erase({".SCB", ".weight_format"});
  }
  for (const auto& [ending, type] : {std::pair{".weight.quant_state.bitsandbytes__nf4", DType::nf4},
                                     std::pair{".weight.quant_state.bitsandbytes__fp4", DType::fp4}}) {
    for (const std::string& name : layers_with(tensors, ending)) {
      LayerTensors layer(tensors, name);
      StoredTensor weight = layer.at(".weight");
      join_table(config, layer, ending, type, weight);
      layer.replace(".weight", std::move(weight));
      layer.erase({ending, ".weight.absmax", ".weight.quant_map", ".weight.nested_absmax", ".weight.nested_quant_map"});
    }
  }
}

}  // namespace vitrine
