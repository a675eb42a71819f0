// Edge attribution patching (EAP, EAP-IG): which connections between components carry the difference of two prompts.
//
//   score(u → v, t) = mean over steps of (clean u[t] − corrupted u[t]) · ∂ metric / ∂ input of v[t]
//
// Sources u are what is written to the residual stream: the embedding, the output of each head and of each MLP. Targets
// v are what is read from it: the input of each head's queries, keys and values, that of each MLP, before their norms,
// and the last stream, which the logits are computed from. With one step (EAP) the gradients are those of the corrupted
// prompt; with m steps (EAP-IG) step i runs from the embeddings corrupted + i/m (clean − corrupted). A score estimates
// by how much the metric rises if v reads the clean u.
//
// Where the sum of heads is normalized before it is added, the difference of a head is multiplied by the derivative of
// the norm in the run of the step; so the scores of a source always add up to its gradient times its difference.
//
// Sources: Syed et al. 2023 (EAP); Hanna et al. 2024 (EAP-IG), hannamw/EAP-IG (its points); TransformerLens 4.3,
// tools/analysis/attribution_patching.py (names, the graph, the sign).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generate/context.h"
#include "inspect/objective.h"

namespace vitrine {

/// A source or a target of edges.
struct EdgeNode {
  enum class Kind : std::uint8_t { embed, attn_head_out, mlp_out, q_input, k_input, v_input, mlp_in, logits };

  Kind kind = Kind::embed;
  int layer = -1;  ///< −1: the embedding.
  int head = -1;   ///< −1: no head; of keys and values a K/V head.

  bool operator==(const EdgeNode&) const = default;
};
/// TransformerLens's: `attn_head_out`.
std::string_view name_of(EdgeNode::Kind kind);
/// `embed`, `a3.h1`, `m3` of sources; `a3.h1.q`, `m3`, `logits` of targets.
std::string name_of(const EdgeNode& node);

struct Edge {
  EdgeNode source, target;
  std::int64_t position = 0;
  double score = 0;
};

struct EdgeScores {
  double clean = 0, corrupted = 0;  ///< The metric of the two prompts.
  std::vector<EdgeNode> sources{}, targets{};
  std::vector<std::size_t> n_sources{};       ///< By target: it reads the first so many sources.
  std::vector<std::vector<double>> scores{};  ///< By target: `[T, n_sources]`

  std::int64_t count() const;
  /// The `n` edges of the largest |score|, falling; equal ones in the order of targets, positions and sources.
  std::vector<Edge> strongest(std::size_t n) const;
};

/// Throws BadInput for prompts of different length, as text_pass() and backward_from_objective() do; Unsupported for a
/// model whose stream is not a sum of embeddings, heads and MLPs, and for adapters and dictionaries.
EdgeScores edge_scores(const GenerateContext& context, const Tokens& clean, const Tokens& corrupted,
                       const Objective& objective, int n_steps);

}  // namespace vitrine
