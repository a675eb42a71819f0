// Random initial parameters. Each element is a function of the seed, the parameter and the element's index, so the
// order of draws and the number of threads do not matter.
//
//   norms, biases      gain 1 (stored as 1 − weight_offset), shift 0; all biases 0
//   Scheme::normal     matrices σ = std (Radford et al. 2019: 0.02); matrices that write to the stream
//                      σ = std / √(2 · n_layers), the layers of their stack
//   Scheme::glorot     matrices σ = √(2 / (in + out)), truncated at ±3σ (Glorot & Bengio 2010); positions σ = 0.02; the
//                      embedding σ = 0.02 if it is tied, else 1; both truncated at ±3σ
//   Scheme::by_config  normal if positions are learned, else glorot
//   states             A uniform in 1 … 16 (Mamba: 1 … N by column), steps log-uniform in 0.001 … 0.1, D = 1;
//                      convolutions U(±1 / √k) as torch.nn.Conv1d, here normal with its σ (Gu & Dao 2023)
//   in every scheme    the embedding σ = 1 / s if it is scaled by s (Gemma: s = √d)
//
// The loss of an untrained model is ln V + var(logits) / 2, which is close to ln V unless the embedding is both scaled
// and tied. In that case logits have a variance of 1, and the logit of the input token is √d · cos(stream, its
// embedding). If this logit is below ln V, the first loss is ln V + 0.5. Otherwise, in models that are wide and shallow
// or have a small vocabulary, the untrained model predicts its input token. The cosine is 1 / √(2 n_layers + 1) with
// post-norms (Gemma 2), and 0.20 in the 18 layers of gemma-2b (measured at d = 256 and 512). At the original sizes the
// logits are 6.6 and 9, and ln V is 12.5. With σ = 1 / d (embedding_std) the first loss is ln V at every size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/norms.h"
#include "tensor/tensor.h"

namespace vitrine {

/// The normal distribution with `mean` and `std`, truncated at cut · std from the mean (0: not truncated); or another
/// form, from `low` to `high`.
struct InitRule {
  enum class Form : std::uint8_t {
    normal,
    log_uniform_rate,  ///< log A of a rate A that is uniform.
    step_bias,         ///< softplus⁻¹ of a step whose logarithm is uniform.
    column_rate,       ///< log of the column's number from 1 on, of `n_columns`.
  };

  double mean = 0;
  double std = 0;
  double cut = 0;
  Form form = Form::normal;
  double low = 0, high = 0;
  std::int64_t n_columns = 1;
};

struct InitOptions {
  enum class Scheme : std::uint8_t { by_config, glorot, normal };

  Scheme scheme = Scheme::by_config;
  double std = 0.02;                    ///< For Scheme::normal.
  std::optional<double> embedding_std;  ///< Overrides the scheme's.

  bool operator==(const InitOptions&) const = default;
};

/// The rule for the parameter that for_each_param calls `name`, of shape `shape`. `norms`: norms_of(config).
InitRule init_rule(const ModelConfig& config, const NormsByName& norms, std::string_view name, const Shape& shape,
                   const InitOptions& options = {});

/// Draws elements [first, first + out.size()) of parameter number `param`. Truncation does not clamp: values are
/// quantiles of uniform numbers between the probabilities of the bounds.
void draw_initial(const InitRule& rule, std::uint64_t seed, std::uint64_t param, std::int64_t first,
                  std::span<float> out);

}  // namespace vitrine
