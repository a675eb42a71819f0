// Mixers with a state in own models (model_type "vitrine"), whose `layers` is one of these words, or a list of them and
// of "attention".
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/hugging_face/config_reader.h"
#include "model/config.h"

namespace vitrine {

inline constexpr std::array<std::string_view, 5> kOwnMixers = {"delta", "kda", "mamba", "mamba2", "conv"};

bool is_own_mixer(std::string_view word);
/// The mixer of that word, with the keys of its fields; absent sizes follow from d_model.
SublayerKinds::Config read_own_mixer(ConfigReader& config, std::string_view word, const StackConfig& stack,
                                     const NormConfig& norm);
/// What each of `n` layers is: the words, repeated. Throws for a word that is none of a block's.
std::vector<std::string> repeated_words(const ConfigReader& config, std::span<const std::string> words, std::size_t n);
/// Names of tensors without an ending, after the block's.
inline constexpr std::array<std::string_view, 5> kOwnStateNames = {"linear_attn.a_log", "linear_attn.dt_bias",
                                                                   "mixer.a_log", "mixer.dt_bias", "mixer.skip"};

}  // namespace vitrine
