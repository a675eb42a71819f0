// Random parameters to begin with. Each element is a function of (seed, parameter, place), so it does not matter who
// draws it, in which order, or on how many threads.
//
//   norms, biases      gain 1 (stored as 1 − weight_offset), shift 0; all biases 0
//   Scheme::normal     every matrix σ = std, those that write into the stream σ = std / √(2 · n_layers)
//                      (Radford et al. 2019: std 0.02)
//   Scheme::glorot     matrices σ = √(2 / (in + out)), cut at ±3σ (Glorot & Bengio 2010); positions 0.02; the embedding
//                      0.02 where it is tied, else 1, cut at ±3σ
//   Scheme::by_config  normal where positions are learned, else glorot
//   in every scheme    the embedding σ = 1 / s where it is scaled by s (Gemma: s = √d)
//
// A model that knows nothing has a first loss of ln V + var(logits) / 2: near ln V, but for an embedding that is scaled
// and tied. That one's logits have the variance 1, and the token that is read has the logit √d · cos(stream, its own
// embedding). Where that stays below ln V the first loss is ln V + 0.5; where it does not, in models that are wide and
// shallow or have few tokens, a model begins by predicting the token that it reads. The cosine is 1 / √(2 n_layers + 1)
// with post-norms (Gemma 2), and 0.20 in gemma-2b's 18 layers (measured with d 256 and 512). So at their own sizes
// these logits are 6.6 and 9, and ln V is 12.5. σ = 1 / d (embedding_std) begins at ln V at every size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/config.h"
#include "tensor/tensor.h"

namespace vitrine {

/// Normal with mean and standard deviation `std`, none further from the mean than cut · std (0: no bound).
struct InitRule {
  double mean = 0;
  double std = 0;
  double cut = 0;
};

/// What may be chosen.
struct InitOptions {
  enum class Scheme : std::uint8_t { by_config, glorot, normal };

  Scheme scheme = Scheme::by_config;
  double std = 0.02;                    ///< Of Scheme::normal.
  std::optional<double> embedding_std;  ///< In place of the scheme's.

  bool operator==(const InitOptions&) const = default;
};

/// The rule for the parameter of that name and shape in for_each_param's list.
InitRule init_rule(const ModelConfig& config, std::string_view name, const Shape& shape,
                   const InitOptions& options = {});

/// Elements [first, first + out.size()) of parameter number `param`. A value that is cut is one drawn again, not
/// clamped: the quantile of a uniform number between the bounds' probabilities.
void draw_initial(const InitRule& rule, std::uint64_t seed, std::uint64_t param, std::int64_t first,
                  std::span<float> out);

}  // namespace vitrine
