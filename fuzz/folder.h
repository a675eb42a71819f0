// A temporary folder for readers that take paths.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "fuzzing.h"

namespace vitrine::fuzz {

/// A new temporary folder, removed with this object.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "vitrine-fuzz-XXXXXX").string()) {
    expect(::mkdtemp(path_.data()) != nullptr, "a folder can be made");
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  const std::string& path() const { return path_; }

  /// Writes a file, replacing one of the same name, and returns its path.
  std::string put(std::string_view name, std::string_view bytes) const {
    std::string path = path_ + "/" + std::string(name);
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    expect(file.good(), "a file can be written");
    return path;
  }

 private:
  std::string path_;
};

}  // namespace vitrine::fuzz
