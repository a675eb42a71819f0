#include "base/version.h"

namespace vitrine {

std::string version() { return VITRINE_VERSION; }
std::string build_name() { return VITRINE_VERSION " " VITRINE_BUILD_TYPE; }

}  // namespace vitrine
