#include "checkpoint/npy.h"

#include <fmt/format.h>

#include <string_view>

#include "base/error.h"

namespace vitrine {

NpyWriter::NpyWriter(const std::string& path, std::int64_t rows, std::int64_t cols)
    : writer_(path), missing_(rows * cols) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  constexpr std::size_t kPrefix = 10;  // magic, version, length of the header
  header.resize((kPrefix + header.size() + 1 + 63) / 64 * 64 - kPrefix - 1, ' ');
  header += '\n';
  std::string prefix = {'\x93', 'N', 'U', 'M', 'P', 'Y', '\x01', '\x00'};
  prefix += static_cast<char>(header.size() & 0xFF);
  prefix += static_cast<char>(header.size() >> 8);
  writer_.write(std::as_bytes(std::span(std::string_view(prefix))));
  writer_.write(std::as_bytes(std::span(std::string_view(header))));
}

void NpyWriter::add(const Tensor& rows) {
  writer_.write(std::as_bytes(rows.values()));
  missing_ -= rows.count();
}

void NpyWriter::commit() {
  if (missing_ != 0) throw InternalError("npy", "{} elements are missing", missing_);
  writer_.commit();
}

}  // namespace vitrine
