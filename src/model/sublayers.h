// The kinds of sublayers. A new one is a folder of model/mixers (mixer.h says what is in it), its header, and its name
// in the list.
#pragma once

#include <variant>

#include "model/mixers/attention/attention.h"
#include "model/mixers/conv/conv.h"
#include "model/mixers/convolution/convolution.h"
#include "model/mixers/delta_net/delta_net.h"
#include "model/mixers/experts/experts.h"
#include "model/mixers/ffn/ffn.h"
#include "model/mixers/latent_attention/latent_attention.h"
#include "model/mixers/laurel/laurel.h"
#include "model/mixers/mamba/mamba.h"
#include "model/mixers/mamba2/mamba2.h"
#include "model/mixers/per_layer/per_layer.h"

namespace vitrine {

/// A config of one of some kinds, and its parameters.
template <class... Kinds>
struct KindList {
  using Config = std::variant<Kinds...>;
  using Params = std::variant<typename Kinds::Params...>;
};

using SublayerKinds =
    KindList<AttentionConfig, CrossAttentionConfig, DenseConfig, MoeConfig, PerLayerConfig, LatentAttentionConfig,
             LaurelConfig, ConvConfig, DeltaNetConfig, MambaConfig, Mamba2Config, ConvolutionConfig>;

}  // namespace vitrine
