// Folders whose weights are packed as GPTQ, AWQ, bitsandbytes and compressed-tensors pack them, made from goldens, and
// the same values in F32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/quantized_folders.h"

namespace vitrine::test {

enum class Packer { gptq, awq, table, signed_bytes, compressed, compressed_bytes };

struct Packing {
  Packer packer = Packer::gptq;
  int bits = 4;
  std::int64_t group = 0;    // columns; 0: the row
  bool is_shuffled = false;  // columns have groups in another order
  bool has_zeros = true;
  bool is_nested = false;
  bool is_wide = false;  // rows of whole blocks
};

/// Random codes `[rows, cols]` with their scales and zeros by group, and the group of each column.
struct Codes {
  std::int64_t rows, cols, group, groups;
  std::vector<std::uint32_t> code, zero;
  std::vector<float> scale;
  std::vector<std::int32_t> group_of;

  Codes(const StoredTensor& of, const Packing& how, std::mt19937& random)
      : rows(of.shape[0]),
        cols(of.shape[1]),
        group(how.group == 0 ? cols : std::min(how.group, cols)),
        groups((cols + group - 1) / group) {
    const std::uint32_t n = std::uint32_t{1} << how.bits;
    for (std::int64_t i = 0; i < rows * cols; ++i) code.push_back(static_cast<std::uint32_t>(random()) % n);
    for (std::int64_t i = 0; i < rows * groups; ++i) {
      zero.push_back(how.has_zeros ? static_cast<std::uint32_t>(random()) % n : n / 2);
      scale.push_back(
          float_from_f16(f16_from_float(static_cast<float>(random() % 900 + 100) / (2000.0f * static_cast<float>(n)))));
    }
    for (std::int64_t c = 0; c < cols; ++c) group_of.push_back(static_cast<std::int32_t>(c / group));
    if (how.is_shuffled) std::shuffle(group_of.begin(), group_of.end(), random);
  }

  std::size_t at(std::int64_t row, std::int64_t col) const { return static_cast<std::size_t>(row * cols + col); }
  std::size_t scale_at(std::int64_t row, std::int64_t g) const { return static_cast<std::size_t>(row * groups + g); }
  float value(std::int64_t row, std::int64_t col) const {
    const std::size_t s = scale_at(row, group_of[static_cast<std::size_t>(col)]);
    return scale[s] * (static_cast<float>(code[at(row, col)]) - static_cast<float>(zero[s]));
  }
};

using Tensors = std::map<std::string, StoredTensor>;

/// Numbers of `bits` bits, dense and lowest first, in the words of one line.
inline std::vector<std::uint32_t> words_of(const std::vector<std::uint32_t>& numbers, int bits) {
  std::vector<std::uint32_t> words((numbers.size() * static_cast<std::size_t>(bits) + 31) / 32);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (int b = 0; b < bits; ++b) {
      const std::size_t bit = i * static_cast<std::size_t>(bits) + static_cast<std::size_t>(b);
      words[bit / 32] |= (numbers[i] >> b & 1U) << (bit % 32);
    }
  }
  return words;
}

/// Lines of words `[n, words]`, or, if they are columns of the tensor, `[words, n]`.
inline StoredTensor words_tensor(const std::vector<std::vector<std::uint32_t>>& lines, bool are_columns,
                                 Memory& memory) {
  const std::size_t n = lines.size(), m = lines.front().size();
  std::vector<std::uint32_t> all(n * m);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < m; ++j) all[are_columns ? j * n + i : i * m + j] = lines[i][j];
  }
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(n), static_cast<std::int64_t>(m)};
  if (are_columns) std::swap(shape[0], shape[1]);
  return {"I32", {}, shape, memory.keep(all), ""};
}

inline StoredTensor halves_tensor(const std::vector<float>& values, std::vector<std::int64_t> shape, Memory& memory) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(f16_from_float(value));
  return {"F16", DType::f16, std::move(shape), memory.keep(halves), ""};
}

inline StoredTensor floats_tensor(const std::vector<float>& values, std::vector<std::int64_t> shape, Memory& memory) {
  return {"F32", DType::f32, std::move(shape), memory.keep(values), ""};
}

/// Scales `[groups, rows]`.
inline StoredTensor scales_by_group(const Codes& c, Memory& memory) {
  std::vector<float> values;
  for (std::int64_t g = 0; g < c.groups; ++g) {
    for (std::int64_t r = 0; r < c.rows; ++r) values.push_back(c.scale[c.scale_at(r, g)]);
  }
  return halves_tensor(values, {c.groups, c.rows}, memory);
}

