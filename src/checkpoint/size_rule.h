// Sizes that follow from d_model by a rule.
#pragma once

#include <cstdint>
#include <string_view>

namespace vitrine {

/// A number or fraction of d, perhaps rounded up to a multiple: `4 d`, `8/3 d, round up to 64`. Exact: 8/3 of 64
/// rounded up to 64 is 192. Throws BadInput for what is no such rule, and where the size is no whole number from 1 to
/// 2^31 − 1.
std::int64_t size_by_rule(std::string_view rule, std::int64_t d_model);

}  // namespace vitrine
