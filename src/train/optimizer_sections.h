// The tables [optimizer], [clip] and [schedule] of a training config.
#pragma once

#include <cstdint>
#include <string>

#include "train/config_section.h"
#include "train/optimizer.h"
#include "train/schedule.h"

namespace vitrine {

/// Reads [optimizer] and [clip]. `learns_apart`: what learns is not a model, but next to one, and has other defaults.
/// Throws BadInput as read_train_config() does; so does the other.
OptimizerConfig read_optimizer(ConfigSection& section, ConfigSection& clip, bool learns_apart);
/// `peak`: the default of schedule.lr.
ScheduleConfig read_schedule(ConfigSection& section, std::int64_t steps, const std::string& path, double peak);

}  // namespace vitrine
