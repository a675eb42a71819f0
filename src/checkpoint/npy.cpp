#include "checkpoint/npy.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"

namespace vitrine {

namespace {

/// The value of a key of the header's dictionary, up to the next comma outside of parentheses.
std::string header_value(std::string_view header, std::string_view key, const std::string& path) {
  const std::size_t at = header.find(fmt::format("'{}'", key));
  const std::size_t colon = header.find(':', at == header.npos ? header.size() : at);
  if (colon == header.npos) throw BadCheckpoint(path, "the header has no {}", key);
  std::string value;
  int depth = 0;
  for (const char c : header.substr(colon + 1)) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth <= 0 && (c == ',' || c == '}')) break;
    if (c != ' ') value += c;
  }
  return value;
}

/// The sizes of (2,384).
std::vector<std::int64_t> shape_in(const std::string& text, const std::string& path) {
  std::vector<std::int64_t> shape;
  std::string number;
  for (const char c : text) {
    if (c >= '0' && c <= '9' && number.size() < 10) {
      number += c;
    } else if (c == ',' || c == ')') {
      if (!number.empty()) shape.push_back(std::stoll(number));
      number.clear();
    } else if (c != '(') {
      throw BadCheckpoint(path, "the header's shape is malformed");
    }
  }
  return shape;
}

}  // namespace

NpyMatrix read_npy(const std::string& path) {
  const auto file = MappedFile::open(path);
  const std::string_view text = file->text();
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(text[i])); };
  if (text.size() < 12 || !text.starts_with("\x93NUMPY")) throw BadCheckpoint(path, "expected a file of NumPy (.npy)");
  const bool is_first = byte(6) == 1;
  const std::size_t prefix = is_first ? 10 : 12;
  const std::size_t length = byte(8) + (byte(9) << 8) + (is_first ? 0 : (byte(10) << 16) + (byte(11) << 24));
  if (length > text.size() - prefix) throw BadCheckpoint(path, "the file is truncated");
  const std::string_view header = text.substr(prefix, length), data = text.substr(prefix + length);
  const std::string type = header_value(header, "descr", path);
  if (type != "'<f4'" && type != "'<f8'") throw Unsupported(path, "expected float32 or float64, got {}", type);
  if (header_value(header, "fortran_order", path) != "False") throw Unsupported(path, "expected C order");
  const std::vector<std::int64_t> shape = shape_in(header_value(header, "shape", path), path);
  if (shape.size() != 2) throw Unsupported(path, "expected a matrix, got {} axes", shape.size());
  NpyMatrix matrix{shape[0], shape[1], {}};
  const std::size_t size = type == "'<f4'" ? 4 : 8;
  const auto n = static_cast<std::size_t>(matrix.rows) * static_cast<std::size_t>(matrix.cols);
  if (data.size() / size != n || data.size() % size != 0) {
    throw BadCheckpoint(path, "expected {} elements, got {} bytes", n, data.size());
  }
  for (std::size_t i = 0; i < n; ++i) {
    float single = 0;
    double value = 0;
    if (size == 4) std::memcpy(&single, data.data() + i * size, size);
    if (size == 8) std::memcpy(&value, data.data() + i * size, size);
    matrix.values.push_back(size == 4 ? single : static_cast<float>(value));
  }
  return matrix;
}

NpyWriter::NpyWriter(const std::string& path, std::int64_t rows, std::int64_t cols, NpyType type)
    : writer_(path), missing_(rows * cols * (type == NpyType::float32 ? 4 : 1)) {
  constexpr std::string_view kTypes[] = {"<f4", "|i1", "|u1"};
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}), }}",
                                   kTypes[static_cast<std::size_t>(type)], rows, cols);
  constexpr std::size_t kPrefix = 10;  // magic, version, length of the header
  header.resize((kPrefix + header.size() + 1 + 63) / 64 * 64 - kPrefix - 1, ' ');
  header += '\n';
  std::string prefix = {'\x93', 'N', 'U', 'M', 'P', 'Y', '\x01', '\x00'};
  prefix += static_cast<char>(header.size() & 0xFF);
  prefix += static_cast<char>(header.size() >> 8);
  writer_.write(std::as_bytes(std::span(std::string_view(prefix))));
  writer_.write(std::as_bytes(std::span(std::string_view(header))));
}

void NpyWriter::add(const Tensor& rows) { add(std::as_bytes(rows.values())); }

void NpyWriter::add(std::span<const std::byte> rows) {
  writer_.write(rows);
  missing_ -= std::ssize(rows);
}

void NpyWriter::commit() {
  if (missing_ != 0) throw InternalError("npy", "{} bytes are missing", missing_);
  writer_.commit();
}

}  // namespace vitrine
