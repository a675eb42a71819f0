#include "hub/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace vitrine {

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  const std::filesystem::path base = std::filesystem::temp_directory_path(error);
  path_ = (base / "vitrine-XXXXXX").string();
  if (error || ::mkdtemp(path_.data()) == nullptr) {
    throw BadInput(base.string(), "cannot make a temporary folder there; TMPDIR names another place");
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace vitrine
