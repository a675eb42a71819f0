#include "checkpoint/gguf/quantization_mix.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace vitrine {

/// What a tensor is to the rules.
enum class MixRole : std::uint8_t { v, attn_output, down };

/// A tensor's place among those of its role: its layer, unless some layers have no such tensor.
struct MixPlace {
  const MixModel& model;
  std::int64_t layer = 0;
  std::int64_t n_layers = 0;
};

struct MixRule {
  MixRole role;
  bool (*applies)(const MixPlace& place);
  DType dtype;
};

namespace {

// Conditions. Eight experts are Mixtral's, whose projections of k and v are small.
bool always(const MixPlace&) { return true; }
bool falcon(const MixPlace& p) { return p.model.architecture == "falcon"; }
bool eight_experts(const MixPlace& p) { return p.model.n_experts == 8; }
bool shared_by_4(const MixPlace& p) { return p.model.heads_per_kv_head >= 4; }
bool first_two(const MixPlace& p) { return p.layer < 2; }
bool first_four(const MixPlace& p) { return p.layer < 4; }
bool first_sixteenth(const MixPlace& p) { return p.layer < p.n_layers / 16; }
bool first_eighth(const MixPlace& p) { return p.layer < p.n_layers / 8; }
/// The first and the last eighth, and every third layer between them.
bool more_bits(const MixPlace& p) {
  const std::int64_t n = p.n_layers;
  return first_eighth(p) || p.layer >= 7 * n / 8 || (p.layer - n / 8) % 3 == 2;
}
bool more_bits_or_not_falcon(const MixPlace& p) { return !falcon(p) || more_bits(p); }
bool more_bits_of_falcon(const MixPlace& p) { return falcon(p) && more_bits(p); }
bool more_bits_not_falcon(const MixPlace& p) { return !falcon(p) && more_bits(p); }
bool first_sixteenth_of_falcon(const MixPlace& p) { return falcon(p) && first_sixteenth(p); }
bool first_eighth_not_falcon(const MixPlace& p) { return !falcon(p) && first_eighth(p); }
bool first_eighth_weighted(const MixPlace& p) { return p.model.weighted && first_eighth(p); }
bool first_eighth_unweighted(const MixPlace& p) { return !p.model.weighted && first_eighth(p); }
bool usual_output(const MixPlace& p) { return !falcon(p) && !eight_experts(p); }
bool output_of_eight_experts(const MixPlace& p) { return !falcon(p) && eight_experts(p); }

constexpr MixRole kV = MixRole::v, kOutput = MixRole::attn_output, kDown = MixRole::down;
constexpr MixRule kOutputOfEight = {kOutput, output_of_eight_experts, DType::q5_k};

std::vector<FileType> make_file_types() {
  return {
      {"f32", 0, DType::f32, {}},
      {"f16", 1, DType::f16, {}},
      {"bf16", 32, DType::bf16, {}},
      {"q8_0", 7, DType::q8_0, {}},
      {"q6_k", 18, DType::q6_k, {}},
      {"q5_1", 9, DType::q5_1, {}},
      {"q5_k_m", 17, DType::q5_k, {{kV, more_bits, DType::q6_k}, {kDown, more_bits, DType::q6_k}}},
      {"q5_k_s", 16, DType::q5_k, {}},
      {"q5_0", 8, DType::q5_0, {{kDown, first_eighth_weighted, DType::q5_1}}},
      {"q4_1", 3, DType::q4_1, {}},
      {"q4_k_m",
       15,
       DType::q4_k,
       {{kV, more_bits, DType::q6_k},
        {kDown, first_sixteenth_of_falcon, DType::q6_k},
        {kDown, more_bits_of_falcon, DType::q5_k},
        {kDown, more_bits_not_falcon, DType::q6_k},
        kOutputOfEight}},
      {"q4_k_s",
       14,
       DType::q4_k,
       {{kV, first_four, DType::q5_k}, {kDown, first_eighth_not_falcon, DType::q5_k}, kOutputOfEight}},
      {"mxfp4", 38, DType::mxfp4, {}},
      {"q4_0", 2, DType::q4_0, {{kDown, first_eighth_weighted, DType::q4_1}}},
      {"iq4_nl",
       25,
       DType::iq4_nl,
       {{kV, shared_by_4, DType::q5_k}, {kDown, first_eighth_unweighted, DType::q5_k}, kOutputOfEight}},
      {"iq4_xs",
       30,
       DType::iq4_xs,
       {{kV, shared_by_4, DType::q5_k}, {kDown, first_eighth_unweighted, DType::q5_k}, kOutputOfEight}},
      {"q3_k_l",
       13,
       DType::q3_k,
       {{kV, always, DType::q5_k},
        {kDown, falcon, DType::q4_k},
        {kDown, always, DType::q5_k},
        {kOutput, falcon, DType::q4_k},
        {kOutput, usual_output, DType::q5_k}}},
      {"q3_k_m",
       12,
       DType::q3_k,
       {{kV, first_two, DType::q5_k},
        {kV, always, DType::q4_k},
        {kDown, first_sixteenth, DType::q5_k},
        {kDown, more_bits_or_not_falcon, DType::q4_k},
        kOutputOfEight,
        {kOutput, usual_output, DType::q4_k}}},
      {"q3_k_s", 11, DType::q3_k, {kOutputOfEight}},
      {"q2_k",
       10,
       DType::q2_k,
       {{kV, shared_by_4, DType::q4_k},
        {kV, always, DType::q3_k},
        {kDown, always, DType::q3_k},
        kOutputOfEight,
        {kOutput, usual_output, DType::q3_k}}},
  };
}

bool is_v(const std::string& tensor) {
  return tensor.ends_with(".attn_v.weight") || tensor.ends_with(".attn_qkv.weight");
}

std::optional<MixRole> role_of(const std::string& tensor) {
  if (is_v(tensor)) return MixRole::v;
  if (tensor.ends_with(".attn_output.weight")) return MixRole::attn_output;
  if (tensor.find(".ffn_down") != tensor.npos) return MixRole::down;
  return std::nullopt;
}

/// The number after "blk.".
std::int64_t layer_of(const std::string& tensor) {
  constexpr std::string_view kStart = "blk.";
  std::int64_t layer = 0;
  if (tensor.starts_with(kStart)) std::from_chars(tensor.data() + kStart.size(), tensor.data() + tensor.size(), layer);
  return layer;
}

/// In models with experts, feed-forwards are counted by layers.
MixPlace place_of(const MixModel& model, const std::string& tensor, std::optional<MixRole> role) {
  const bool by_layer = !role || *role == MixRole::attn_output || (*role == MixRole::down && model.n_experts > 1);
  if (by_layer) return {model, layer_of(tensor), model.n_layers};
  const std::vector<std::string>& all = *role == MixRole::v ? model.values : model.downs;
  const auto index = std::find(all.begin(), all.end(), tensor) - all.begin();
  return {model, index, *role == MixRole::v ? std::ssize(all) : model.n_layers};
}

/// The models of 80 layers and 70 billion parameters, eight of whose heads share a projection of v.
bool is_of_70b(const MixModel& model) {
  return model.n_layers == 80 &&
         ((model.architecture == "llama" && model.heads_per_kv_head > 1) || model.architecture == "qwen2");
}

}  // namespace