inline void add_gptq(const Codes& c, const Packing& how, const std::string& layer, Tensors& to, Memory& memory) {
  std::vector<std::vector<std::uint32_t>> columns, zeros;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    columns.push_back(words_of({c.code.begin() + r * c.cols, c.code.begin() + (r + 1) * c.cols}, how.bits));
  }
  const std::uint32_t n = std::uint32_t{1} << how.bits;
  for (std::int64_t g = 0; g < c.groups; ++g) {
    std::vector<std::uint32_t> of_group;
    for (std::int64_t r = 0; r < c.rows; ++r) of_group.push_back((c.zero[c.scale_at(r, g)] + n - 1) % n);
    zeros.push_back(words_of(of_group, how.bits));
  }
  to[layer + ".qweight"] = words_tensor(columns, true, memory);
  to[layer + ".qzeros"] = words_tensor(zeros, false, memory);
  to[layer + ".scales"] = scales_by_group(c, memory);
  to[layer + ".g_idx"] = {"I32", {}, {c.cols}, memory.keep(c.group_of), ""};
}

inline void add_awq(const Codes& c, const std::string& layer, Tensors& to, Memory& memory) {
  constexpr std::int64_t kColumnOfNibble[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto line = [&](const auto& number) {
    std::vector<std::uint32_t> ordered;
    for (std::int64_t r = 0; r < c.rows; ++r) ordered.push_back(number(r / 8 * 8 + kColumnOfNibble[r % 8]));
    return words_of(ordered, 4);
  };
  std::vector<std::vector<std::uint32_t>> codes, zeros;
  for (std::int64_t i = 0; i < c.cols; ++i) codes.push_back(line([&](std::int64_t r) { return c.code[c.at(r, i)]; }));
  for (std::int64_t g = 0; g < c.groups; ++g)
    zeros.push_back(line([&](std::int64_t r) { return c.zero[c.scale_at(r, g)]; }));
  to[layer + ".qweight"] = words_tensor(codes, false, memory);
  to[layer + ".qzeros"] = words_tensor(zeros, false, memory);
  to[layer + ".scales"] = scales_by_group(c, memory);
}

inline void add_compressed(const Codes& c, const Packing& how, const std::string& layer, Tensors& to, Memory& memory) {
  std::vector<std::vector<std::uint32_t>> rows, zeros;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    rows.push_back(words_of({c.code.begin() + r * c.cols, c.code.begin() + (r + 1) * c.cols}, how.bits));
  }
  for (std::int64_t g = 0; g < c.groups; ++g) {
    std::vector<std::uint32_t> of_group;
    for (std::int64_t r = 0; r < c.rows; ++r) of_group.push_back(c.zero[c.scale_at(r, g)]);
    zeros.push_back(words_of(of_group, how.bits));
  }
  to[layer + ".weight_packed"] = words_tensor(rows, false, memory);
  to[layer + ".weight_scale"] = halves_tensor(c.scale, {c.rows, c.groups}, memory);
  to[layer + ".weight_shape"] = {"I64", {}, {2}, memory.keep(std::vector<std::int64_t>{c.rows, c.cols}), ""};
  if (how.has_zeros) to[layer + ".weight_zero_point"] = words_tensor(zeros, true, memory);
  if (how.is_shuffled) to[layer + ".weight_g_idx"] = {"I32", {}, {c.cols}, memory.keep(c.group_of), ""};
}

inline std::vector<std::int8_t> less_128(const std::vector<std::uint32_t>& numbers) {
  std::vector<std::int8_t> bytes;
  for (const std::uint32_t number : numbers) bytes.push_back(static_cast<std::int8_t>(static_cast<int>(number) - 128));
  return bytes;
}

inline void add_compressed_bytes(const Codes& c, const Packing& how, const std::string& layer, Tensors& to,
                                 Memory& memory) {
  to[layer + ".weight"] = {"I8", {}, {c.rows, c.cols}, memory.keep(less_128(c.code)), ""};
  to[layer + ".weight_scale"] = halves_tensor(c.scale, {c.rows, c.groups}, memory);
  if (how.has_zeros)
    to[layer + ".weight_zero_point"] = {"I8", {}, {c.rows, c.groups}, memory.keep(less_128(c.zero)), ""};
}

/// INT8 of bitsandbytes; returns the values.
inline std::vector<float> add_signed_bytes(const Codes& c, const std::string& layer, Tensors& to, Memory& memory) {
  to[layer + ".weight"] = {"I8", {}, {c.rows, c.cols}, memory.keep(less_128(c.code)), ""};
  to[layer + ".SCB"] = floats_tensor(c.scale, {c.rows}, memory);
  std::vector<float> values;
  for (std::int64_t i = 0; i < c.rows * c.cols; ++i) {
    const float q = static_cast<float>(c.code[static_cast<std::size_t>(i)]) - 128.0f;
    values.push_back(c.scale[static_cast<std::size_t>(i / c.cols)] / 127.0f * q);
  }
  return values;
}

