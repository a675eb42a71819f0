// Files for one test, gone at its end.
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
  /// How many entries the folder has.
  std::ptrdiff_t entries() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::string path_;
};

/// A new file in the place of an old one: ext4 brings a file that is emptied and written again to disk at once, which
/// is slow, and whoever has mapped the old one keeps it.
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

/// For the length of a scope the process has no rights on root's private files. Where it is root it acts as nobody.
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

/// The text of the vitrine error that `body` throws, which must be one line `[where] …` of bounded length; empty where
/// it throws nothing. Every other exception goes on to the test, which then fails.
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
