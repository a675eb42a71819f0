// The version of vitrine.
#pragma once

#include <string>

namespace vitrine {

std::string version();     ///< `0.1.0`
std::string build_name();  ///< The version and the build type: `0.1.0 Release`. Checkpoints of training name it.

}  // namespace vitrine
