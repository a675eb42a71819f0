#include "checkpoint/hugging_face/group_config.h"

#include <algorithm>
#include <initializer_list>

#include "base/error.h"

namespace vitrine {
namespace {

/// Reads a key whose value must be one of these texts; the first is that of a file without it.
std::string one_of(const ConfigReader& config, ConfigReader& own, const char* key,
                   std::initializer_list<std::string_view> known, std::string_view needs) {
  std::string text = own.text_or(key, *known.begin());
  if (std::find(known.begin(), known.end(), text) == known.end()) {
    refuse_quantization(config, std::string(key) + " " + text, needs);
  }
  return text;
}

int read_bits(const ConfigReader& config, ConfigReader& own, const char* key, std::initializer_list<int> known) {
  const std::int64_t bits = own.size(key, 64);
  const auto found = std::find(known.begin(), known.end(), bits);
  if (found == known.end()) {
    refuse_quantization(config, std::string(key) + " " + std::to_string(bits), "codes of that many bits");
  }
  return found != known.end() ? *found : 4;
}

/// Columns of a group; −1, and null, is the row.
std::int64_t read_group(ConfigReader& own, std::int64_t otherwise) {
  const double group = own.number_or("group_size", static_cast<double>(otherwise));
  if (group == -1 || group == 0) return 0;
  if (!(group >= 1 && group <= static_cast<double>(kMaxSize)) ||
      group != static_cast<double>(static_cast<std::int64_t>(group))) {
    throw BadCheckpoint(own.where(), "group_size: expected -1 or a size from 1 to {}", kMaxSize);
  }
  return static_cast<std::int64_t>(group);
}

/// Reads the list of modules that are not quantized.
void read_skipped(ConfigReader& own, const char* key, ModuleMatch match, GroupConfig& to) {
  to.list = key;
  to.skipped = ModuleList(own.texts_or_empty(key), match, own.where() + ", " + key);
}

void ignore_all(ConfigReader& own, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) own.ignore(key);
}

std::string read_format(const ConfigReader& config, ConfigReader& own) {
  return one_of(config, own, "format", {"pack-quantized", "int-quantized", "naive-quantized", "float-quantized"},
                "another packing");
}

/// The `weights` of an entry of config_groups.
GroupKind read_weights(const ConfigReader& config, ConfigReader& own, std::string_view format) {
  GroupKind kind;
  kind.is_float = one_of(config, own, "type", {"int", "float"}, "another type of codes") == "float";
  kind.is_packed = format == "pack-quantized";
  if (kind.is_float ? kind.is_packed || format == "int-quantized" : format == "float-quantized") {
    refuse_quantization(config, std::string("type ") + (kind.is_float ? "float" : "int"),
                        "codes of another type than those of format " + std::string(format));
  }
  kind.bits = kind.is_float ? read_bits(config, own, "num_bits", {8}) : read_bits(config, own, "num_bits", {4, 8});
  const std::string strategy =
      one_of(config, own, "strategy", {"tensor", "channel", "group"}, "scales that are laid out in another way");
  const std::int64_t group = read_group(own, 0);
  kind.group = strategy == "tensor" ? GroupKind::kWholeMatrix : strategy == "group" ? group : 0;
  if (strategy == "group" ? group == 0 || kind.is_float : group != 0) {
    refuse_quantization(config, "strategy " + strategy, "a group_size for whole numbers in groups, and only there");
  }
  if (own.flag_or("dynamic", false)) {
    refuse_quantization(config, "dynamic", "weights that are quantized while they are used");
  }
  kind.is_symmetric = own.flag_or("symmetric", true);
  if (kind.is_float && !kind.is_symmetric) refuse_quantization(config, "symmetric false", "zeros of E4M3 codes");
  own.refuse("block_structure");
  ignore_all(own, {"observer", "observer_kwargs", "actorder", "scale_dtype", "zp_dtype"});
  own.finish();
  return kind;
}

/// One entry of config_groups.
void read_entry(const ConfigReader& config, ConfigReader& own, const std::string& otherwise, GroupConfig& to) {
  auto weights = own.object("weights");
  if (!weights) throw BadCheckpoint(own.where(), "key weights is missing");
  const std::string format = own.has("format") ? read_format(config, own) : otherwise;
  GroupKind kind = read_weights(config, *weights, format);
  kind.targets = ModuleList(own.texts_or_empty("targets"), ModuleMatch::whole, own.where() + ", targets");
  to.kinds.push_back(std::move(kind));
  to.rounds_activations = to.rounds_activations || own.has("input_activations");
  own.ignore("input_activations");
  if (own.has("output_activations")) refuse_quantization(config, "output_activations", "results that are rounded");
  own.finish();
}

}  // namespace

