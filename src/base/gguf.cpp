#include "base/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/byte_reader.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxKeys = 65536;      // published files have dozens
constexpr std::size_t kMaxKeyBytes = 65535;  // ggml's docs/gguf.md
constexpr std::size_t kMaxTensors = 65536;   // published files have thousands; each uses 500 bytes of memory
constexpr int kMaxDepth = 4;                 // of nested arrays
constexpr std::uint32_t kMaxRank = 4;        // ggml's own limit
constexpr std::int64_t kDefaultAlignment = 32;
constexpr std::int64_t kMaxAlignment = std::int64_t{1} << 30;

/// Bytes of a value of fixed size; 0 for strings and arrays.
std::size_t size_of(GgufType type) {
  constexpr std::size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

bool is_integer(GgufType type) {
  return size_of(type) != 0 && type != GgufType::f32 && type != GgufType::f64 && type != GgufType::boolean;
}

template <class T>
T number_at(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof(T));
  return value;
}

class Reader : public ByteReader {
 public:
  using ByteReader::ByteReader;

  GgufType type(std::string_view what) {
    const auto number = this->number<std::uint32_t>(what);
    if (number > static_cast<std::uint32_t>(GgufType::f64)) {
      throw BadCheckpoint(path(), "expected a type from 0 to 12 for {}, got {}", what, number);
    }
    return static_cast<GgufType>(number);
  }

  std::string_view string(std::string_view what) { return text(number<std::uint64_t>(what), what); }

  GgufValue value(std::string_view key) {
    GgufValue value;
    value.type = type(key);
    if (value.type == GgufType::string) {
      value.bytes = take(number<std::uint64_t>(key), key);
    } else if (value.type == GgufType::array) {
      value.element = type(key);
      value.count = number<std::uint64_t>(key);
      const auto before = rest();
      skip(value.element, value.count, key, 1);
      value.bytes = before.first(before.size() - rest().size());
    } else {
      value.bytes = take(size_of(value.type), key);
    }
    return value;
  }

 private:
  /// Skips the elements of an array. Each element takes at least one byte, so the remaining size of the file bounds the
  /// count.
  void skip(GgufType element, std::uint64_t count, std::string_view key, int depth) {
    if (count > rest().size()) {
      throw BadCheckpoint(path(), "expected at most {} elements in {}, got {}: the file is truncated", rest().size(),
                          key, count);
    }
    if (depth > kMaxDepth) throw BadCheckpoint(path(), "expected at most {} levels of arrays in {}", kMaxDepth, key);
    if (element == GgufType::string) {
      for (std::uint64_t i = 0; i < count; ++i) string(key);
    } else if (element == GgufType::array) {
      for (std::uint64_t i = 0; i < count; ++i) {
        const GgufType inner = type(key);
        skip(inner, number<std::uint64_t>(key), key, depth + 1);
      }
    } else {
      take(count * size_of(element), key);  // no overflow: the size of the file bounds count
    }
  }
};

