// How a long job tells how far it has come.
#pragma once

#include <cstdint>
#include <functional>

namespace vitrine {

/// Called from time to time by the thread that does the job, with how much is done of how much. What it throws
/// (Interrupted) ends the job.
using ReportProgress = std::function<void(std::int64_t done, std::int64_t total)>;

}  // namespace vitrine
