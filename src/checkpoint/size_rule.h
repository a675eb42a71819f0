// Sizes that a rule derives from d_model.
#pragma once

#include <cstdint>
#include <string_view>

namespace vitrine {

/// A multiple or fraction of d, optionally rounded up to a multiple: `4 d`, `8/3 d, round up to 64`. Exact: 8/3 of 64
/// rounded up to 64 is 192. Throws BadInput for any other rule, and where the size is not a whole number from 1 to
/// 2^31 − 1.
std::int64_t size_by_rule(std::string_view rule, std::int64_t d_model);

}  // namespace vitrine
