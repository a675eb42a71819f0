#include "features/tensor_table.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "features/npz.h"
#include "kernels/kernels.h"

namespace vitrine {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// One element of a type that only small values have.
float number_at(const StoredTensor& tensor, std::size_t i) {
  const auto read = [&](auto number) {
    std::memcpy(&number, tensor.bytes.data() + i * sizeof(number), sizeof(number));
    return static_cast<float>(number);
  };
  if (tensor.dtype == "F64") return read(double{});
  if (tensor.dtype == "I32") return read(std::int32_t{});
  return read(std::int64_t{});
}

}  // namespace

void refuse_pickle(const std::string& where, std::span<const std::byte> bytes) {
  constexpr std::size_t kDirectory = 1 << 16;  // the names of an archive are at its end
  const std::string_view text = text_of(bytes);
  const bool is_zip = text.starts_with("PK\x03\x04");
  const bool is_plain = text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5;
  const std::string_view end = text.substr(text.size() - std::min(text.size(), kDirectory));
  const bool has_pickle =
      is_zip && (text.substr(0, kDirectory).find("data.pkl") != text.npos || end.find("data.pkl") != end.npos);
  if (!is_plain && !has_pickle) return;
  throw Unsupported(where, "a Python pickle can run code; save it as safetensors");
}

TensorTable TensorTable::open(const std::string& path) {
  const auto file = MappedFile::open(path);
  refuse_pickle(path, file->bytes());
  if (text_of(file->bytes()).starts_with("PK")) return open_npz(file);
  SafetensorsFile tensors = SafetensorsFile::open(path);
  return {path, tensors.tensors(), tensors.file()};
}

std::string TensorTable::one_of(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (has(name)) return std::string(name);
  }
  return std::string(*names.begin());
}

const StoredTensor& TensorTable::take(std::string_view name) {
  const auto found = tensors_.find(std::string(name));
  if (found == tensors_.end()) throw BadCheckpoint(where_, "the tensor {} is missing", name);
  taken_.emplace(name);
  return found->second;
}

void TensorTable::bad_shape(std::string_view name, const StoredTensor& tensor, const std::string& expected) const {
  throw BadCheckpoint(where_, "{}: expected {}, got {} [{}]", name, expected, tensor.dtype,
                      fmt::join(tensor.shape, ", "));
}

std::int64_t TensorTable::size_of(std::string_view name, int axis, int rank) {
  const StoredTensor& tensor = take(name);
  if (std::ssize(tensor.shape) != rank) bad_shape(name, tensor, fmt::format("{} dimensions", rank));
  return tensor.shape[static_cast<std::size_t>(axis)];
}

Param TensorTable::matrix(std::string_view name, Stored stored, std::int64_t rows, std::int64_t cols) {
  const StoredTensor& tensor = take(name);
  const bool is_transposed = stored == Stored::transposed;
  const std::int64_t first = is_transposed ? cols : rows, second = is_transposed ? rows : cols;
  const bool fits = tensor.shape.size() == 2 && (first < 0 || tensor.shape[0] == first) &&
                    (second < 0 || tensor.shape[1] == second) && tensor.shape[0] > 0 && tensor.shape[1] > 0;
  const auto size = [](std::int64_t n) { return n < 0 ? std::string("any") : std::to_string(n); };
  if (!fits || !tensor.type || is_quantized(*tensor.type)) {
    bad_shape(name, tensor, fmt::format("F32, F16 or BF16 [{}, {}]", size(first), size(second)));
  }
  const std::int64_t n = tensor.shape[0], m = tensor.shape[1];
  Param param{std::string(name), std::string(name), {is_transposed ? m : n, is_transposed ? n : m}, {}};
  const std::byte* const data = tensor.bytes.data();
  param.view = is_transposed ? MatrixView{data, *tensor.type, m, n, 1, m} : MatrixView{data, *tensor.type, n, m, m, 1};
  return param;
}

Param TensorTable::part(std::string_view name, std::int64_t part, std::int64_t parts, std::int64_t rows,
                        std::int64_t cols) {
  const StoredTensor& tensor = take(name);
  const bool fits = tensor.shape == std::vector<std::int64_t>{rows, parts, cols};
  if (!fits || !tensor.type || is_quantized(*tensor.type)) {
    bad_shape(name, tensor, fmt::format("F32, F16 or BF16 [{}, {}, {}]", rows, parts, cols));
  }
  const MatrixView whole{tensor.bytes.data(), *tensor.type, rows, parts * cols, parts * cols, 1};
  return {std::string(name), std::string(name), {rows, cols}, whole.col_range(part * cols, cols)};
}

Param TensorTable::vector(std::string_view name, std::int64_t n) {
  const StoredTensor& tensor = take(name);
  const bool fits = tensor.shape == std::vector<std::int64_t>{n} && tensor.type && !is_quantized(*tensor.type);
  if (!fits) bad_shape(name, tensor, fmt::format("F32, F16 or BF16 [{}]", n));
  return {std::string(name), std::string(name), {n}, {tensor.bytes.data(), *tensor.type, 1, n, n, 1}};
}

std::vector<float> TensorTable::values(std::string_view name, std::int64_t n) {
  const StoredTensor& tensor = take(name);
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  const bool is_number = tensor.dtype == "F64" || tensor.dtype == "I32" || tensor.dtype == "I64";
  const bool is_known = is_number || (tensor.type && !is_quantized(*tensor.type));
  if ((count != n && count != 1) || tensor.shape.size() > 1 || !is_known) {
    bad_shape(name, tensor, fmt::format("[{}] or one number", n));
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  if (is_number) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = number_at(tensor, i);
  } else {
    default_kernels().widen(tensor.bytes.data(), *tensor.type, count, values.data());
  }
  for (const float value : values) {
    if (!std::isfinite(value)) throw BadCheckpoint(where_, "{}: expected finite numbers, got {}", name, value);
  }
  return values;
}

void TensorTable::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) taken_.emplace(name);
}

void TensorTable::finish() const {
  for (const auto& [name, tensor] : tensors_) {
    if (!taken_.contains(name)) throw Unsupported(where_, "the tensor {} is not known", name);
  }
}

}  // namespace vitrine
