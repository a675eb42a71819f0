#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "base/checked.h"
#include "base/error.h"
#include "base/json.h"

namespace vitrine {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kMaxRank = 16;

/// Bytes of one element; empty for an unknown type.
std::optional<std::int64_t> element_bytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int> kTypes[] = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},     {"I32", 4},     {"I16", 2},  {"I8", 1},
      {"U64", 8}, {"U32", 4}, {"U16", 2}, {"U8", 1},   {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}, {"F8_E8M0", 1}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

std::optional<DType> type_named(std::string_view dtype) {
  if (dtype == "F32") return DType::f32;
  if (dtype == "F16") return DType::f16;
  if (dtype == "BF16") return DType::bf16;
  return std::nullopt;
}

std::int64_t size_at(const Json& value, const std::string& path, const std::string& name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{1} << 62) {
    throw BadCheckpoint(path, "tensor {}: expected sizes and offsets of at least 0, got {}", name, value.dump());
  }
  return value.get<std::int64_t>();
}

/// Checks one header entry; returns the tensor and where it begins.
std::pair<StoredTensor, std::int64_t> read_entry(const std::string& path, const std::string& name, const Json& entry,
                                                 std::span<const std::byte> data) {
  const auto has = [&](const char* key, bool (*is)(const Json&)) { return entry.contains(key) && is(entry[key]); };
  const bool complete = entry.is_object() && has("dtype", [](const Json& v) { return v.is_string(); }) &&
                        has("shape", [](const Json& v) { return v.is_array() && v.size() <= kMaxRank; }) &&
                        has("data_offsets", [](const Json& v) { return v.is_array() && v.size() == 2; });
  if (!complete) throw BadCheckpoint(path, "tensor {}: expected dtype, shape and two data_offsets", name);

  StoredTensor tensor;
  tensor.file = path;
  tensor.dtype = entry["dtype"].get<std::string>();
  tensor.type = type_named(tensor.dtype);
  for (const Json& size : entry["shape"]) tensor.shape.push_back(size_at(size, path, name));
  const std::int64_t begin = size_at(entry["data_offsets"][0], path, name);
  const std::int64_t end = size_at(entry["data_offsets"][1], path, name);
  if (begin > end || end > static_cast<std::int64_t>(data.size())) {
    throw BadCheckpoint(path,
                        "tensor {}: expected offsets within the {} bytes of data, got {} to {} (an incomplete "
                        "download?)",
                        name, data.size(), begin, end);
  }
  if (const auto bytes = element_bytes(tensor.dtype)) {
    const auto count = checked_product(tensor.shape);
    const auto expected = count ? checked_mul(*count, *bytes) : std::nullopt;
    if (expected != end - begin) {
      throw BadCheckpoint(path, "tensor {}: expected {} bytes by its shape and type {}, got {}", name,
                          expected ? std::to_string(*expected) : "more than 2^63", tensor.dtype, end - begin);
    }
  }
  tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  return {std::move(tensor), begin};
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile result;
  result.file_ = MappedFile::open(path);
  const std::span<const std::byte> bytes = result.file_->bytes();
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes)
    throw BadCheckpoint(path, "expected a safetensors header, got {} bytes", bytes.size());
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - sizeof header_bytes) {
    throw BadCheckpoint(path,
                        "expected a header of {} bytes, the file has {} (not a safetensors file, or an incomplete "
                        "download?)",
                        header_bytes, bytes.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof header_bytes, header_bytes);
  const std::span<const std::byte> data = bytes.subspan(sizeof header_bytes + header_bytes);

  const Json header = parse_json(text, path);
  if (!header.is_object()) throw BadCheckpoint(path, "expected a JSON object as header");
  std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) continue;
      for (const auto& [key, value] : entry.items()) {
        if (value.is_string()) result.metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    auto [tensor, begin] = read_entry(path, name, entry, data);
    ranges.emplace_back(begin, begin + static_cast<std::int64_t>(tensor.bytes.size()), name);
    result.tensors_.emplace(name, std::move(tensor));
  }
  std::sort(ranges.begin(), ranges.end());
  std::int64_t covered = 0;
  for (const auto& [begin, end, name] : ranges) {
    if (begin != covered) {
      throw BadCheckpoint(path, "tensor {}: expected data from byte {} on, got {} (tensors overlap or leave a gap)",
                          name, covered, begin);
    }
    covered = end;
  }
  if (covered != static_cast<std::int64_t>(data.size())) {
    throw BadCheckpoint(path, "expected {} bytes of tensors, got {} bytes of data", covered, data.size());
  }
  return result;
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::int64_t header_bytes)
    : SafetensorsWriter(std::make_unique<FileWriter>(path), path, header_bytes) {}

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<ByteSink> file, std::string path, std::int64_t header_bytes)
    : SafetensorsWriter(*file, std::move(path), header_bytes) {
  file_ = std::move(file);
}

