// The checks of sizes and numbers of a config. Each throws BadInput, with a message that begins with `where`.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/norm.h"
#include "ops/query_scale.h"

namespace vitrine {

inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;

void check_size(std::string_view where, std::string_view name, std::int64_t value, std::int64_t most = kMaxSize);
void check_number(std::string_view where, std::string_view name, float value);  ///< Finite and above 0.
void check_norm(std::string_view where, std::string_view name, const std::optional<NormConfig>& norm);
void check_query_scale(std::string_view where, const std::optional<QueryScaleConfig>& scale);
void check_frequencies(std::string_view where, const std::vector<float>& frequencies);

}  // namespace vitrine
