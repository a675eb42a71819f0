// Activation patching: runs of a corrupted prompt, each with one value of a clean run.
//
//   recovered    = (metric − metric of the corrupted run) / (metric of the clean run − metric of the corrupted run)
//   approximate  = gradient of the corrupted run · (clean value − corrupted value), all from one backward: an estimate
//                  of metric − metric of the corrupted run
//
// Sources: Meng et al. 2022 (causal tracing); Nanda 2023, "Attribution patching" (the approximation).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generate/context.h"

namespace vitrine {

struct PatchOptions {
  /// One value of resid_pre, resid_mid, resid_post, attn_out or mlp_out is a row; of z, q, k, v or pattern, a head.
  Site site = Site::resid_pre;
  std::int32_t token = 0;
  std::optional<std::int32_t> against{};
  bool is_logprob = false;  ///< The metric is the log-probability, in nats, not the logit.
  bool approximate = false;
  std::vector<std::string> frozen{};  ///< Globs of sites that keep their values of the corrupted run.
};

struct Patch {
  double clean = 0, corrupted = 0;             ///< The metric of the two prompts, at the last position.
  bool by_head = false;                        ///< The second axis is heads (of k and v: K/V heads), else positions.
  std::vector<std::vector<double>> metric;     ///< `[layers][positions or heads]`; no row: the layer lacks the site.
  std::vector<std::vector<double>> recovered;  ///< NaN where the two prompts have the same metric.
  std::vector<std::vector<double>> approximate;
};

/// The names of the sites that can be patched, without the layer: `hook_resid_pre`, …, `attn.hook_pattern`.
std::vector<std::string> patch_sites();
/// Throws BadInput for another name.
Site patch_site(const std::string& name);

/// Throws BadInput for prompts of different length, and as text_pass() and EditedRuns::freeze() do; Unsupported for a
/// model without the site.
Patch patch(const GenerateContext& context, const Tokens& clean, const Tokens& corrupted, const PatchOptions& options);

}  // namespace vitrine
