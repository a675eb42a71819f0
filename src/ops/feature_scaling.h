// The input of a dictionary's encoder, and the output of its decoder (pass/dictionary.h).
//
//   features_in    y = z − b      layer_norm      z = (x − μ) / (s + 1e-5)   μ = mean x   s = √(Σ (x − μ)² / (n − 1))
//                                 constant_norm   z = c · x                  c = √n / ‖x‖
//                                 factor          z = f · x
//   features_out   y              layer_norm      r · s + μ
//                                 constant_norm   r / c
//                                 factor          r / f
//
// `is_centered` puts x − μ in the place of x and adds μ to the output (to that of layer_norm, which does, only once).
// x, z [T, d_in]; r, y [T, d_out]. The backward includes what μ, s and c have of x. Source: decoderesearch/SAELens,
// sae_lens/saes/sae.py (run_time_activation_norm_fn_in, _out).
#pragma once

#include "pass/dictionary.h"
#include "pass/pass.h"

namespace vitrine {

Tensor features_in(Pass& p, const Dictionary& dictionary, const Tensor& x);
/// r itself if the scaling is none, or not undone.
Tensor features_out(Pass& p, const Dictionary& dictionary, const Tensor& r, const Tensor& x);
/// dz becomes dx, with the shift and the divisor of the row x as constants.
void undo_input_scaling(const Pass& p, const Dictionary& dictionary, const float* x, std::span<float> dz);
/// By what features_out multiplies r, for the row of x.
float output_scale(const Pass& p, const Dictionary& dictionary, const float* x);

}  // namespace vitrine
