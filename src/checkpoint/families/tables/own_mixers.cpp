// Mixers with a state of own models.
#include "checkpoint/own_mixers.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/read_fields.h"

namespace vitrine {
namespace {

DeltaNetConfig read_delta(ConfigReader& c, const StackConfig& stack, const NormConfig& norm, bool by_channel) {
  DeltaNetConfig net;
  net.n_heads = c.has("n_state_heads") ? c.size("n_state_heads") : c.size_or("n_heads", 1);
  net.n_key_heads = net.n_heads;
  net.key_dim = net.value_dim = std::max<std::int64_t>(1, stack.d_model / net.n_heads);
  net.width = 4;
  net.norm = norm;
  read_fields(c, net);
  if (!by_channel) return net;
  net.projections = DeltaNetConfig::Projections::apart;
  net.decay_by_channel = net.sigmoid_gate = true;
  net.gate_rank = net.value_dim;
  return net;
}

/// `expand` · d_model.
std::int64_t inner_width(ConfigReader& c, const StackConfig& stack) { return c.size_or("expand", 2) * stack.d_model; }

MambaConfig read_selective(ConfigReader& c, const StackConfig& stack) {
  MambaConfig mamba;
  mamba.channels = inner_width(c, stack);
  mamba.d_state = 16;
  mamba.dt_rank = (stack.d_model + 15) / 16;
  mamba.width = 4;
  read_fields(c, mamba);
  return mamba;
}

Mamba2Config read_second(ConfigReader& c, const StackConfig& stack, const NormConfig& norm) {
  Mamba2Config mamba;
  const std::int64_t inner = inner_width(c, stack);
  mamba.head_dim = c.size_or("state_value_dim", std::min<std::int64_t>(64, inner));
  mamba.n_heads = c.size_or("n_state_heads", inner / mamba.head_dim);
  if (!c.has("state_value_dim")) mamba.head_dim = inner / mamba.n_heads;
  mamba.d_state = 128;
  mamba.width = 4;
  mamba.norm = norm;
  read_fields(c, mamba);
  mamba.out_bias = mamba.in_bias;
  if (mamba.inner() == inner) return mamba;
  throw BadCheckpoint(c.where(), "n_state_heads × state_value_dim: expected expand · d_model ({}), got {}", inner,
                      mamba.inner());
}

}  // namespace

bool is_own_mixer(std::string_view word) {
  return std::find(kOwnMixers.begin(), kOwnMixers.end(), word) != kOwnMixers.end();
}

SublayerKinds::Config read_own_mixer(ConfigReader& c, std::string_view word, const StackConfig& stack,
                                     const NormConfig& norm) {
  if (word == "mamba") return read_selective(c, stack);
  if (word == "mamba2") return read_second(c, stack, norm);
  if (word == "delta" || word == "kda") return read_delta(c, stack, norm, word == "kda");
  ConvConfig conv;
  conv.channels = stack.d_model;
  conv.width = 4;
  read_fields(c, conv);
  return conv;
}

std::vector<std::string> repeated_words(const ConfigReader& c, std::span<const std::string> words, std::size_t n) {
  for (const std::string& word : words) {
    if (word == "attention" || is_own_mixer(word)) continue;
    throw Unsupported(c.where(), "layers: expected attention, {}, got \"{}\"", fmt::join(kOwnMixers, ", "), word);
  }
  if (words.size() > n) {
    throw BadCheckpoint(c.where(), "layers: expected at most n_layers ({}) words, got {}", n, words.size());
  }
  std::vector<std::string> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(words[i % words.size()]);
  return all;
}

}  // namespace vitrine
