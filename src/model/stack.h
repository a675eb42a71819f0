// A stack of blocks: the residual stream through one block after the other.
#pragma once

#include <span>

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// `[T, d]` from the stream x `[T, d]`. Without a tape the blocks write their result over x, and what a block took from
/// the arena is returned with it. A tape keeps everything; in a pass that recomputes it keeps the stream before each
/// block, from which backward runs the block again. Throws NotFinite as check_finite does, Interrupted between blocks.
Tensor run_stack(Pass& p, Stack stack, std::span<const BlockConfig> configs, std::span<const BlockParams> params,
                 Tensor x);

}  // namespace vitrine
