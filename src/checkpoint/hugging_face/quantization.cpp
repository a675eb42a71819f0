#include "checkpoint/hugging_face/quantization.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/hugging_face/group_weights.h"
#include "kernels/kernels.h"

namespace vitrine {
namespace {

constexpr const char* kQuantization = "quantization_config";
constexpr std::int64_t kGroup = 32, kGroupBytes = 16;  // of MXFP4

struct UnsupportedMethod {
  std::string_view name;
  std::string_view needs;
};

/// The methods of transformers and of published files that are not read, and what reading them would need.
constexpr UnsupportedMethod kUnsupported[] = {
    {"aqlm", "codebooks whose vectors are added"},
    {"auto-round", "integers of 2 to 8 bits in the packing of GPTQ or AWQ"},
    {"bitnet", "ternary weights, and activations rounded to 8 bits"},
    {"eetq", "integers of 8 bits in the order of a GPU kernel"},
    {"fbgemm_fp8", "FP8 with activations that are clipped at a stored bound"},
    {"fouroversix", "E2M1 in blocks of 16 with two kinds of scales"},
    {"fp_quant", "MXFP4 or NVFP4 of weights that are multiplied by a Hadamard matrix"},
    {"gemma", "the packing of Gemma's own quantizer"},
    {"gguf", "a GGUF file, which is a MODEL of its own"},
    {"higgs", "vectors of a grid, of weights that are multiplied by a Hadamard matrix"},
    {"hqq", "integers of 1 to 8 bits with zero points in floats"},
    {"metal", "integers with scales and biases, in MLX's packing"},
    {"modelopt", "NVFP4 or FP8 with stored scales of the activations"},
    {"mxfp8", "FP8 in blocks of 32 with exponents as scales"},
    {"nvfp4", "E2M1 in blocks of 16 with scales in E4M3"},
    {"quanto", "tensors that its own classes write"},
    {"quark", "its groups of layers, each with a packing and a type of its own"},
    {"sinq", "integers with scales of rows and of columns"},
    {"spqr", "integers of 3 bits with outliers apart"},
    {"torchao", "tensors that its own classes write"},
    {"vptq", "codebooks of vectors"},
};

struct GroupMethod {
  std::string_view name;
  Quantization::Method method;
  GroupConfig (*read)(const ConfigReader& config, ConfigReader& own);
  void (*join)(const GroupConfig& config, StoredTensors& tensors);
};

constexpr GroupMethod kGroupMethods[] = {
    {"gptq", Quantization::Method::gptq, read_gptq, join_gptq},
    {"awq", Quantization::Method::awq, read_awq, join_awq},
    {"bitsandbytes", Quantization::Method::bitsandbytes, read_bitsandbytes, join_bitsandbytes},
    {"compressed-tensors", Quantization::Method::compressed, read_compressed, join_compressed},
};

const GroupMethod* find_groups(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kGroupMethods), std::end(kGroupMethods),
                                         [&](const GroupMethod& each) { return each.name == name; });
  return found != std::end(kGroupMethods) ? found : nullptr;
}

std::string method_of(const ConfigReader& config, ConfigReader& own) {
  const std::string method = own.text_or("quant_method", "");
  if (!method.empty()) return method;
  if (own.contains("load_in_8bit") || own.contains("load_in_4bit")) return "bitsandbytes";
  if (config.is_allowed(kQuantization)) return "none";
  throw BadCheckpoint(config.where(), "{}: key quant_method is missing", kQuantization);
}

