#include "checkpoint/hugging_face/group_parts.h"

#include <algorithm>
#include <cstdint>

#include "base/mapped_file.h"
#include "quant/groups.h"

namespace vitrine {

void LayerTensors::expect(std::string_view ending, std::span<const std::string_view> types,
                          const std::vector<std::int64_t>& shape) const {
  const StoredTensor& tensor = at(ending);
  if (std::find(types.begin(), types.end(), tensor.dtype) != types.end() && tensor.shape == shape) return;
  std::string names;
  for (const std::string_view type : types) names += (names.empty() ? "" : ", ") + std::string(type);
  const auto text = [](const std::vector<std::int64_t>& sizes) { return Json(sizes).dump(); };
  throw BadCheckpoint(tensor.file, "tensor {}{}: expected {} {}, got {} {}", layer_, ending, names, text(shape),
                      tensor.dtype, text(tensor.shape));
}

std::string LayerTensors::name_of_module(std::string_view ending) const {
  std::string name = at(ending).name;
  if (name.empty()) return layer_;
  if (name.ends_with(ending)) name.erase(name.size() - ending.size());
  return name;
}

void LayerTensors::expect_listed(const GroupConfig& config, std::string_view ending) const {
  if (!config.skipped.contains(name_of_module(ending))) return;
  throw BadCheckpoint(at(ending).file, "tensor {}{}: quantization_config.{} has its module, which is quantized", layer_,
                      ending, config.list);
}

void LayerTensors::replace(std::string_view ending, StoredTensor weight) {
  const auto it = tensors_.all.find(layer_ + std::string(ending));
  const std::span<const std::byte> bytes = it->second.bytes;
  if (weight.bytes.data() != bytes.data()) MappedFile::release(bytes);
  const std::string name = layer_ + ".weight";
  if (it->first != name && weight.name.empty()) weight.name = it->first;
  tensors_.all.erase(it);
  if (!tensors_.all.emplace(name, std::move(weight)).second) {
    throw BadCheckpoint(tensors_.where, "tensors {} and {}{} hold the same parameter", name, layer_, ending);
  }
}

float float_at(const StoredTensor& tensor, std::int64_t i) {
  if (tensor.dtype == "F32") {
    float value = 0;
    std::memcpy(&value, tensor.bytes.data() + 4 * i, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + 2 * i, sizeof bits);
  return tensor.dtype == "F16" ? float_from_f16(bits) : float_from_bf16(bits);
}

std::int32_t int32_at(const StoredTensor& tensor, std::int64_t i) {
  std::int32_t value = 0;
  std::memcpy(&value, tensor.bytes.data() + 4 * i, sizeof value);
  return value;
}

std::vector<std::int32_t> places_of_columns(const LayerTensors& layer, std::string_view ending, std::int64_t cols,
                                            std::int64_t group) {
  const StoredTensor* const index = layer.find(ending);
  if (index == nullptr || layer.all().without_values) return {};
  layer.expect(ending, kI32, {cols});
  const std::int64_t n_groups = groups_in(cols, group);
  std::vector<std::int64_t> next(static_cast<std::size_t>(n_groups));  // the place of each group's next column
  for (std::int64_t g = 0; g < n_groups; ++g) next[static_cast<std::size_t>(g)] = g * group;
  std::vector<std::int32_t> places(static_cast<std::size_t>(cols));
  bool is_in_order = true;
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::int64_t g = int32_at(*index, c);
    if (g < 0 || g >= n_groups || next[static_cast<std::size_t>(g)] >= std::min(cols, (g + 1) * group)) {
      throw BadCheckpoint(index->file,
                          "tensor {}{}: expected {} columns in each of {} groups, got another one of group {}",
                          layer.layer(), ending, group, n_groups, g);
    }
    const std::int64_t place = next[static_cast<std::size_t>(g)]++;
    places[static_cast<std::size_t>(c)] = static_cast<std::int32_t>(place);
    is_in_order = is_in_order && place == c;
  }
  if (is_in_order) places.clear();
  return places;
}

std::array<std::int64_t, 2> matrix_of_words(const LayerTensors& layer, std::string_view ending) {
  const StoredTensor& words = layer.at(ending);
  const bool fits = words.dtype == "I32" && words.shape.size() == 2 && words.shape[0] > 0 && words.shape[1] > 0 &&
                    std::max(words.shape[0], words.shape[1]) <= kMaxSize / 32;
  if (!fits) {
    throw BadCheckpoint(words.file, "tensor {}{}: expected I32 in two dimensions, got {} {}", layer.layer(), ending,
                        words.dtype, Json(words.shape).dump());
  }
  return {words.shape[0], words.shape[1]};
}

PackedWeight weight_of_bytes(const LayerTensors& layer, std::string_view ending) {
  const StoredTensor& codes = layer.at(ending);
  const bool fits = codes.dtype == "I8" && codes.shape.size() == 2 && codes.shape[0] > 0 && codes.shape[1] > 0 &&
                    std::max(codes.shape[0], codes.shape[1]) <= kMaxSize;
  if (!fits) {
    throw BadCheckpoint(codes.file, "tensor {}{}: expected I8 in two dimensions, got {} {}", layer.layer(), ending,
                        codes.dtype, Json(codes.shape).dump());
  }
  PackedWeight weight{DType::int8, codes.shape[0], codes.shape[1]};
  if (weight.cols % kGroupBlock == 0) {
    weight.bytes = codes.bytes.data();
    return weight;
  }
  weight.read = [data = codes.bytes.data(), cols = weight.cols](std::int64_t c, std::int64_t first, std::int64_t n,
                                                                std::uint8_t* out) {
    for (std::int64_t r = 0; r < n; ++r) {
      out[r] = static_cast<std::uint8_t>(std::to_integer<unsigned>(data[(first + r) * cols + c]) ^ 0x80U);
    }
  };
  return weight;
}

}  // namespace vitrine
