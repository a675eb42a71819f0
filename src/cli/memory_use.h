// What this process has held of memory at most.
#pragma once

#include <cstdint>

namespace vitrine::cli {

/// The peak begins anew; without the right to it, it stays that of the whole run.
void forget_peak_memory();
/// Bytes.
std::int64_t peak_memory();

}  // namespace vitrine::cli