void read_fp8(const ConfigReader& config, ConfigReader& own, Quantization& q) {
  const auto expect = [&](const char* key, const char* value, std::string_view needs) {
    const std::string text = own.text_or(key, value);
    if (text != value) refuse_quantization(config, std::string(key) + " " + text, needs);
  };
  expect("fmt", "e4m3", "another format of 8 bits");
  expect("activation_scheme", "dynamic", "activations that are rounded to FP8 with stored scales");
  expect("expert_dtype", "fp8", "experts in another type than the other weights");
  const std::string scales = own.text_or("scale_fmt", "float");
  q.scales_are_powers = scales == "ue8m0";
  if (scales != "float" && !q.scales_are_powers)
    refuse_quantization(config, "scale_fmt " + scales, "scales in another format");
  for (const char* key : {"modules_to_convert", "modules_to_not_convert", "ignored_layers"}) own.texts_or_empty(key);
  own.flag_or("dequantize", false);
  q.block_is_default = !own.contains("weight_block_size");
  const std::vector<std::int64_t> block = own.sizes_or_empty("weight_block_size");
  if (q.block_is_default) q.block = {128, 128};
  if (!own.has("weight_block_size")) return;
  if (block.size() != 2 || block[0] < 1 || block[1] < 1 || std::max(block[0], block[1]) > kMaxSize) {
    throw BadCheckpoint(own.where(), "weight_block_size: expected two sizes from 1 to {}", kMaxSize);
  }
  q.block = {block[0], block[1]};
}

/// The tensors of one weight: an entry, and the one with its scales.
using Entry = std::map<std::string, StoredTensor>::iterator;

std::string text_of(const std::vector<std::int64_t>& shape) { return Json(shape).dump(); }

constexpr std::int64_t blocks_in(std::int64_t n, std::int64_t block) { return n / block + (n % block != 0 ? 1 : 0); }

/// Scales as floats; a copy is added to the storage.
const std::byte* floats_of(const StoredTensor& scales, const std::string& name, bool are_powers,
                           StoredTensors& tensors) {
  const bool is_f32 = scales.dtype == "F32", is_half = scales.dtype == "BF16" || scales.dtype == "F16";
  const bool is_power = scales.dtype == "F8_E8M0" || (are_powers && scales.dtype == "U8");
  if (!is_f32 && !is_half && !is_power) {
    throw Unsupported(scales.file, "tensor {}: expected scales in F32, BF16, F16 or F8_E8M0, got {}",
                      name_in_file(name, scales), scales.dtype);
  }
  const std::byte* const bytes = scales.bytes.data();
  if (is_f32 && reinterpret_cast<std::uintptr_t>(bytes) % alignof(float) == 0) return bytes;
  const std::size_t n = scales.bytes.size() / (is_f32 ? 4U : is_half ? 2U : 1U);
  const auto floats = std::make_shared<std::vector<float>>(n);
  if (is_power) {
    for (std::size_t i = 0; i < n; ++i) (*floats)[i] = std::ldexp(1.0f, std::to_integer<int>(bytes[i]) - 127);
  } else {
    default_kernels().widen(bytes, *scales.type, static_cast<std::int64_t>(n), floats->data());
  }
  tensors.storage.push_back(floats);
  return reinterpret_cast<const std::byte*>(floats->data());
}

/// The blocks whose scales have this shape, if they are one of those that the config allows.
std::optional<Quantization::Block> block_of(const Quantization& q, const std::vector<std::int64_t>& weight,
                                            std::vector<std::int64_t> scales, bool is_one) {
  const std::int64_t rows = weight[weight.size() - 2], cols = weight.back();
  const std::vector<std::int64_t> experts(weight.begin(), weight.end() - 2);
  const auto fits = [&](std::int64_t n, std::int64_t m) {
    std::vector<std::int64_t> expected = experts;
    expected.insert(expected.end(), {n, m});
    return scales == expected;
  };
  const Quantization::Block whole = {std::max<std::int64_t>(1, rows), std::max<std::int64_t>(1, cols)};
  if (q.block && !is_one && fits(blocks_in(rows, q.block->rows), blocks_in(cols, q.block->cols))) return q.block;
  if (q.block && !is_one && !q.block_is_default) return std::nullopt;
  if (scales.size() < 2 && checked_product(scales) == 1 && experts.empty()) return whole;
  while (!scales.empty() && scales.size() < weight.size()) scales.push_back(1);  // of [rows], or [experts]
  if (fits(1, 1)) return whole;
  if (!is_one && fits(rows, 1)) return Quantization::Block{1, whole.cols};
  return std::nullopt;
}

