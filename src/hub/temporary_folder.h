// A folder that is removed with what is in it.
#pragma once

#include <string>

namespace vitrine {

/// In $TMPDIR, or in /tmp. Throws BadInput if it cannot be made.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace vitrine