SafetensorsWriter::SafetensorsWriter(ByteSink& sink, std::string where, std::int64_t header_bytes)
    : sink_(sink), path_(std::move(where)), header_bytes_((header_bytes + 7) / 8 * 8) {
  const std::vector<std::byte> reserved(static_cast<std::size_t>(8 + header_bytes_));
  sink_.write(reserved);
}

void SafetensorsWriter::add(const std::string& name, const Tensor& tensor, const ReportProgress& report) {
  begin(name, DType::f32, {tensor.shape.sizes().begin(), tensor.shape.sizes().end()});
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (std::span<const float> rest = tensor.values(); !rest.empty();
       rest = rest.subspan(std::min(kPiece, rest.size()))) {
    if (report) report(tensor.count() - static_cast<std::int64_t>(rest.size()), tensor.count());
    append(std::as_bytes(rest.first(std::min(kPiece, rest.size()))));
  }
}

void SafetensorsWriter::begin(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) {
  begin_bytes(name, dtype == DType::f32 ? "F32" : dtype == DType::f16 ? "F16" : "BF16", size_of(dtype), shape);
}

void SafetensorsWriter::begin_bytes(const std::string& name, const char* type, std::int64_t element_bytes,
                                    const std::vector<std::int64_t>& shape) {
  check_complete();
  const std::optional<std::int64_t> count = checked_product(shape);
  const std::optional<std::int64_t> bytes = count ? checked_mul(*count, element_bytes) : count;
  const std::optional<std::int64_t> end = bytes ? checked_add(promised_bytes_, *bytes) : bytes;
  if (!end) throw OutOfCapacity(path_, "tensor {} is too large for any file", name);
  const Json entry = {{"dtype", type}, {"shape", shape}, {"data_offsets", {promised_bytes_, *end}}};
  header_ += "," + Json(name).dump() + ":" + entry.dump();
  promised_bytes_ = *end;
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  sink_.write(bytes);
  data_bytes_ += static_cast<std::int64_t>(bytes.size());
}

void SafetensorsWriter::check_complete() const {
  if (data_bytes_ != promised_bytes_) {
    throw InternalError(path_, "the header promises {} bytes, {} were written", promised_bytes_, data_bytes_);
  }
}

void SafetensorsWriter::commit() {
  check_complete();
  header_ = R"({"__metadata__":)" + Json(metadata_).dump() + header_ + "}";
  if (static_cast<std::int64_t>(header_.size()) > header_bytes_) {
    throw OutOfCapacity(path_, "the header needs {} bytes, {} were reserved", header_.size(), header_bytes_);
  }
  header_.resize(static_cast<std::size_t>(header_bytes_), ' ');
  const auto length = static_cast<std::uint64_t>(header_bytes_);
  sink_.write_at(0, std::as_bytes(std::span(&length, 1)));
  sink_.write_at(8, std::as_bytes(std::span(header_)));
  sink_.commit();
}

}  // namespace vitrine
