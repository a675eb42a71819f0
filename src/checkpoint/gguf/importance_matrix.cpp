#include "checkpoint/gguf/importance_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "base/checked.h"
#include "base/error.h"
#include "base/gguf.h"
#include "base/gguf_writer.h"
#include "base/mapped_file.h"

namespace vitrine {
namespace {

constexpr std::uint32_t kF32 = 0;  // ggml's number
constexpr std::string_view kSumsEnd = ".in_sum2", kCountsEnd = ".counts";
constexpr std::int64_t kMaxChunks = std::int64_t{1} << 31;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 53;  // counts are exact below

/// The elements of an F32 tensor.
std::vector<float> floats_of(const GgufTensor& tensor, std::span<const std::byte> data, const std::string& path) {
  if (tensor.type != kF32) throw BadCheckpoint(path, "tensor {}: expected F32", tensor.name);
  const auto count = checked_product(tensor.shape);
  const auto bytes = count ? checked_mul(*count, sizeof(float)) : std::nullopt;
  if (!bytes || tensor.offset > data.size() || static_cast<std::uint64_t>(*bytes) > data.size() - tensor.offset) {
    throw BadCheckpoint(path, "tensor {}: its data reach beyond the end of the file", tensor.name);
  }
  std::vector<float> floats(static_cast<std::size_t>(*count));
  std::memcpy(floats.data(), data.data() + tensor.offset, static_cast<std::size_t>(*bytes));
  return floats;
}

/// Throws BadCheckpoint for sums and counts that no text has.
void check(const std::string& name, const InputSquares& squares, const std::string& path) {
  for (const double sum : squares.sums) {
    if (!(sum >= 0) || !std::isfinite(sum)) {
      throw BadCheckpoint(path, "{}: expected sums of squares, got {}", name, sum);
    }
  }
  if (squares.counts.empty() || squares.sums.empty() || squares.sums.size() % squares.counts.size() != 0) {
    throw BadCheckpoint(path, "{}: expected a count for each expert, got {} counts and {} sums", name,
                        squares.counts.size(), squares.sums.size());
  }
}

std::int64_t count_from(float value, const std::string& name, const std::string& path) {
  if (!(value >= 0 && value < static_cast<float>(kMaxRows))) {
    throw BadCheckpoint(path, "{}: expected the number of rows, got {}", name, value);
  }
  return static_cast<std::int64_t>(std::llround(value));
}

ImportanceMatrix read_gguf(const MappedFile& file) {
  const std::string& path = file.path();
  const GgufMetadata metadata = GgufMetadata::parse(file.bytes(), path);
  if (metadata.string("general.type").value_or("model") != "imatrix") {
    throw BadCheckpoint(path, "general.type: expected \"imatrix\", got \"{}\"",
                        metadata.string("general.type").value_or("model"));
  }
  ImportanceMatrix matrix;
  matrix.n_chunks = metadata.integer("imatrix.chunk_count").value_or(0);
  matrix.chunk_size = metadata.integer("imatrix.chunk_size").value_or(0);
  if (matrix.n_chunks < 0 || matrix.n_chunks > kMaxChunks || matrix.chunk_size < 1 || matrix.chunk_size > kMaxChunks ||
      matrix.n_chunks * matrix.chunk_size > kMaxRows) {
    throw BadCheckpoint(path, "imatrix.chunk_size, chunk_count: expected 1 to {}, at most {} together, got {} and {}",
                        kMaxChunks, kMaxRows, matrix.chunk_size, matrix.n_chunks);
  }
  for (const std::string_view name : metadata.strings("imatrix.datasets").value_or(std::vector<std::string_view>{})) {
    matrix.datasets.emplace_back(name);
  }
  const GgufContents contents = metadata.contents();
  for (const GgufTensor& tensor : contents.tensors) {
    const bool is_sums = tensor.name.ends_with(kSumsEnd);
    if (!is_sums && !tensor.name.ends_with(kCountsEnd)) {
      throw BadCheckpoint(path, "tensor {}: expected a name that ends in {} or {}", tensor.name, kSumsEnd, kCountsEnd);
    }
    const std::size_t end = is_sums ? kSumsEnd.size() : kCountsEnd.size();
    const std::string name(tensor.name.substr(0, tensor.name.size() - end));
    InputSquares& squares = matrix.tensors[name];
    const std::vector<float> values = floats_of(tensor, contents.data, path);
    if (is_sums ? !squares.sums.empty() : !squares.counts.empty()) {
      throw BadCheckpoint(path, "tensor {} appears twice", tensor.name);
    }
    if (is_sums) {
      squares.sums.assign(values.begin(), values.end());
    } else {
      for (const float value : values) squares.counts.push_back(count_from(value, name, path));
    }
  }
  return matrix;
}

/// The bytes of a .dat that have not been read.
class DatReader {
 public:
  explicit DatReader(const MappedFile& file) : rest_(file.bytes()), path_(file.path()) {}

  bool is_at_end() const { return rest_.empty(); }

