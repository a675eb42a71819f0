// The embedding: ids to vectors.
//
//   x[t] = scale · embed[id[t]]        tokens, [T, d]
//   x[t] = x[t] + type_embed[type[t]]  if tokens have types (Devlin et al. 2018)
//   x[t] = x[t] + pos_embed[pos[t]]    if the model has learned positions
//   dembed[id[t]] += scale · dx[t]     dpos_embed[pos[t]] += dx[t]
//
// Sources: Vaswani et al. 2017, section 3.4 (scale √d_model); Radford et al. 2019 (learned positions).
#pragma once

#include <span>

#include "pass/pass.h"

namespace vitrine {

/// `[T, d]`: rows `ids` of `table` `[vocab_size, d]`, times `scale`; `name` is that of the op in a ledger.
/// Throws BadInput for ids outside the table.
Tensor embed(Pass& p, const Param& table, float scale, std::span<const std::int32_t> ids,
             std::string_view name = "embed");
/// `[T, d]`: rows of `table` at the segments' positions; position 0 is row `first`. Throws BadInput beyond the table.
Tensor embed_positions(Pass& p, const Param& table, std::int64_t first, std::int64_t n_rows);

}  // namespace vitrine
