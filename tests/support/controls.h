// Control vectors for tests.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "model/config.h"
#include "pass/modifiers.h"

namespace vitrine::test {

/// Directions of a model, different in every layer and element, none larger than `size`.
inline std::shared_ptr<const ControlVector> some_control(const ModelConfig& config, float size) {
  auto control = std::make_shared<ControlVector>();
  for (std::size_t layer = 1; layer < config.n_layers(); ++layer) {
    std::vector<float> direction;
    for (std::int64_t i = 0; i < config.width_before(layer + 1); ++i) {
      direction.push_back(size * std::sin(static_cast<float>(i + 1) * static_cast<float>(layer) * 1.7f));
    }
    control->directions.emplace(static_cast<int>(layer), std::move(direction));
  }
  return control;
}

}  // namespace vitrine::test