const std::vector<FileType>& file_types() {
  static const std::vector<FileType> types = make_file_types();
  return types;
}

const FileType& file_type_named(std::string_view name) {
  const bool is_short = name == "q3_k" || name == "q4_k" || name == "q5_k";
  const std::string full = std::string(name) + (is_short ? "_m" : "");
  for (const FileType& type : file_types()) {
    if (type.name == full) return type;
  }
  throw BadInput("--type", "{} is not a type of GGUF files that vitrine writes", name);
}

MixModel::MixModel(std::string_view name, const ModelConfig& config, bool lists_heads)
    : architecture(name), n_layers(static_cast<std::int64_t>(config.n_layers())), tied(config.head.tied) {
  for (std::size_t i = 0; i < config.n_layers(); ++i) {
    const AttentionConfig* const attention = attention_of(config, i);
    if (attention != nullptr) heads_per_kv_head = attention->n_heads / attention->n_kv_heads;
    if (attention == nullptr && lists_heads) heads_per_kv_head = 0;
    if (attention != nullptr || lists_heads) break;
  }
  for (const BlockConfig& block : config.blocks) {
    if (const auto* const moe = find<MoeConfig>(block)) n_experts = moe->n_experts;
  }
}

void MixModel::count(const std::string& tensor) {
  const std::optional<MixRole> role = role_of(tensor);
  if (role != MixRole::v && role != MixRole::down) return;
  std::vector<std::string>& all = role == MixRole::v ? values : downs;
  const auto after = [](std::int64_t layer, const std::string& other) { return layer < layer_of(other); };
  all.insert(std::upper_bound(all.begin(), all.end(), layer_of(tensor), after), tensor);
}

DType mixed_type(const FileType& file, const MixModel& model, const std::string& tensor, std::int64_t cols) {
  if (!is_blocks(file.dtype)) return file.dtype;
  if (file.dtype == DType::mxfp4) {  // those of three dimensions
    const bool is_by_head = tensor.ends_with(".attn_k_b.weight") || tensor.ends_with(".attn_v_b.weight");
    return tensor.ends_with("_exps.weight") || is_by_head ? DType::mxfp4 : DType::q8_0;
  }
  const bool is_falcon = model.architecture == "falcon";
  const bool is_embedding = tensor == "token_embd.weight" || tensor == "per_layer_token_embd.weight";
  if (model.tied ? is_embedding : tensor == "output.weight") {
    if (is_falcon || cols % block_size(file.dtype).elements != 0) return DType::q8_0;
    return file.dtype == DType::q8_0 ? DType::q8_0 : DType::q6_k;
  }
  const bool is_k = tensor.ends_with(".attn_k.weight");
  if (model.n_experts == 8 && (is_k || is_v(tensor))) return DType::q8_0;
  const std::optional<MixRole> role = role_of(tensor);
  const MixPlace place = place_of(model, tensor, role);
  DType dtype = file.dtype;
  const auto rule = std::find_if(file.rules.begin(), file.rules.end(),
                                 [&](const MixRule& r) { return r.role == role && r.applies(place); });
  if (rule != file.rules.end()) dtype = rule->dtype;
  const bool is_small = dtype == DType::q3_k || dtype == DType::q4_k;
  return role == MixRole::v && is_small && is_of_70b(model) ? DType::q5_k : dtype;
}

DType fitting_type(DType wanted, std::int64_t cols) {
  const auto fits = [&](DType dtype) { return cols % block_size(dtype).elements == 0; };
  if (fits(wanted)) return wanted;
  struct Replacement {
    DType wanted, used;
  };
  constexpr Replacement kReplacements[] = {{DType::q2_k, DType::q4_0}, {DType::q3_k, DType::q4_0},
                                           {DType::q4_k, DType::q5_0}, {DType::q5_k, DType::q5_1},
                                           {DType::q6_k, DType::q8_0}, {DType::iq4_xs, DType::iq4_nl}};
  for (const Replacement& replacement : kReplacements) {
    if (replacement.wanted == wanted && fits(replacement.used)) return replacement.used;
  }
  return DType::f16;
}

}  // namespace vitrine
