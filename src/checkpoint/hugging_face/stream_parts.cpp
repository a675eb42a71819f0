// Reads AltUp and LAuReL.
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

void add_streams(Family& family) {
  TensorRule scale{"{p}layers.{l}.altup.correct_output_scale", {"blocks.{l}.altup.scale.weight"}};
  scale.has_ending = false;
  add_tensors(family.tensors, {scale,
                               {"{p}altup_projections.{s}", {"stream_in.{s}"}},
                               {"{p}altup_unembed_projections.{s}", {"stream_out.{s}"}},
                               {"{p}layers.{l}.altup.router_norm", {"blocks.{l}.altup.ln"}},
                               {"{p}layers.{l}.altup.modality_router", {"blocks.{l}.altup.router"}},
                               {"{p}layers.{l}.altup.prediction_coefs", {"blocks.{l}.altup.predict"}},
                               {"{p}layers.{l}.altup.correction_coefs", {"blocks.{l}.altup.correct"}},
                               {"{p}layers.{l}.laurel.linear_left", {"blocks.{l}.laurel.w_left"}},
                               {"{p}layers.{l}.laurel.linear_right", {"blocks.{l}.laurel.w_right"}},
                               {"{p}layers.{l}.laurel.post_laurel_norm", {"blocks.{l}.laurel.ln"}}});
  family.ignored.push_back(scale.stored);  // transformers writes it also where altup_correct_scale is false
}

void read_streams(ConfigReader& c, ModelConfig& model) {
  AltUpConfig altup{c.size_or("altup_num_inputs", 4), 0, c.flag_or("altup_correct_scale", true), *model.final_norm};
  const double active = c.number_or("altup_active_idx", 0);
  if (!(active >= 0 && active < static_cast<double>(altup.n_streams) && active == std::floor(active))) {
    throw BadCheckpoint(c.where(), "altup_active_idx: expected a number from 0 to {}, got {}", altup.n_streams - 1,
                        active);
  }
  if (altup.n_streams < 2 || altup.n_streams > kMaxStreams) {
    throw BadCheckpoint(c.where(), "altup_num_inputs: expected a number from 2 to {}, got {}", kMaxStreams,
                        altup.n_streams);
  }
  altup.active = static_cast<std::int64_t>(active);
  if (!c.contains("altup_coef_clip") || c.has("altup_coef_clip")) {
    altup.coef_limit = static_cast<float>(c.positive_or("altup_coef_clip", 120));
  }
  model.altup = altup;
  const LaurelConfig laurel{c.size_or("laurel_rank", 64), *model.final_norm};
  for (BlockConfig& block : model.blocks) {
    Sublayer branch{laurel};
    branch.input = Sublayer::Input::previous;
    branch.sum_scale = static_cast<float>(std::sqrt(0.5));
    block.sublayers.insert(block.sublayers.begin() + 1, branch);
    block.sublayers.back().input = Sublayer::Input::corrected;
  }
}

void read_sparsity(ConfigReader& c, ModelConfig& model) {
  constexpr const char* kSparsity = "activation_sparsity_pattern";
  constexpr std::size_t kSparseLayers = 10;
  const std::size_t n_layers = model.blocks.size();
  std::vector<double> shares(n_layers);
  if (c.has(kSparsity)) {
    shares = c.numbers(kSparsity);
  } else if (n_layers > kSparseLayers) {
    std::fill_n(shares.begin(), kSparseLayers, 0.95);
  }
  if (shares.size() != n_layers) {
    throw BadCheckpoint(c.where(), "{}: expected {} layers, got {}", kSparsity, n_layers, shares.size());
  }
  for (std::size_t layer = 0; layer < n_layers; ++layer) {
    const double share = static_cast<double>(static_cast<float>(shares[layer]));  // transformers rounds it
    if (!(share >= 0 && share < 1)) {
      throw BadCheckpoint(c.where(), "{}: expected numbers from 0, below 1, got {}", kSparsity, share);
    }
    if (share == 0) continue;
    const auto erfinv = static_cast<float>(math::normal_quantile(share) / std::sqrt(2.0));  // as PyTorch rounds
    find<DenseConfig>(model.blocks[layer])->gate_cutoff = erfinv * static_cast<float>(std::sqrt(2.0));
  }
}

}  // namespace vitrine
