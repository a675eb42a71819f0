// The list of families: one function a family, and what their files share.
#pragma once

#include "checkpoint/family.h"

namespace vitrine {

Family gemma_family();
Family gemma2_family();
Family gpt2_family();
Family llama_family();

/// The names that most decoder checkpoints of transformers share: embed_tokens, q_proj …, norm, lm_head.
void use_decoder_names(Family& family);

constexpr bool kTransposed = true;
constexpr std::int64_t kMaxLayers = 10000;

/// head_dim, by `key` (may be empty) or else d_model / n_heads, which must come out even.
std::int64_t read_head_dim(ConfigReader& config, std::string_view key, std::int64_t d_model, std::int64_t n_heads);
/// A softcap: `otherwise` where the key is absent, none where it is null.
std::optional<float> read_softcap(ConfigReader& config, std::string_view key, double otherwise);

}  // namespace vitrine