  std::int32_t integer(const char* what) {
    std::int32_t value = 0;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    if (value < 0) throw BadCheckpoint(path_, "{}: expected at least 0, got {}", what, value);
    return value;
  }
  std::string text(const char* what) {
    const auto bytes = take(static_cast<std::size_t>(integer(what)), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::span<const std::byte> take(std::size_t size, const char* what) {
    if (size > rest_.size()) {
      throw BadCheckpoint(path_, "{}: expected {} bytes, got {} (neither GGUF nor a complete .dat)", what, size,
                          rest_.size());
    }
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
  const std::string& path_;
};

ImportanceMatrix read_dat(const MappedFile& file) {
  ImportanceMatrix matrix;
  DatReader reader(file);
  const std::int32_t n = reader.integer("number of entries");
  for (std::int32_t i = 0; i < n; ++i) {
    const std::string name = reader.text("name of an entry");
    const std::int32_t n_chunks = reader.integer("number of chunks");
    const auto n_values = static_cast<std::size_t>(reader.integer("number of values"));
    const auto bytes = reader.take(n_values * sizeof(float), "values of an entry");
    InputSquares squares;
    for (std::size_t k = 0; k < n_values; ++k) {
      float value = 0;
      std::memcpy(&value, bytes.data() + k * sizeof value, sizeof value);
      squares.sums.push_back(static_cast<double>(value) * static_cast<double>(matrix.chunk_size));
    }
    squares.counts = {n_chunks * matrix.chunk_size};
    if (!matrix.tensors.emplace(name, std::move(squares)).second) {
      throw BadCheckpoint(file.path(), "{} appears twice", name);
    }
    matrix.n_chunks = std::max<std::int64_t>(matrix.n_chunks, n_chunks);
  }
  if (!reader.is_at_end()) matrix.n_chunks = reader.integer("number of chunks");
  if (!reader.is_at_end()) matrix.datasets.push_back(reader.text("dataset"));
  return matrix;
}

}  // namespace

std::vector<float> ImportanceMatrix::weights_of(const std::string& tensor, std::int64_t cols,
                                                std::int64_t copies) const {
  const auto it = tensors.find(tensor);
  if (it == tensors.end()) return {};
  const InputSquares& squares = it->second;
  const auto n = static_cast<std::int64_t>(squares.sums.size()),
             n_counts = static_cast<std::int64_t>(squares.counts.size());
  if (n != cols * copies || (n_counts != 1 && n_counts != copies)) {
    throw BadInput(path,
                   "{}: expected {} columns of {} matrices, got {} sums: the importance matrix is of another model",
                   tensor, cols, copies, n);
  }
  std::vector<float> weights(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t count = squares.counts[static_cast<std::size_t>(n_counts == 1 ? 0 : i / cols)];
    const double sum = squares.sums[static_cast<std::size_t>(i)];
    weights[static_cast<std::size_t>(i)] = count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : 0.0F;
  }
  return weights;
}

void ImportanceMatrix::add(const ImportanceMatrix& other) {
  for (const auto& [name, squares] : other.tensors) {
    const auto [it, is_new] = tensors.emplace(name, squares);
    if (is_new) continue;
    InputSquares& own = it->second;
    const std::size_t n_counts = std::max(own.counts.size(), squares.counts.size());
    const bool is_one_count = std::min(own.counts.size(), squares.counts.size()) == 1;
    if (own.sums.size() != squares.sums.size() || (own.counts.size() != squares.counts.size() && !is_one_count)) {
      throw BadInput(other.path,
                     "{}: expected {} sums and {} counts, got {} and {}: the importance matrix is of another model",
                     name, own.sums.size(), own.counts.size(), squares.sums.size(), squares.counts.size());
    }
    const auto count = [](const InputSquares& s, std::size_t i) {
      return s.counts.size() == 1 ? s.counts[0] : s.counts[i];
    };
    std::vector<std::int64_t> counts;
    for (std::size_t i = 0; i < n_counts; ++i) counts.push_back(count(own, i) + count(squares, i));
    own.counts = std::move(counts);
    for (std::size_t i = 0; i < own.sums.size(); ++i) own.sums[i] += squares.sums[i];
  }
  datasets.insert(datasets.end(), other.datasets.begin(), other.datasets.end());
  n_chunks += other.n_chunks * other.chunk_size / chunk_size;
}

ImportanceMatrix read_importance_matrix(const std::string& path) {
  const auto file = MappedFile::open(path);
  ImportanceMatrix matrix = file->text().starts_with("GGUF") ? read_gguf(*file) : read_dat(*file);
  for (const auto& [name, squares] : matrix.tensors) check(name, squares, path);
  if (matrix.tensors.empty()) throw BadCheckpoint(path, "expected an importance matrix, got one without tensors");
  matrix.path = path;
  return matrix;
}

void write_importance_matrix(const std::string& path, const ImportanceMatrix& matrix) {
  GgufKeys keys;
  keys.add("general.type", "imatrix");
  keys.add("imatrix.datasets", matrix.datasets);
  keys.add("imatrix.chunk_count", static_cast<std::uint32_t>(std::min(matrix.n_chunks, kMaxChunks)));
  keys.add("imatrix.chunk_size", static_cast<std::uint32_t>(matrix.chunk_size));
  GgufWriter writer(path);
  std::vector<std::vector<float>> values;
  const auto add = [&](const std::string& name, std::size_t rows, const auto& from) {
    const auto n = static_cast<std::int64_t>(from.size()), n_rows = static_cast<std::int64_t>(rows);
    values.emplace_back(from.begin(), from.end());
    writer.add_tensor(name, {n_rows, n / n_rows}, kF32, n * static_cast<std::int64_t>(sizeof(float)));
  };
  for (const auto& [name, squares] : matrix.tensors) {
    add(name + std::string(kSumsEnd), squares.counts.size(), squares.sums);
    add(name + std::string(kCountsEnd), squares.counts.size(), squares.counts);
  }
  writer.begin(keys);
  for (const std::vector<float>& floats : values) writer.append(std::as_bytes(std::span(floats)));
  writer.commit();
}

}  // namespace vitrine
