#include "train/schedule.h"

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {

void validate(const ScheduleConfig& s) {
  constexpr const char* kWhere = "schedule";
  if (!(s.peak >= 0) || !std::isfinite(s.peak)) {
    throw BadInput(kWhere, "expected a learning rate of at least 0, got {}", s.peak);
  }
  if (!(s.end_fraction >= 0 && s.end_fraction <= 1)) {
    throw BadInput(kWhere, "expected an end_fraction from 0 to 1, got {}", s.end_fraction);
  }
  if (s.warmup < 0 || s.steps < 1) {
    throw BadInput(kWhere, "expected warmup from 0 and steps from 1, got {} and {}", s.warmup, s.steps);
  }
  if (s.kind == ScheduleConfig::Kind::constant || s.kind == ScheduleConfig::Kind::inverse_sqrt) return;
  if (s.warmup >= s.steps) {
    throw BadInput(kWhere, "expected a warmup shorter than the schedule's {} steps, got {}", s.steps, s.warmup);
  }
  if (s.kind != ScheduleConfig::Kind::stable_decay) return;
  if (s.decay_steps < 1 || s.decay_steps > s.steps - s.warmup) {
    throw BadInput(kWhere, "expected decay_steps from 1 to the {} steps after the warmup, got {}", s.steps - s.warmup,
                   s.decay_steps);
  }
}

double learning_rate(const ScheduleConfig& s, std::int64_t step) {
  using Kind = ScheduleConfig::Kind;
  if (step < s.warmup) return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup + 1);
  if (s.kind == Kind::constant) return s.peak;
  if (s.kind == Kind::inverse_sqrt) {
    return s.peak * std::sqrt(static_cast<double>(s.warmup + 1) / static_cast<double>(step + 1));
  }
  const double end = s.peak * s.end_fraction;
  if (step >= s.steps) return end;
  const std::int64_t begin = s.kind == Kind::stable_decay ? s.steps - s.decay_steps : s.warmup;
  if (step < begin) return s.peak;
  const double r = static_cast<double>(step - begin) / static_cast<double>(s.steps - begin);
  if (s.kind == Kind::cosine) return end + (s.peak - end) * (1 + math::cos(std::numbers::pi * r)) / 2;
  return s.peak + (end - s.peak) * r;
}

}  // namespace vitrine
