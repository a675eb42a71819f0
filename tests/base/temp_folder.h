// Files and folders for tests, and the messages of errors.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vitrine::test {

/// A new folder that is removed with its contents at the end of the scope.
class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "vitrine_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder");
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// The number of entries in the folder.
  std::ptrdiff_t entries() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::string path_;
};

/// Replaces an existing file instead of truncating it: existing mappings stay valid, and ext4 would flush a truncated
/// file to disk when it is closed, which is slow.
inline void write_file(const std::string& path, std::string_view bytes) {
  std::filesystem::remove(path);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// For the duration of a scope a process that runs as root acts as the user nobody.
class WithoutRights {
 public:
  WithoutRights() : was_root_(::geteuid() == 0), works_(!was_root_ || ::seteuid(65534) == 0) {}
  WithoutRights(const WithoutRights&) = delete;
  WithoutRights& operator=(const WithoutRights&) = delete;
  ~WithoutRights() {
    if (was_root_ && ::seteuid(0) != 0) std::abort();
  }
  bool works() const { return works_; }

 private:
  bool was_root_;
  bool works_;
};

/// The message of the `Error` that `body` throws, or "" if it throws nothing. Checks that the message is one line
/// `[where] …` of bounded length. Other exceptions pass through and fail the test.
template <class Error, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with("[")) << text;
    EXPECT_EQ(text.find_first_of("\n\r\033"), std::string::npos) << text;
    EXPECT_LE(text.size(), 10000u);
    return text;
  }
  return "";
}

}  // namespace vitrine::test
