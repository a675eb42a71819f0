// Which heads of attention each rank of a run computes (--split heads).
#pragma once

#include "model/mixers/attention/config.h"

namespace vitrine {

/// The first query head of part r of n, of which there are at most as many as query heads; for r = n the end. The heads
/// of a part read whole K/V heads, or, if there are fewer of these than parts, the same one.
std::int64_t first_head(const AttendConfig& c, int n, int r);

/// The query heads and the K/V heads of part r of n.
RowRange heads_of_rank(const AttendConfig& c, int n, int r);
RowRange kv_heads_of_rank(const AttendConfig& c, int n, int r);

}  // namespace vitrine
