// A folder that one process at a time works on.
#pragma once

#include <string>

namespace vitrine {

/// The system releases the lock however the process ends. On a file system without locks the folder is not locked.
class ExclusiveFolder {
 public:
  /// Throws BadInput if the folder cannot be opened or another process has locked it.
  explicit ExclusiveFolder(const std::string& folder);
  ExclusiveFolder(const ExclusiveFolder&) = delete;
  ExclusiveFolder& operator=(const ExclusiveFolder&) = delete;
  ~ExclusiveFolder();

 private:
  int fd_ = -1;
};

}  // namespace vitrine
