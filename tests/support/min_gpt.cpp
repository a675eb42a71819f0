#include "support/min_gpt.h"

#include <cmath>
#include <cstring>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/names.h"

namespace vitrine::test {
namespace {

std::vector<float> from_base64(const std::string& text) {
  static const std::string kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(kAlphabet.find(c));
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes += static_cast<char>(bits >> n_bits & 0xFF);
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

Json read_json(const std::string& path) {
  const auto file = MappedFile::open(path);
  return parse_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, path);
}

ModelConfig config_of(const Json& json, std::int64_t d_ff) {
  ModelConfig c;
  c.d_model = json["n_embd"].get<std::int64_t>();
  c.vocab_size = json["vocab_size"].get<std::int64_t>();
  c.max_seq_len = json["block_size"].get<std::int64_t>();
  c.embedding.position_table = true;
  const NormConfig norm{NormConfig::Kind::layer, 1e-5f, 0.0f, true};
  AttentionConfig attention;
  attention.n_heads = attention.n_kv_heads = json["n_head"].get<std::int64_t>();
  attention.head_dim = c.d_model / attention.n_heads;
  attention.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(attention.head_dim)));
  attention.qkv_bias = attention.out_bias = true;
  const BlockConfig block{{{attention, {norm}}, {DenseConfig{d_ff, Activation::gelu_tanh, false, true}, {norm}}}};
  c.blocks.assign(json["n_layer"].get<std::size_t>(), block);
  c.final_norm = norm;
  return c;
}

/// From vitrine's name to minGPT's name and the part (of three) of a fused tensor.
std::pair<std::string, int> stored_name(const std::string& ours) {
  static const std::map<std::string, std::pair<std::string, int>> kNames = {{"embed", {"transformer.wte", 0}},
                                                                            {"pos_embed", {"transformer.wpe", 0}},
                                                                            {"ln1", {"ln_1", 0}},
                                                                            {"attn.wq", {"attn.c_attn", 0}},
                                                                            {"attn.wk", {"attn.c_attn", 1}},
                                                                            {"attn.wv", {"attn.c_attn", 2}},
                                                                            {"attn.wo", {"attn.c_proj", 0}},
                                                                            {"ln2", {"ln_2", 0}},
                                                                            {"mlp.w_up", {"mlp.c_fc", 0}},
                                                                            {"mlp.w_down", {"mlp.c_proj", 0}},
                                                                            {"ln_final", {"transformer.ln_f", 0}},
                                                                            {"unembed", {"lm_head", 0}}};
  const std::size_t kind = ours.rfind('.');
  std::string place = ours.substr(0, kind), layer;
  if (place.starts_with("blocks.")) {
    const std::size_t end = place.find('.', 7);
    layer = "transformer.h." + place.substr(7, end - 7) + ".";
    place = place.substr(end + 1);
  }
  const auto& [stored, part] = kNames.at(place);
  return {layer + stored + ours.substr(kind), part};
}

}  // namespace

std::map<std::string, JsonTensor> read_json_tensors(const std::string& path) {
  std::map<std::string, JsonTensor> tensors;
  const Json json = read_json(path);
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object() || !value.contains("data")) continue;
    tensors[name] = {value["shape"].get<std::vector<std::int64_t>>(), from_base64(value["data"].get<std::string>())};
  }
  return tensors;
}

std::shared_ptr<const Model> load_min_gpt(const std::string& path) {
  const auto tensors = std::make_shared<const std::map<std::string, JsonTensor>>(read_json_tensors(path));
  const ModelConfig config =
      config_of(read_json(path)["config"], tensors->at("transformer.h.0.mlp.c_fc.bias").shape[0]);
  ModelParams params = empty_params(config);
  for_each_param(config, params, [&](Param& param, const std::string& name, const Shape& shape) {
    const auto [stored, part] = stored_name(name);
    const float* data = tensors->at(stored).data.data() + part * shape.count();
    const std::int64_t cols = shape[shape.rank() - 1];
    param = {name,
             stored,
             shape,
             {reinterpret_cast<const std::byte*>(data), DType::f32, shape.count() / cols, cols, cols, 1}};
  });
  return std::make_shared<const Model>(config, params, std::vector<std::shared_ptr<const void>>{tensors});
}

}  // namespace vitrine::test
