// Folders with FP8 and MXFP4 weights for tests, made from goldens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/hostile_folder.h"
#include "checkpoint/init.h"
#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#include "tensor/dtype.h"

namespace vitrine::test {

constexpr std::int64_t kWhole = 0;  // a block that has all rows, or all columns

/// Bytes that live as long as the test.
struct Memory {
  std::deque<std::vector<std::byte>> all;

  template <class T>
  std::span<const std::byte> keep(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return all.emplace_back(bytes.begin(), bytes.end());
  }
};

/// The E4M3 number nearest to x.
inline std::uint8_t f8_of(float x) {
  std::uint8_t best = 0;
  for (std::uint8_t code = 0; code < 0x7F; ++code) {
    if (std::abs(float_from_f8_e4m3(code) - std::abs(x)) < std::abs(float_from_f8_e4m3(best) - std::abs(x)))
      best = code;
  }
  return static_cast<std::uint8_t>(x < 0 ? best | 0x80 : best);
}

inline std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / static_cast<std::size_t>(size_of(*tensor.type)));
  default_kernels().widen(tensor.bytes.data(), *tensor.type, static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

struct Quantizing {
  std::int64_t block_rows, block_cols;
  const char* scale_type = "F32";
};

/// A tensor as FP8 with its scales, and its dequantized values.
struct Fp8 {
  StoredTensor codes, scales, floats;
};

inline Fp8 quantize(const StoredTensor& tensor, const Quantizing& how, Memory& memory) {
  const std::vector<float> values = floats_of(tensor);
  const std::size_t rank = tensor.shape.size();
  const std::int64_t rows = tensor.shape[rank - 2], cols = tensor.shape[rank - 1];
  const std::int64_t b = how.block_rows == kWhole ? rows : how.block_rows;
  const std::int64_t c = how.block_cols == kWhole ? cols : how.block_cols;
  const std::int64_t n = (rows + b - 1) / b, m = (cols + c - 1) / c;
  const std::int64_t matrices = static_cast<std::int64_t>(values.size()) / (rows * cols);
  std::vector<float> scales(static_cast<std::size_t>(matrices * n * m)), floats(values.size());
  std::vector<std::uint8_t> codes(values.size()), powers;
  std::vector<std::uint16_t> halves;
  std::mt19937 random(3);
  for (float& scale : scales) {  // of three random digits; as powers of two they have none
    scale = std::string_view(how.scale_type) == "F8_E8M0"
                ? std::ldexp(1.0f, -static_cast<int>(random() % 3) - 6)
                : float_from_bf16(bf16_from_float(static_cast<float>(random() % 900 + 100) / 100000.0f));
    powers.push_back(static_cast<std::uint8_t>(std::ilogb(scale) + 127));
    halves.push_back(bf16_from_float(scale));
  }
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
    const std::int64_t row = i / cols % rows, col = i % cols, matrix = i / (rows * cols);
    const float scale = scales[static_cast<std::size_t>((matrix * n + row / b) * m + col / c)];
    const auto at = static_cast<std::size_t>(i);
    codes[at] = f8_of(values[at] / scale);
    floats[at] = float_from_f8_e4m3(codes[at]) * scale;
  }
  std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end() - 2);
  shape.insert(shape.end(), {n, m});
  if (how.block_rows == kWhole && how.block_cols == kWhole && rank == 2) shape.clear();
  const std::string_view type = how.scale_type;
  return {{"F8_E4M3", {}, tensor.shape, memory.keep(codes), ""},
          {how.scale_type,
           {},
           shape,
           type == "F32"    ? memory.keep(scales)
           : type == "BF16" ? memory.keep(halves)
                            : memory.keep(powers),
           ""},
          {"F32", DType::f32, tensor.shape, memory.keep(floats), ""}};
}

inline Json fp8_config(const Quantizing& how) {
  Json config = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"modules_to_not_convert", {"lm_head"}}};
  const bool by_block = how.block_rows != kWhole && how.block_cols != kWhole;
  config["weight_block_size"] = by_block ? Json({how.block_rows, how.block_cols}) : Json();
  return config;
}

/// A folder in FP8, and the same values in F32.
struct Folders {
  explicit Folders(const std::string& golden) : quantized(golden), floats(golden) {}

  HostileFolder quantized, floats;
  Memory memory;
};

inline bool is_norm_or_router(const std::string& name) {
  return name.find("norm") != name.npos || name.find("router") != name.npos || name.ends_with("mlp.gate.weight");
}

/// Fills a folder with random weights in the shapes of a config.
inline void write_model(const HostileFolder& folder, const Json& config) {
  const TempFolder made;
  ThreadPool pool(1);
  init_checkpoint(config, "test", made / "model", DType::f32, 1, pool);
  for (const std::string name : {"config.json", "model.safetensors"}) {
    folder.write(read_file(made / ("model/" + name)), name);
  }
}

