// Progress reports of long jobs.
#pragma once

#include <cstdint>
#include <functional>

namespace vitrine {

/// The thread that does the job calls this function regularly, with the amount of work done and the total. An exception
/// that it throws, such as Interrupted, ends the job.
using ReportProgress = std::function<void(std::int64_t done, std::int64_t total)>;

}  // namespace vitrine
