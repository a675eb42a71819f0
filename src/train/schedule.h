// The learning rate of each step.
//
//   peak ┤     ____________                 peak ┤     ____
//        │    /            \   stable_decay      │    /    ‾‾\__      cosine, linear
//        │   /              \                    │   /           ‾\_
//      0 ┤__/________________\___ step         0 ┤__/_______________‾__ step
//          warmup        decay_steps               warmup
//
//   s < warmup    peak · (s + 1) / (warmup + 1)
//   constant      peak
//   cosine        end + (peak − end) · (1 + cos πr) / 2      r = (s − warmup) / (steps − warmup)
//   linear        peak + (end − peak) · r
//   stable_decay  peak, then linear over the last decay_steps
//   inverse_sqrt  peak · √((warmup + 1) / (s + 1))
//
// Steps count from 0; end = peak · end_fraction is the rate from s = steps on. Sources: nanoGPT's get_lr;
// Hu et al. 2024 (MiniCPM) for stable_decay; Vaswani et al. 2017, section 5.3, for inverse_sqrt.
#pragma once

#include <cstdint>

namespace vitrine {

struct ScheduleConfig {
  enum class Kind : std::uint8_t { constant, cosine, linear, stable_decay, inverse_sqrt };

  Kind kind = Kind::cosine;
  double peak = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t steps = 1;        ///< The decay ends here.
  std::int64_t decay_steps = 0;  ///< Of stable_decay.
  double end_fraction = 0.1;

  bool operator==(const ScheduleConfig&) const = default;
};

/// Throws BadInput if a number is out of range or the numbers contradict each other.
void validate(const ScheduleConfig& schedule);

/// The rate of step number `step`, counted from 0.
double learning_rate(const ScheduleConfig& schedule, std::int64_t step);

}  // namespace vitrine