void join_fp8(const Quantization& q, Entry weight, StoredTensors& tensors) {
  auto& [name, tensor] = *weight;
  // transformers calls the one scale of an embedding weight_scale, and that of other weights weight_scale_inv.
  Entry scales = tensors.all.find(name + "_scale_inv");
  const bool has_other_name = scales == tensors.all.end();
  if (has_other_name) scales = tensors.all.find(name + "_scale");
  const bool is_one = has_other_name && q.method == Quantization::Method::fp8;
  if (scales == tensors.all.end()) {
    throw BadCheckpoint(tensor.file, "tensor {}_scale_inv is missing: {} is {}", name_in_file(name, tensor),
                        name_in_file(name, tensor), tensor.dtype);
  }
  if (tensor.shape.size() < 2 || tensor.shape.size() > 3) {
    throw Unsupported(tensor.file, "tensor {}: expected matrices in {}, got shape {}", name_in_file(name, tensor),
                      tensor.dtype, text_of(tensor.shape));
  }
  const auto block = block_of(q, tensor.shape, scales->second.shape, is_one);
  if (!block) {
    throw BadCheckpoint(tensor.file, "tensor {}: expected {}, one for each {} of {} {}, got shape {}",
                        name_in_file(scales->first, scales->second), is_one ? "one scale" : "scales",
                        q.block && !is_one
                            ? fmt::format("block of {} rows and {} columns", q.block->rows, q.block->cols)
                            : std::string("row or for all"),
                        name_in_file(name, tensor), text_of(tensor.shape), text_of(scales->second.shape));
  }
  tensor.type = DType::f8_e4m3;
  tensor.scales =
      StoredScales{floats_of(scales->second, scales->first, q.scales_are_powers, tensors), block->rows, block->cols};
  tensors.all.erase(scales);
}

/// NAME_blocks and NAME_scales become NAME.
void join_mxfp4(Entry blocks, const std::string& name, StoredTensors& tensors) {
  StoredTensor tensor = blocks->second;
  const std::string& in_file = name_in_file(blocks->first, tensor);
  const Entry scales = tensors.all.find(name + "_scales");
  if (scales == tensors.all.end()) throw BadCheckpoint(tensor.file, "tensor {}_scales is missing", name);
  std::vector<std::int64_t> expected = tensor.shape;
  const bool fits = tensor.dtype == "U8" && expected.size() >= 3 && expected.size() <= 4 &&
                    expected.back() == kGroupBytes && expected[expected.size() - 2] <= kMaxSize / kGroup;
  if (!fits) {
    throw BadCheckpoint(tensor.file, "tensor {}: expected bytes [rows, columns / {}, {}], also by expert, got {} {}",
                        in_file, kGroup, kGroupBytes, tensor.dtype, text_of(tensor.shape));
  }
  expected.pop_back();
  if (scales->second.dtype != "U8" || scales->second.shape != expected) {
    throw BadCheckpoint(tensor.file, "tensor {}: expected U8 {}, an exponent for each block of {}, got {} {}",
                        name_in_file(scales->first, scales->second), text_of(expected), in_file, scales->second.dtype,
                        text_of(scales->second.shape));
  }
  tensor.dtype = "MXFP4";
  tensor.type = DType::mxfp4_pairs;
  tensor.shape = expected;
  tensor.shape.back() *= kGroup;
  tensor.scales = StoredScales{scales->second.bytes.data(), 1, kGroup};
  if (!tensor.name.empty()) tensor.name.erase(tensor.name.rfind("_blocks"));
  tensors.all.erase(scales);
  tensors.all.erase(blocks);
  if (!tensors.all.emplace(name, std::move(tensor)).second) {
    throw BadCheckpoint(tensors.where, "tensors {} and {}_blocks hold the same parameter", name, name);
  }
}

}  // namespace

void refuse_quantization(const ConfigReader& config, const std::string& what, std::string_view needs) {
  if (config.is_allowed(kQuantization)) return;
  throw Unsupported(
      config.where(),
      "{}.{}: not supported: it needs {}; give a folder with weights in BF16, or quantized by fp8, mxfp4, "
      "gptq, awq, bitsandbytes or compressed-tensors, or a GGUF file",
      kQuantization, what, needs);
}

