#include "model/count.h"

namespace vitrine {

std::int64_t count_params(const ModelConfig& config) {
  std::optional<std::int64_t> total = 0;
  for_each_shape(config, [&](const std::string&, const Shape& shape) {
    const std::optional<std::int64_t> count = checked_product(shape.sizes());
    total = total && count ? checked_add(*total, *count) : std::nullopt;
  });
  if (!total) throw BadInput("config", "the number of parameters does not fit in 63 bits");
  return *total;
}

}  // namespace vitrine
