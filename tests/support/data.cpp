#include "support/data.h"

#include <filesystem>

namespace vitrine::test {

std::string outside_data(const std::string& path) {
  const char* folder = std::getenv("VITRINE_DATA");
  if (folder == nullptr) return "";
  const std::string full = std::string(folder) + "/" + path;
  return std::filesystem::exists(full) ? full : "";
}

}  // namespace vitrine::test