/// NF4 of bitsandbytes in blocks of 64, which go on from row to row; returns the values.
inline std::vector<float> add_table(const Codes& c, const Packing& how, const std::string& layer, Tensors& to,
                                    std::mt19937& random, Memory& memory) {
  constexpr std::size_t kBlock = 64, kNested = 256;
  const std::size_t n = c.code.size(), blocks = (n + kBlock - 1) / kBlock;
  std::vector<float> table, scales, map, nested;
  for (int i = 0; i < 16; ++i) table.push_back(static_cast<float>(i) / 7.5f - 1.0f);
  for (int i = 0; i < 256; ++i) map.push_back(static_cast<float>(i) / 200.0f);
  for (std::size_t i = 0; i * kNested < blocks; ++i) nested.push_back(0.5f + 0.125f * static_cast<float>(i));
  std::vector<std::uint8_t> bytes((n + 1) / 2), numbers;
  for (std::size_t i = 0; i < blocks; ++i) {
    numbers.push_back(static_cast<std::uint8_t>(random()));
    const float scale = map[numbers[i]] * nested[i / kNested] + 0.0625f;
    scales.push_back(scale);
  }
  Json state = {{"quant_type", "nf4"}, {"blocksize", kBlock}, {"dtype", "float32"}, {"shape", {c.rows, c.cols}}};
  if (how.is_nested)
    state.update({{"nested_blocksize", kNested}, {"nested_dtype", "float32"}, {"nested_offset", 0.0625}});
  const std::string text = state.dump(), name = layer + ".weight";
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) {
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | c.code[i] << (i % 2 == 0 ? 4 : 0));
    values.push_back(table[c.code[i]] * scales[i / kBlock]);
  }
  const auto count = static_cast<std::int64_t>(blocks);
  to[name] = {"U8", {}, {static_cast<std::int64_t>(bytes.size()), 1}, memory.keep(bytes), ""};
  to[name + ".quant_map"] = floats_tensor(table, {16}, memory);
  to[name + ".quant_state.bitsandbytes__nf4"] = {
      "U8", {}, {static_cast<std::int64_t>(text.size())}, memory.keep(std::vector<char>(text.begin(), text.end())), ""};
  to[name + ".absmax"] = floats_tensor(scales, {count}, memory);
  if (how.is_nested) {
    to[name + ".absmax"] = {"U8", {}, {count}, memory.keep(numbers), ""};
    to[name + ".nested_absmax"] = floats_tensor(nested, {static_cast<std::int64_t>(nested.size())}, memory);
    to[name + ".nested_quant_map"] = floats_tensor(map, {256}, memory);
  }
  return values;
}

inline Json config_of(const Packing& how) {
  const Json group = how.group == 0 ? std::int64_t{-1} : how.group;
  switch (how.packer) {
    case Packer::gptq:
      return {{"quant_method", "gptq"}, {"bits", how.bits}, {"group_size", group}, {"desc_act", how.is_shuffled}};
    case Packer::awq:
      return {{"quant_method", "awq"}, {"bits", 4}, {"group_size", group}, {"version", "gemm"}};
    case Packer::table:
      return {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
    case Packer::signed_bytes:
      return {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}};
    case Packer::compressed:
    case Packer::compressed_bytes:
      break;
  }
  const Json weights = {{"num_bits", how.bits},
                        {"type", "int"},
                        {"symmetric", !how.has_zeros},
                        {"strategy", how.group == 0 ? "channel" : "group"},
                        {"group_size", how.group == 0 ? Json() : group}};
  const char* const format = how.packer == Packer::compressed ? "pack-quantized" : "int-quantized";
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

/// Every projection of a golden, packed, and the same values in F32.
inline std::unique_ptr<Folders> group_folders(const std::string& golden, const Packing& how) {
  auto folders = std::make_unique<Folders>(golden);
  for (const HostileFolder* const folder : {&folders->quantized, &folders->floats}) {
    if (how.is_wide) widen(*folder);
    std::mt19937 random(17);
    edit_tensors(*folder, [&](Tensors& tensors) {
      for (const auto& [name, tensor] : std::map(tensors)) {
        if (tensor.shape.size() != 2 || !name.ends_with("_proj.weight")) continue;
        const Codes codes(tensor, how, random);
        const std::string layer = name.substr(0, name.size() - std::string_view(".weight").size());
        Tensors packed;
        std::vector<float> values;
        Memory& memory = folders->memory;
        if (how.packer == Packer::table) values = add_table(codes, how, layer, packed, random, memory);
        if (how.packer == Packer::signed_bytes) values = add_signed_bytes(codes, layer, packed, memory);
        for (std::int64_t i = 0; values.size() < codes.code.size(); ++i) {
          values.push_back(codes.value(i / codes.cols, i % codes.cols));
        }
        if (how.packer == Packer::gptq) add_gptq(codes, how, layer, packed, memory);
        if (how.packer == Packer::awq) add_awq(codes, layer, packed, memory);
        if (how.packer == Packer::compressed) add_compressed(codes, how, layer, packed, memory);
        if (how.packer == Packer::compressed_bytes) add_compressed_bytes(codes, how, layer, packed, memory);
        const std::vector<std::int64_t> shape = tensor.shape;
        tensors.erase(name);
        if (folder == &folders->floats) packed = {{name, floats_tensor(values, shape, memory)}};
        tensors.merge(packed);
      }
    });
  }
  folders->quantized.edit_json([&](Json& config) { config["quantization_config"] = config_of(how); });
  return folders;
}

}  // namespace vitrine::test
