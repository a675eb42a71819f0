// OLMo Hybrid: delta nets with a norm before them, and OLMo 2's attention with norms after its sublayers. Sources: OLMo
// Team 2026; transformers, models/olmo_hybrid.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_olmo_hybrid(ConfigReader& c) {
  for (const char* key :
       {"linear_a_log_max", "linear_a_log_min", "linear_dt_init_floor", "linear_dt_max", "linear_dt_min"}) {
    c.ignore(key);  // initialization
  }
  DecoderKeys keys{.max_seq_len = 65536};
  std::optional<ConfigReader> rope = c.object("rope_parameters");
  keys.has_rope = !rope || !rope->contains("rope_theta") || rope->has("rope_theta");  // null: no positions
  ModelConfig model = read_decoder(c, keys);
  if (!keys.has_rope) c.ignore("rope_parameters");
  read_attention_bias(c, model);
  norm_q_and_k(model, QkNormConfig::Over::all_heads);
  DeltaNetConfig net;
  net.n_heads = net.n_key_heads = attention_of(model, 0)->n_heads;
  net.n_key_heads = c.size_or("linear_num_key_heads", net.n_key_heads);
  net.key_dim =
      static_cast<std::int64_t>(0.75 * static_cast<double>(model.d_model) / static_cast<double>(net.n_key_heads));
  net.key_dim = c.size_or("linear_key_head_dim", net.key_dim);
  net.value_dim = 2 * net.key_dim;
  net.projections = DeltaNetConfig::Projections::apart;
  net.beta_scale = c.flag_or("linear_allow_neg_eigval", true) ? 2.0f : 1.0f;
  net.norm = {NormConfig::Kind::rms, 1e-5f, 0.0f, false};
  net = read_delta_net(c, net);
  net.conv_parts = {net.keys(), net.keys(), net.values()};
  const std::size_t n = model.blocks.size();
  const auto otherwise = [n](std::size_t i) { return i % 4 != 3 && !(n < 4 && i + 1 == n); };
  const std::vector<bool> has_state = read_state_layers(c, n, otherwise);
  for (std::size_t i = 0; i < n; ++i) {
    if (has_state[i]) continue;
    for (Sublayer& sublayer : model.blocks[i].sublayers) sublayer.norms = {{}, model.final_norm, {}};
  }
  put_mixers(model, net, has_state);
  return model;
}

/// transformers divides the convolution of all channels into three tensors of equal size, whatever q, k and v have.
void adapt_convolutions(ModelConfig& model, const ShapeOfTensor& shape_of) {
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    DeltaNetConfig* const net = find<DeltaNetConfig>(model.blocks[i]);
    if (net == nullptr) continue;
    const std::string layer = "{p}layers." + std::to_string(i) + ".linear_attn.";
    std::array<std::int64_t, 3> parts{};
    constexpr std::array<std::string_view, 3> kNames = {"q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"};
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const std::vector<std::int64_t> shape = shape_of(layer + std::string(kNames[part]));
      if (!shape.empty()) parts[part] = shape[0];
    }
    const bool are_all = parts[0] > 0 && parts[1] > 0 && parts[2] > 0;
    const bool fit = parts[0] + parts[1] + parts[2] == net->channels();  // else binding names the tensor
    if (are_all && fit) net->conv_parts = parts;
  }
}

bool norms_after(const BlockConfig& block) { return find<DeltaNetConfig>(block) == nullptr; }
bool norms_before(const BlockConfig& block) { return find<DeltaNetConfig>(block) != nullptr; }

}  // namespace

Family olmo_hybrid_family() {
  Family family = decoder_family("olmo_hybrid", "OlmoHybridForCausalLM", read_olmo_hybrid);
  family.adapt_to_shapes = adapt_convolutions;
  family.renames = {{".attention_layer_norm.", ".input_layernorm."},
                    {".feedforward_layer_norm.", ".post_attention_layernorm."}};
  TensorRule second{"{p}layers.{l}.post_attention_layernorm", {"blocks.{l}.ln2"}};
  TensorRule after{"{p}layers.{l}.post_attention_layernorm", {"blocks.{l}.ln1_post"}};
  second.applies = norms_before, after.applies = norms_after;
  add_tensors(family.tensors, {second, after, {"{p}layers.{l}.post_feedforward_layernorm", {"blocks.{l}.ln2_post"}}});
  add_delta_net(family, "linear_attn");
  add_apart_projections(family, "linear_attn");
  add_tensors(family.tensors, {{"{p}layers.{l}.linear_attn.a_proj", {"blocks.{l}.linear_attn.w_a"}},
                               {"{p}layers.{l}.linear_attn.g_proj", {"blocks.{l}.linear_attn.w_z"}}});
  return family;
}

}  // namespace vitrine
