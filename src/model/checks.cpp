#include "model/checks.h"

#include <cmath>

#include "base/error.h"

namespace vitrine {

void check_size(std::string_view where, std::string_view name, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) throw BadInput(where, "expected {} from 1 to {}, got {}", name, most, value);
}

void check_number(std::string_view where, std::string_view name, float value) {
  if (!std::isfinite(value) || value <= 0) throw BadInput(where, "expected {} above 0, got {}", name, value);
}

void check_norm(std::string_view where, std::string_view name, const std::optional<NormConfig>& norm) {
  if (norm && !(norm->eps >= 0 && std::isfinite(norm->eps))) {
    throw BadInput(where, "expected the eps of {} to be at least 0, got {}", name, norm->eps);
  }
  if (norm && !norm->weight && (norm->bias || norm->weight_offset != 0)) {
    throw BadInput(where, "{} has no weight, and therefore neither a bias nor an offset", name);
  }
}

void check_query_scale(std::string_view where, const std::optional<QueryScaleConfig>& scale) {
  if (!scale) return;
  check_size(where, "query_scale interval", scale->interval);
  check_number(where, "query_scale beta", scale->beta);
  if (scale->first < 0) throw BadInput(where, "query_scale first: expected at least 0");
}

void check_frequencies(std::string_view where, const std::vector<float>& frequencies) {
  for (const float frequency : frequencies) {
    if (!std::isfinite(frequency)) throw BadInput(where, "expected finite rope frequencies, got {}", frequency);
  }
}

}  // namespace vitrine
