#include "circuit/row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace vitrine {

RowFile::RowFile(const std::string& path) : folder_(std::filesystem::path(path).parent_path().string()) {
  if (folder_.empty()) folder_ = ".";
  std::string name = folder_ + "/.vitrine-rows-XXXXXX";
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) throw BadInput(folder_, "cannot make a file for the rows of the graph: {}", std::strerror(errno));
  ::unlink(name.c_str());
}

RowFile::~RowFile() { ::close(file_); }

std::size_t RowFile::add(std::span<const float> row) {
  std::span<const std::byte> rest = std::as_bytes(row);
  std::int64_t at = bytes();
  while (!rest.empty()) {
    const ssize_t n = ::pwrite(file_, rest.data(), rest.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw OutOfCapacity(folder_, "cannot write the rows of the graph: {}", std::strerror(errno));
    rest = rest.subspan(static_cast<std::size_t>(n));
    at += n;
  }
  ends_.push_back(at);
  return ends_.size() - 1;
}

void RowFile::read(std::size_t number, std::vector<float>& row) const {
  std::int64_t at = number == 0 ? 0 : ends_[number - 1];
  row.resize(static_cast<std::size_t>(ends_[number] - at) / sizeof(float));
  std::span<std::byte> rest = std::as_writable_bytes(std::span(row));
  while (!rest.empty()) {
    const ssize_t n = ::pread(file_, rest.data(), rest.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw BadInput(folder_, "cannot read the rows of the graph: {}", std::strerror(errno));
    rest = rest.subspan(static_cast<std::size_t>(n));
    at += n;
  }
}

}  // namespace vitrine
