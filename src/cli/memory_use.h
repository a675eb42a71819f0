// The peak memory of this process.
#pragma once

#include <cstdint>

namespace vitrine::cli {

/// Resets the peak; without permission, the peak of the whole run remains.
void forget_peak_memory();
/// Bytes.
std::int64_t peak_memory();

}  // namespace vitrine::cli
