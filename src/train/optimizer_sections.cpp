#include "train/optimizer_sections.h"

#include "base/error.h"

namespace vitrine {
namespace {

constexpr double kMaxRate = 1e9;

}  // namespace

OptimizerConfig read_optimizer(ConfigSection& section, ConfigSection& clip, bool learns_apart) {
  using Kind = OptimizerConfig::Kind;
  OptimizerConfig optimizer;
  if (learns_apart) {
    optimizer.beta2 = 0.999;
    optimizer.weight_decay = 0;
  }
  optimizer.kind = section.choice<Kind>("name", {{"adamw", Kind::adamw}, {"sgd", Kind::sgd}});
  const bool is_adamw = optimizer.kind == Kind::adamw;
  constexpr double kBelowOne = 1 - 1e-9;
  const auto number = [&](const char* key, double otherwise, double highest, bool applies) {
    if (!applies) section.refuse(key, is_adamw ? "AdamW has none" : "SGD has none");
    return section.number(key, otherwise, 0, highest);
  };
  optimizer.beta1 = number("beta1", optimizer.beta1, kBelowOne, is_adamw);
  optimizer.beta2 = number("beta2", optimizer.beta2, kBelowOne, is_adamw);
  optimizer.eps = number("eps", optimizer.eps, 1, is_adamw);
  optimizer.momentum = number("momentum", optimizer.momentum, kBelowOne, !is_adamw);
  optimizer.weight_decay = section.number("weight_decay", is_adamw ? optimizer.weight_decay : 0.0, 0, kMaxRate);
  section.finish();

  const bool is_off = clip.flag("off", false);
  if (is_off) clip.refuse("max_norm", "it has no effect with off = true");
  optimizer.max_norm = clip.number("max_norm", *optimizer.max_norm, 1e-9, kMaxRate);
  if (is_off) optimizer.max_norm = std::nullopt;
  clip.finish();
  return optimizer;
}

ScheduleConfig read_schedule(ConfigSection& section, std::int64_t steps, const std::string& path, double peak) {
  using Kind = ScheduleConfig::Kind;
  ScheduleConfig schedule;
  schedule.peak = peak;
  schedule.steps = steps;
  schedule.kind = section.choice<Kind>("name", {{"cosine", Kind::cosine},
                                                {"linear", Kind::linear},
                                                {"constant", Kind::constant},
                                                {"stable_decay", Kind::stable_decay},
                                                {"inverse_sqrt", Kind::inverse_sqrt}});
  schedule.peak = section.number("lr", schedule.peak, 0, kMaxRate);
  schedule.warmup = section.integer("warmup", 0, 0);
  if (schedule.kind == Kind::constant) section.refuse("end_fraction", "it has no effect on a constant rate");
  if (schedule.kind == Kind::inverse_sqrt) section.refuse("end_fraction", "this rate falls without an end");
  schedule.end_fraction = section.number("end_fraction", schedule.end_fraction, 0, 1);
  if (schedule.kind == Kind::stable_decay) {
    schedule.decay_steps = section.integer("decay_steps", 1);
  } else {
    section.refuse("decay_steps", "it applies to name = \"stable_decay\" only");
  }
  section.finish();
  try {
    validate(schedule);
  } catch (const BadInput& e) {
    throw BadInput(path, "{}", e.what());
  }
  return schedule;
}

}  // namespace vitrine
