// A stack: the embedding of its tokens, and its blocks on the residual stream.
#pragma once

#include <span>
#include <vector>

#include "model/params.h"

namespace vitrine {

/// The tokens of a pass: one id per row, and their types if the stack has any (none given: all 0). In an
/// encoder–decoder these are the decoder's ids, the encoder reads `source`, and the types are those of the source.
struct Tokens {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> types{};
  std::span<const std::int32_t> source{};

  Tokens(std::span<const std::int32_t> token_ids, std::span<const std::int32_t> token_types = {},
         std::span<const std::int32_t> source_ids = {})
      : ids(token_ids), types(token_types), source(source_ids) {}
  Tokens(const std::vector<std::int32_t>& token_ids) : ids(token_ids) {}
};

/// What the first layer of a stack reads.
struct StackInput {
  Tensor stream;       ///< `[T, width_before(0)]`; without a tape the blocks overwrite it.
  Tensor per_layer{};  ///< `[T, n_layers · p]`: the inputs of per-layer embeddings; no data without them.
};

/// The input of the first block, from the embedding `table`.
StackInput embed_tokens(Pass& p, Stack stack, const StackConfig& c, const StackParams& w, const Param& table,
                        std::span<const std::int32_t> ids, std::span<const std::int32_t> types);

/// Memory for the last states of all layers of a recurrent stack, which its layers fill. Null for other stacks.
SharedStates make_states(Pass& p, Stack stack, const StackConfig& c);

/// `[T, width_before(n_layers)]` from the input of the first layer and what the encoder has computed, if there is one.
/// Without a tape each block overwrites the stream and releases its arena memory. With a tape all values are kept; with
/// recompute only the stream before each block is kept, and the backward reruns the block. Throws NotFinite as
/// check_finite does, and Interrupted.
Tensor run_stack(Pass& p, Stack stack, const StackConfig& c, const StackParams& w, const StackInput& in,
                 const LayerContext& context);

}  // namespace vitrine
