// The rows of a graph on disk, while it is made: a file without a name next to the graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vitrine {

class RowFile {
 public:
  /// In the folder of `path`. Throws BadInput if no file can be made there.
  explicit RowFile(const std::string& path);
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  ~RowFile();

  /// Appends a row and returns its number. Throws OutOfCapacity if the disk is full.
  std::size_t add(std::span<const float> row);
  /// Reads a row into `row`, whose size becomes that of the row.
  void read(std::size_t number, std::vector<float>& row) const;
  std::int64_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }

 private:
  std::string folder_;
  int file_ = -1;
  std::vector<std::int64_t> ends_;  // bytes
};

}  // namespace vitrine