Quantization read_quantization(ConfigReader& config) {
  Quantization q;
  auto own = config.object(kQuantization);
  if (!own) return q;
  const std::string method = method_of(config, *own);
  if (method == "fp8") {
    q.method = Quantization::Method::fp8;
    read_fp8(config, *own, q);
    own->finish();
  } else if (method == "mxfp4") {
    q.method = Quantization::Method::mxfp4;
    own->texts_or_empty("modules_to_not_convert");
    own->flag_or("dequantize", false);
    own->finish();
  } else if (const GroupMethod* const groups = find_groups(method); groups != nullptr) {
    q.method = groups->method;
    q.groups = groups->read(config, *own);
    own->finish();
  } else {
    const auto* const known = std::find_if(std::begin(kUnsupported), std::end(kUnsupported),
                                           [&](const UnsupportedMethod& each) { return each.name == method; });
    refuse_quantization(config, "quant_method " + method,
                        known != std::end(kUnsupported) ? known->needs : "a method of its own");
  }
  return q;
}

void join_quantized(const Quantization& quantization, StoredTensors& tensors) {
  if (quantization.method == Quantization::Method::none) return;
  for (const GroupMethod& each : kGroupMethods) {
    if (each.method == quantization.method) each.join(quantization.groups, tensors);
  }
  std::vector<std::string> names;
  const bool is_mxfp4 = quantization.method == Quantization::Method::mxfp4;
  const bool is_fp8 =
      quantization.method == Quantization::Method::fp8 || quantization.method == Quantization::Method::compressed;
  if (!is_fp8 && !is_mxfp4) return;
  constexpr std::string_view kBlocks = "_blocks";
  for (const auto& [name, tensor] : tensors.all) {
    if (is_fp8 ? tensor.dtype == "F8_E4M3" : name.ends_with(kBlocks)) names.push_back(name);
  }
  for (const std::string& name : names) {
    const Entry entry = tensors.all.find(name);
    if (is_fp8) {
      join_fp8(quantization, entry, tensors);
    } else {
      join_mxfp4(entry, name.substr(0, name.size() - kBlocks.size()), tensors);
    }
  }
}

namespace {

std::int64_t scale_size(const StoredTensor& tensor) {
  return is_blocks(*tensor.type) && !has_groups(*tensor.type) ? 1 : sizeof(float);
}

}  // namespace

BlockScales scales_of(const StoredTensor& tensor, std::int64_t rows, std::int64_t cols, std::int64_t matrix) {
  if (!tensor.scales) return {};
  const StoredScales& s = *tensor.scales;
  const std::int64_t n = blocks_in(rows, s.block_rows), m = blocks_in(cols, s.block_cols);
  return {s.data + matrix * n * m * scale_size(tensor), s.block_rows, s.block_cols, m, 1, 0, 0, s.groups};
}

BlockScales scales_of_param(const StoredTensor& tensor, const TensorPlace& place, const PlaceShape& shape,
                            const std::vector<Shape>& parts, std::size_t i) {
  if (!tensor.scales) return {};
  const std::size_t per_matrix = place.stacks_experts ? place.rule->ours.size() : parts.size();
  const std::size_t matrix = i / per_matrix;
  const std::int64_t rows = shape.rows / static_cast<std::int64_t>(parts.size() / per_matrix), cols = shape.cols;
  const auto at = static_cast<std::int64_t>(matrix);
  if (place.rule->rows == Rows::alternating) {
    BlockScales scales = scales_of(tensor, rows, cols, at);
    scales.data += static_cast<std::int64_t>(i % per_matrix) * scales.row_stride * scale_size(tensor);
    scales.row_stride *= static_cast<std::int64_t>(per_matrix);
    return scales;
  }
  std::int64_t first = 0;
  for (std::size_t part = matrix * per_matrix; part < i; ++part) first += parts[part][0];
  const BlockScales scales =
      shape.transposed ? scales_of(tensor, cols, rows, at).transposed() : scales_of(tensor, rows, cols, at);
  return scales.moved(first, 0);
}

}  // namespace vitrine