/// A model whose matrices have rows of whole blocks.
inline void widen(const HostileFolder& folder) {
  Json config = folder.json();
  const std::pair<const char*, int> kSizes[] = {{"hidden_size", 64},
                                                {"num_attention_heads", 4},
                                                {"num_key_value_heads", 2},
                                                {"intermediate_size", 96},
                                                {"head_dim", 16},
                                                {"moe_intermediate_size", 96},
                                                {"n_embd", 64},
                                                {"n_head", 4}};
  for (const auto& [key, size] : kSizes) {
    if (config.contains(key)) config[key] = size;
  }
  config.erase("mlp_only_layers");  // GGUF has experts in every layer
  write_model(folder, config);
}

inline std::unique_ptr<Folders> fp8_folders(const std::string& golden, const Quantizing& how,
                                            const std::function<bool(const std::string&)>& chosen = {},
                                            bool is_wide = false) {
  auto folders = std::make_unique<Folders>(golden);
  const auto change = [&](const HostileFolder& folder, bool quantizes) {
    if (is_wide) widen(folder);
    edit_tensors(folder, [&](std::map<std::string, StoredTensor>& tensors) {
      for (const auto& [name, tensor] : std::map(tensors)) {
        if (tensor.shape.size() < 2 || (chosen ? !chosen(name) : is_norm_or_router(name))) continue;
        const Fp8 fp8 = quantize(tensor, how, folders->memory);
        tensors[name] = quantizes ? fp8.codes : fp8.floats;
        if (quantizes) tensors[name + "_scale_inv"] = fp8.scales;
      }
    });
  };
  change(folders->quantized, true);
  change(folders->floats, false);
  folders->quantized.edit_json([&](Json& config) { config["quantization_config"] = fp8_config(how); });
  return folders;
}

struct Mxfp4 {
  StoredTensor blocks, scales, floats;
};

/// Random codes and exponents in the shape of a tensor, and their values.
inline Mxfp4 random_mxfp4(const StoredTensor& tensor, std::mt19937& random, Memory& memory) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::int64_t n = 1;
  for (const std::int64_t size : tensor.shape) n *= size;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n / 2)), exponents(static_cast<std::size_t>(n / 32));
  std::vector<float> floats;
  for (auto& e : exponents) e = static_cast<std::uint8_t>(121 + random() % 4);
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(random());
    for (const int code : {byte & 15, byte >> 4}) {
      const float value = std::ldexp(kValues[code & 7], exponents[floats.size() / 32] - 127);
      floats.push_back(code >= 8 ? -value : value);
    }
  }
  std::vector<std::int64_t> shape = tensor.shape;
  shape.back() /= 32;
  const Mxfp4 result{{"U8", {}, {}, memory.keep(bytes), ""},
                     {"U8", {}, shape, memory.keep(exponents), ""},
                     {"F32", DType::f32, tensor.shape, memory.keep(floats), ""}};
  shape.push_back(16);
  Mxfp4 shaped = result;
  shaped.blocks.shape = shape;
  return shaped;
}

inline StoredTensor transposed(const StoredTensor& tensor, Memory& memory) {
  const std::vector<float> from = floats_of(tensor);
  const auto rows = static_cast<std::size_t>(tensor.shape[0]), cols = static_cast<std::size_t>(tensor.shape[1]);
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i % cols * rows + i / cols] = from[i];
  return {"F32", DType::f32, {tensor.shape[1], tensor.shape[0]}, memory.keep(to), ""};
}

inline std::unique_ptr<Folders> mxfp4_folders(const char* golden) {
  auto folders = std::make_unique<Folders>(golden);
  for (const HostileFolder* const folder : {&folders->quantized, &folders->floats}) {
    widen(*folder);
    std::mt19937 random(11);
    edit_tensors(*folder, [&](std::map<std::string, StoredTensor>& tensors) {
      for (const auto& [name, tensor] : std::map(tensors)) {
        const bool is_transposed = name.ends_with("c_fc.weight");
        const bool is_expert = name.find("experts") != name.npos || name.find("put_linear") != name.npos;
        if (!is_expert && !is_transposed) continue;
        StoredTensor by_rows = tensor;
        if (is_transposed) std::swap(by_rows.shape[0], by_rows.shape[1]);
        const Mxfp4 made = random_mxfp4(by_rows, random, folders->memory);
        if (folder == &folders->floats) {
          tensors[name] = is_transposed ? transposed(made.floats, folders->memory) : made.floats;
          continue;
        }
        tensors.erase(name);
        tensors[name + "_blocks"] = made.blocks;
        tensors[name + "_scales"] = made.scales;
      }
    });
  }
  folders->quantized.edit_json([](Json& config) {
    config["quantization_config"] = {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}};
  });
  return folders;
}

}  // namespace vitrine::test
