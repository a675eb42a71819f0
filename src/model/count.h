// The shapes and the number of the parameters of a config, without weights.
#pragma once

#include "base/checked.h"
#include "base/error.h"
#include "model/params.h"

namespace vitrine {

/// Calls visit(name, shape) for each parameter of `config`, in the order of for_each_param.
template <class Visit>
void for_each_shape(const ModelConfig& config, Visit&& visit) {
  const ModelParams absent = empty_params(config);
  for_each_param(config, absent,
                 [&](const Param&, const std::string& name, const Shape& shape) { visit(name, shape); });
}

/// The number of parameters; a tied head is counted once. Throws BadInput if it does not fit in 63 bits.
inline std::int64_t count_params(const ModelConfig& config) {
  std::optional<std::int64_t> total = 0;
  for_each_shape(config, [&](const std::string&, const Shape& shape) {
    const std::optional<std::int64_t> count = checked_product(shape.sizes());
    total = total && count ? checked_add(*total, *count) : std::nullopt;
  });
  if (!total) throw BadInput("config", "the number of parameters does not fit in 63 bits");
  return *total;
}

/// The number of elements of all routers' corrections.
inline std::int64_t count_corrections(const ModelConfig& config) {
  std::int64_t total = 0;
  for_each_shape(config, [&](const std::string& name, const Shape& shape) {
    if (is_correction(name)) total += shape.count();
  });
  return total;
}

/// The number of parameters of which a token reads one row alone: those of per-layer embeddings.
inline std::int64_t count_per_layer_params(const ModelConfig& config) {
  if (!config.per_layer) return 0;
  return config.per_layer->vocab_size * per_layer_width(config) * static_cast<std::int64_t>(config.n_layers());
}

}  // namespace vitrine
