// The parameters of a model, with our names and shapes.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/config.h"

namespace vitrine {

struct SublayerNormParams {
  NormParams pre, post, sum;  ///< Only the norms of the config.
};

struct SublayerParams {
  SublayerNormParams norms;
  SublayerKinds::Params what;  ///< Of the kind of the config.
};

/// The parameters of a sublayer of the kind `config`.
template <class Kind>
const typename Kind::Params& params_of(const Kind&, const SublayerParams& w) {
  return std::get<typename Kind::Params>(w.what);
}
template <class Kind>
typename Kind::Params& params_of(const Kind&, SublayerParams& w) {
  return std::get<typename Kind::Params>(w.what);
}

/// Calls use(kind, params) with the config of a sublayer and its parameters.
template <class Sublayer, class SublayerParams, class Use>
decltype(auto) visit_sublayer(Sublayer& sublayer, SublayerParams& w, Use&& use) {
  return std::visit([&](auto& kind) -> decltype(auto) { return use(kind, params_of(kind, w)); }, sublayer.what);
}

struct BlockParams {
  std::vector<SublayerParams> sublayers;
  Param scalar;  ///< `[1]`, if the block has one.
  AltUpParams altup;
};

struct StackParams {
  std::shared_ptr<SinusoidRows> sinusoids;  ///< Not a parameter: set by the model, if its positions are computed.
  /// `[vocab_size, embedding_width]`; absent in an encoder that shares that of the decoder.
  Param embed;
  LinearParams embed_proj;  ///< `[d_model, embedding_width]`, if the embedding has a width of its own.
  Param pos_embed;          ///< `[first_position + max_seq_len, d_model]`, if there is a table of positions.
  Param type_embed;         ///< `[n_types, d_model]`, if tokens have types.
  NormParams embed_norm;
  Param per_layer_embed;        ///< `[per_layer.vocab_size, n_layers · p]`, if there are per-layer embeddings of p
                                ///< elements.
  LinearParams per_layer_proj;  ///< `[n_layers · p, d_model]`
  NormParams per_layer_norm;    ///< `[p]`
  Param rel_bias;               ///< `[n_buckets, n_heads]`, if there is a relative bias.
  Param rel_embed;              ///< `[2 · span, d_model]`, if there is a table of relative positions.
  NormParams rel_norm;
  StreamsParams streams;  ///< With AltUp.
  std::vector<BlockParams> blocks;
  std::vector<LayerKinds::Params> layers;
  NormParams final_norm;
};

struct ModelParams : StackParams {
  StackParams encoder;      ///< If the config has an encoder.
  LinearParams pooler;      ///< `[d_model, d_model]`, if the config has a pooler.
  LinearParams nsp_head;    ///< `[2, d_model]`, if it predicts the next sentence.
  TaskHeadParams task;      ///< If the config has such a head.
  LinearParams head_dense;  ///< `[d_model, d_model]`, if the head has a transform.
  NormParams head_norm;
  LinearParams head_proj;  ///< `[head_width, d_model]`, if the head has a width of its own.
  LinearParams unembed;    ///< `[vocab_size, head_width]`; the weight is absent if the head is tied.
};

/// Unset parameters for `config`, for for_each_param to visit.
ModelParams empty_params(const ModelConfig& config);

/// Passes the parameters of `config` to `list`, in the order of a forward.
void list_params(ParamList& list, const ModelConfig& config, ModelParams& params);

/// Calls visit(param, name, shape) for each parameter of `config`, in the order of a forward. Loading, saving, counting
/// and printing are visitors.
template <class Params, class Visit>
void for_each_param(const ModelConfig& config, Params& params, Visit&& visit) {
  using Visited = std::conditional_t<std::is_const_v<Params>, const Param, Param>;
  ParamList list([&](Param& param, const std::string& name, const Shape& shape) {
    visit(static_cast<Visited&>(param), name, shape);
  });
  list_params(list, config, const_cast<ModelParams&>(params));  // a visitor of const parameters cannot change them
}

}  // namespace vitrine
