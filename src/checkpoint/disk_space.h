// Checks for free disk space before a large file is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace vitrine {

/// Throws OutOfCapacity where the disk of `path` has fewer free bytes. Does nothing where that cannot be found out.
inline void check_disk_space(const std::string& path, std::int64_t bytes) {
  std::error_code error;
  const auto space = std::filesystem::space(std::filesystem::absolute(path, error).parent_path(), error);
  if (error || space.available >= static_cast<std::uintmax_t>(bytes)) return;
  throw OutOfCapacity(path, "the weights need {:.1f} GB, the disk has {:.1f} GB left", static_cast<double>(bytes) / 1e9,
                      static_cast<double>(space.available) / 1e9);
}

}  // namespace vitrine
