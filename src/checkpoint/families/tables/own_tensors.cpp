// The names of the tensors of own models (model_type "vitrine").
#include "checkpoint/own_config.h"
#include "checkpoint/own_mixers.h"

namespace vitrine {

std::span<const std::string> own_tensor_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"head.dense", "head.ln", "head.proj", "unembed"};
    for (const std::string stack : {"", "encoder.", "decoder."}) {
      for (const char* own : {"embed", "embed_proj", "pos_embed", "type_embed", "ln_embed", "rel_bias", "ln_final",
                              "per_layer_embed", "per_layer_proj", "ln_per_layer"}) {
        all.push_back(stack + own);
      }
      const std::string block = (stack.empty() ? "blocks." : stack) + "{l}.";
      for (const char* norm : {"ln1", "ln1_post", "ln2", "ln2_post", "ln3", "ln3_post"}) all.push_back(block + norm);
      for (const std::string attention : {"attn.", "cross_attn."}) {
        for (const char* own : {"wq", "wk", "wv", "q_norm", "k_norm", "sinks", "w_gate", "wo"})
          all.push_back(block + attention + own);
      }
      for (const char* own : {"wq_a", "q_latent_norm", "wq_b", "wkv_a", "kv_latent_norm", "wkv_b"}) {
        all.push_back(block + "attn." + own);
      }
      for (const std::string ffn : {"mlp.", "mlp.experts.{e}.", "mlp.shared."}) {
        for (const char* own :
             {"w_gate", "w_up", "w_down", "xielu_alpha_p", "xielu_alpha_n", "xielu_beta", "xielu_eps"}) {
          all.push_back(block + ffn + own);
        }
      }
      for (const char* own : {"dense.{l}", "attn.query", "attn.key", "attn.v", "bridge.{l}", "bridge_c.{l}"}) {
        all.push_back(stack + own);
      }
      for (const char* own :
           {"w_qkv", "wq", "wk", "wv", "w_z", "w_z_down", "w_a", "w_a_down", "w_b", "conv", "norm", "wo"}) {
        all.push_back(block + "linear_attn." + own);
      }
      for (const char* own : {"w_in", "conv", "w_x", "w_dt", "norm", "w_out"}) all.push_back(block + "mixer." + own);
      for (const char* own : {"w_in", "conv", "w_out"}) all.push_back(block + "conv." + own);
      for (const char* own : {"ple.w_gate", "ple.w_proj", "mlp.router"}) all.push_back(block + own);
      all.push_back(block + "mlp.correction");
      all.push_back(block + "mlp.shared_gate");
    }
    return all;
  }();
  return names;
}

std::span<const std::string> own_cell_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const std::string stack : {"", "encoder.", "decoder."}) {
      for (const char* own : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
        for (const char* direction : {"", "_reverse"}) all.push_back(stack + "rnn." + own + "_l{l}" + direction);
      }
      const std::string block = (stack.empty() ? "blocks." : stack) + "{l}.";
      for (const std::string_view own : kOwnStateNames) all.push_back(block + std::string(own));
    }
    return all;
  }();
  return names;
}

}  // namespace vitrine