// Source: AutoGPTQ and GPTQModel, quantization/config.py; huggingface/transformers, utils/quantization_config.py.
GroupConfig read_gptq(const ConfigReader& config, ConfigReader& own) {
  GroupConfig to;
  GroupKind kind;
  kind.bits = read_bits(config, own, "bits", {2, 3, 4, 8});
  kind.group = read_group(own, 128);
  to.kinds = {kind};
  const std::string format = one_of(config, own, "checkpoint_format", {"gptq", "gptq_v2"}, "another packing");
  to.zeros_are_one_less = format == "gptq";
  one_of(config, own, "pack_dtype", {"int32"}, "codes in words of another size");
  for (const char* key : {"is_marlin_format", "dynamic"}) own.refuse(key);
  read_skipped(own, "modules_to_not_convert", ModuleMatch::ends, to);
  ignore_all(own, {"sym",
                   "desc_act",
                   "static_groups",
                   "true_sequential",
                   "damp_percent",
                   "damp_auto_increment",
                   "lm_head",
                   "model_name_or_path",
                   "model_file_base_name",
                   "dataset",
                   "tokenizer",
                   "block_name_to_quantize",
                   "module_name_preceding_first_block",
                   "modules_in_block_to_quantize",
                   "batch_size",
                   "pad_token_id",
                   "use_cuda_fp16",
                   "use_exllama",
                   "disable_exllama",
                   "exllama_config",
                   "max_input_length",
                   "model_seqlen",
                   "cache_block_outputs",
                   "backend",
                   "meta",
                   "mse",
                   "parallel_packing",
                   "quantizer"});
  return to;
}

// Source: AutoAWQ, models/_config.py and utils/packing_utils.py.
GroupConfig read_awq(const ConfigReader& config, ConfigReader& own) {
  GroupConfig to;
  GroupKind kind;
  kind.bits = read_bits(config, own, own.contains("w_bit") ? "w_bit" : "bits", {4});
  kind.group = own.contains("q_group_size") ? own.size("q_group_size") : read_group(own, 128);
  to.kinds = {kind};
  std::string version = own.text_or("version", "gemm");
  std::transform(version.begin(), version.end(), version.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (version != "gemm") refuse_quantization(config, "version " + version, "the packing of another kernel");
  read_skipped(own, "modules_to_not_convert", ModuleMatch::ends, to);
  ignore_all(own, {"zero_point", "backend", "do_fuse", "fuse_max_seq_len", "modules_to_fuse", "exllama_config"});
  return to;
}

// Source: huggingface/transformers, utils/quantization_config.py, BitsAndBytesConfig.
GroupConfig read_bitsandbytes(const ConfigReader& config, ConfigReader& own) {
  GroupConfig to;
  const auto either = [&](const char* key, const char* other) {
    const bool first = own.flag_or(key, false), second = own.flag_or(other, false);
    return first || second;
  };
  const bool is_4_bits = either("load_in_4bit", "_load_in_4bit"), is_8_bits = either("load_in_8bit", "_load_in_8bit");
  if (is_4_bits == is_8_bits) {
    throw BadCheckpoint(own.where(), "expected either load_in_4bit or load_in_8bit to be true");
  }
  GroupKind kind;
  kind.bits = is_8_bits ? 8 : 4;
  to.kinds = {kind};
  one_of(config, own, "bnb_4bit_quant_type", {"fp4", "nf4"}, "another table of values");
  one_of(config, own, "bnb_4bit_quant_storage", {"uint8"}, "codes that are stored as another type");
  own.refuse("llm_int8_has_fp16_weight");
  read_skipped(own, "llm_int8_skip_modules", ModuleMatch::ends, to);
  ignore_all(own, {"bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant", "llm_int8_enable_fp32_cpu_offload",
                   "llm_int8_threshold"});
  return to;
}

// Source: vllm-project/compressed-tensors, quantization/quant_config.py and quant_args.py.
GroupConfig read_compressed(const ConfigReader& config, ConfigReader& own) {
  GroupConfig to;
  const std::string format = read_format(config, own);
  one_of(config, own, "quantization_status", {"compressed", "frozen"}, "weights that were never compressed");
  if (own.has("sparsity_config")) {
    auto sparsity = own.object("sparsity_config");
    one_of(config, *sparsity, "format", {"dense"}, "weights of which some are left out");
    ignore_all(*sparsity, {"global_sparsity", "ignore", "registry_requires_subclass", "sparsity_structure", "targets"});
    sparsity->finish();
  }
  own.refuse("kv_cache_scheme");
  if (auto transform = own.object("transform_config")) transform->finish();
  read_skipped(own, "ignore", ModuleMatch::whole, to);
  ignore_all(own, {"global_compression_ratio", "version"});
  auto groups = own.object("config_groups");
  if (!groups) throw BadCheckpoint(own.where(), "quantization_config: key config_groups is missing");
  for (const std::string& name : groups->keys()) {
    if (auto group = groups->object(name)) read_entry(config, *group, format, to);
  }
  if (to.kinds.empty()) throw BadCheckpoint(own.where(), "quantization_config.config_groups: expected a group");
  return to;
}

}  // namespace vitrine