GgufTensor read_tensor(Reader& reader, std::string_view path) {
  GgufTensor tensor;
  tensor.name = reader.string("the name of a tensor");
  if (tensor.name.empty()) throw BadCheckpoint(path, "expected a name for every tensor, got an empty string");
  const auto rank = reader.number<std::uint32_t>(tensor.name);
  if (rank < 1 || rank > kMaxRank) {
    throw BadCheckpoint(path, "tensor {}: expected 1 to {} sizes, got {}", tensor.name, kMaxRank, rank);
  }
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto size = reader.number<std::uint64_t>(tensor.name);
    if (size < 1 || size > std::uint64_t{1} << 62) {
      throw BadCheckpoint(path, "tensor {}: expected sizes from 1 to 2^62, got {}", tensor.name, size);
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  tensor.type = reader.number<std::uint32_t>(tensor.name);
  tensor.offset = reader.number<std::uint64_t>(tensor.name);
  return tensor;
}

/// std::nullopt if the value does not fit.
std::optional<std::int64_t> integer_at(const std::byte* place, GgufType type) {
  std::uint64_t value = 0;
  std::memcpy(&value, place, size_of(type));
  const bool is_signed =
      type == GgufType::i8 || type == GgufType::i16 || type == GgufType::i32 || type == GgufType::i64;
  if (is_signed) {  // the shifts copy the sign into the upper bytes
    const std::size_t unused_bits = 64 - 8 * size_of(type);
    return static_cast<std::int64_t>(value << unused_bits) >> unused_bits;
  }
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace

GgufMetadata GgufMetadata::parse(std::span<const std::byte> file, std::string_view path) {
  GgufMetadata metadata;
  metadata.path_ = path;
  metadata.file_ = file;
  Reader reader(file, path);
  if (reader.text(4, "magic") != "GGUF") throw BadCheckpoint(path, "expected the magic GGUF, got other bytes");
  const auto version = reader.number<std::uint32_t>("version");
  if (version == 0x02000000 || version == 0x03000000) throw Unsupported(path, "a big-endian GGUF is not supported");
  if (version != 2 && version != 3) throw Unsupported(path, "GGUF version {} is not supported, only 2 and 3", version);
  metadata.n_tensors_ = reader.number<std::uint64_t>("number of tensors");
  const auto n_keys = reader.number<std::uint64_t>("number of keys");
  if (n_keys > kMaxKeys) throw BadCheckpoint(path, "expected at most {} keys, got {}", kMaxKeys, n_keys);
  for (std::uint64_t i = 0; i < n_keys; ++i) {
    const std::string_view key = reader.string("a key");
    if (key.empty() || key.size() > kMaxKeyBytes) {
      throw BadCheckpoint(path, "expected a key of 1 to {} bytes, got {}", kMaxKeyBytes, key.size());
    }
    if (!metadata.values_.emplace(key, reader.value(key)).second) {
      throw BadCheckpoint(path, "key {} appears twice", key);
    }
  }
  metadata.end_ = file.size() - reader.rest().size();
  return metadata;
}

GgufContents GgufMetadata::contents() const {
  const std::int64_t alignment = integer("general.alignment").value_or(kDefaultAlignment);
  if (alignment < 1 || alignment > kMaxAlignment || !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    throw BadCheckpoint(path_, "expected a power of two for general.alignment, got {}", alignment);
  }
  if (n_tensors_ > kMaxTensors) {
    throw BadCheckpoint(path_, "expected at most {} tensors, got {}", kMaxTensors, n_tensors_);
  }
  GgufContents contents;  // the list grows with the entries in the file, not with the number that the file claims
  Reader reader(file_.subspan(end_), path_);
  for (std::uint64_t i = 0; i < n_tensors_; ++i) contents.tensors.push_back(read_tensor(reader, path_));
  const std::size_t end = file_.size() - reader.rest().size(), step = static_cast<std::size_t>(alignment);
  contents.data = file_.subspan(std::min(file_.size(), (end + step - 1) / step * step));
  return contents;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void GgufMetadata::bad_type(std::string_view key, const char* expected, GgufType got) const {
  throw BadCheckpoint(path_, "expected {} for {}, got a value of type {}", expected, key,
                      static_cast<std::uint32_t>(got));
}

std::optional<std::string_view> GgufMetadata::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::string) bad_type(key, "a string", value->type);
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

std::optional<bool> GgufMetadata::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::boolean) bad_type(key, "a boolean", value->type);
  return value->bytes[0] != std::byte{0};
}

std::optional<std::int64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!is_integer(value->type)) bad_type(key, "an integer", value->type);
  const auto number = integer_at(value->bytes.data(), value->type);
  if (!number) throw BadCheckpoint(path_, "expected an integer below 2^63 for {}", key);
  return number;
}

std::optional<double> GgufMetadata::real(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == GgufType::f32) return number_at<float>(value->bytes.data());
  if (value->type != GgufType::f64) bad_type(key, "a real number", value->type);
  return number_at<double>(value->bytes.data());
}

const GgufValue* GgufMetadata::find_array(std::string_view key, const char* of, bool (*fits)(GgufType)) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->type != GgufType::array) bad_type(key, of, value->type);
  if (!fits(value->element)) bad_type(key, of, value->element);
  return value;
}

std::optional<std::vector<std::string_view>> GgufMetadata::strings(std::string_view key) const {
  const GgufValue* value = find_array(key, "an array of strings", [](GgufType t) { return t == GgufType::string; });
  if (value == nullptr) return std::nullopt;
  std::vector<std::string_view> strings;
  strings.reserve(value->bytes.size() / 8 < value->count ? 0 : static_cast<std::size_t>(value->count));
  Reader reader(value->bytes, path_);
  for (std::uint64_t i = 0; i < value->count; ++i) strings.push_back(reader.string(key));
  return strings;
}

std::optional<std::vector<float>> GgufMetadata::floats(std::string_view key) const {
  const GgufValue* value = find_array(key, "an array of f32", [](GgufType t) { return t == GgufType::f32; });
  if (value == nullptr) return std::nullopt;
  std::vector<float> floats(static_cast<std::size_t>(value->count));
  if (!floats.empty()) std::memcpy(floats.data(), value->bytes.data(), value->bytes.size());
  return floats;
}

std::optional<std::vector<bool>> GgufMetadata::booleans(std::string_view key) const {
  const GgufValue* value = find_array(key, "an array of booleans", [](GgufType t) { return t == GgufType::boolean; });
  if (value == nullptr) return std::nullopt;
  std::vector<bool> booleans;
  for (const std::byte byte : value->bytes) booleans.push_back(byte != std::byte{0});
  return booleans;
}

std::optional<std::vector<std::int64_t>> GgufMetadata::integers(std::string_view key) const {
  const GgufValue* value = find_array(key, "an array of integers", is_integer);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> integers(static_cast<std::size_t>(value->count));
  for (std::size_t i = 0; i < integers.size(); ++i) {
    const auto number = integer_at(value->bytes.data() + i * size_of(value->element), value->element);
    if (!number) throw BadCheckpoint(path_, "expected integers below 2^63 for {}", key);
    integers[i] = *number;
  }
  return integers;
}

}  // namespace vitrine
