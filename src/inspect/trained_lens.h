// Lenses that are trained: a map of each state of the residual stream, after which comes the model's own last step.
//
//   tuned       h + W · h + b     h is the stream before block N: layers.N is W [d, d], layers.N.bias is b [d]
//   jacobian    J · h             h is the stream after block N, not of the last one: layers.N is J [d, d]
//
// Sources: Belrose et al. 2023 and AlignmentResearch/tuned-lens (tuned); Gurnee et al. 2026 and TransformerLens 4.3,
// tools/analysis/jacobian_lens.py (jacobian).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "ops/linear.h"

namespace vitrine {

enum class LensKind : std::uint8_t { tuned, jacobian };
std::string name_of(LensKind kind);

/// The states of the stream that have a map: those of stream_states() without sublayers from number `first` on, of
/// which the last one has none, since the model's last step reads it.
struct MappedStates {
  std::int64_t first = 0, n_maps = 0;
};
/// Throws Unsupported for a model of one layer, which has no state that a Jacobian lens maps.
MappedStates mapped_states(LensKind kind, const StackConfig& config);

struct TrainedLens {
  LensKind kind = LensKind::tuned;
  std::vector<LinearParams> layers;  ///< By N. They view the file.
  std::shared_ptr<const void> storage{};
};

/// Reads a .safetensors file of `layers.N`, and of a tuned lens `layers.N.bias`, in F32, F16 or BF16; or a folder that
/// has it as lens.safetensors. A tuned lens may also have the names of tuned-lens, `N.weight` and `N.bias`. Throws
/// BadInput if it cannot be read or is of the other kind; Unsupported for a pickle and for tensors that are not known;
/// BadCheckpoint for layers that are missing, of another width than the model's stream, or not finite.
TrainedLens read_trained_lens(const std::string& path, LensKind kind, const StackConfig& config);

/// Writes lens.safetensors into `folder`, whose name ends with a slash. The maps are dense float32.
void write_trained_lens(const std::string& folder, LensKind kind, std::span<const LinearParams> layers);

/// What the last step reads in place of the states `[n, d]`. Computes in float32, and records its ops.
Tensor map_states(Pass& p, LensKind kind, const LinearParams& map, const Tensor& states);

}  // namespace vitrine
