// A stack of blocks on the residual stream.
#pragma once

#include <span>

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// `[T, d]` from the stream x `[T, d]`. Without a tape each block overwrites x and releases its arena memory. With a
/// tape all values are kept; with recompute only the stream before each block is kept, and the backward reruns the
/// block. Throws NotFinite as check_finite does, and Interrupted.
Tensor run_stack(Pass& p, Stack stack, std::span<const BlockConfig> configs, std::span<const BlockParams> params,
                 Tensor x);

}  // namespace vitrine
