#include "checkpoint/state_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "model/describe.h"

namespace vitrine {
namespace {

/// A tensor of the file, and where the cache has it.
struct KeptTensor {
  enum class What : std::uint8_t { state, keys, values };

  std::string name;
  What what;
  int layer = 0, number = 0;  // `number`: of a state
  Shape shape{};
  StateConfig state{};

  bool is_keys() const { return what == What::keys; }
};

/// The tensors of a file after `length` tokens, in its order.
std::vector<KeptTensor> kept_tensors(const ModelConfig& config, std::int64_t length) {
  using What = KeptTensor::What;
  std::vector<KeptTensor> all;
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const int layer = static_cast<int>(i);
    int number = 0;
    for (const Sublayer& sublayer : config.blocks[i].sublayers) {
      const std::string at = fmt::format("blocks.{}.{}.", i, names_of(sublayer).prefix);
      const CacheLayerConfig own = cache_layer(sublayer);
      for (const StateConfig& state : own.states) {
        all.push_back({at + std::string(state.name), What::state, layer, number++, state.shown.value_or(state.shape)});
        all.back().state = state;
      }
      if (!own.kv) continue;
      const KvLayerConfig& kv = *own.kv;
      const std::int64_t n = length - KvGroup{kv.window, kv.chunked}.first_kept(length);
      all.push_back({at + "k", What::keys, layer, 0, {n, kv.n_kv_heads, kv.head_dim}});
      if (kv.one_row) continue;
      all.push_back({at + "v", What::values, layer, 0, {n, kv.n_kv_heads, kv.value_dim.value_or(kv.head_dim)}});
    }
  }
  return all;
}

/// Copies matrices `[…, rows, cols]` to `[…, cols, rows]`.
void transpose(std::span<const float> from, std::int64_t rows, std::int64_t cols, std::span<float> to) {
  const auto n = static_cast<std::int64_t>(from.size());
  for (std::int64_t first = 0; first < n; first += rows * cols) {
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      to[static_cast<std::size_t>(first + i % cols * rows + i / cols)] = from[static_cast<std::size_t>(first + i)];
    }
  }
}

/// A stored row as floats, exactly.
void widen(const Kernels& kernels, const KvRows& row, float* to) {
  if (!is_integer(row.type)) return kernels.widen(row.data, dtype_of(row.type), row.width, to);
  constexpr float kOne = 1.0f;
  std::fill_n(to, row.width, 0.0f);
  kernels.kv.mix(&kOne, 1, 1, row, to, row.width);
}

/// Stores floats as a row. Returns false if they are not numbers of the type.
bool narrow(const Kernels& kernels, std::span<const float> from, KvType type, std::byte* to) {
  const auto n = static_cast<std::int64_t>(from.size());
  if (is_integer(type)) {
    kernels.kv.round(from.data(), n, type, to);
  } else {
    kernels.narrow(from.data(), n, dtype_of(type), to);
  }
  std::vector<float> stored(from.size());
  widen(kernels, {to, type, 1, n, kv_row_bytes(type, n)}, stored.data());
  return std::equal(from.begin(), from.end(), stored.begin());
}

std::string text_of(KvTypes types) { return fmt::format("{}:{}", name_of(types.keys), name_of(types.values)); }

std::string digest_text(const ModelConfig& config) { return fmt::format("{:016x}", digest_of(config)); }

/// A tensor of a cache as floats, in the file's layout.
std::vector<float> values_of(const KvCache& cache, const KeptTensor& tensor, const Kernels& kernels) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.count()));
  if (tensor.what == KeptTensor::What::state) {
    const std::span<const float> state = cache.state<float>(tensor.layer, tensor.number);
    const Shape& shape = tensor.state.shape;
    if (!tensor.state.shown) return {state.begin(), state.end()};
    transpose(state, shape[shape.rank() - 2], shape[shape.rank() - 1], values);
    return values;
  }
  const std::int64_t n_heads = tensor.shape[1], width = tensor.shape[2];
  std::vector<std::byte> again(static_cast<std::size_t>(kv_row_bytes(KvType::f32, width)));
  for (std::int64_t head = 0; head < n_heads; ++head) {
    float* to = values.data() + head * width;
    for (const KvSpan& span : cache.past(tensor.layer, head)) {
      const KvRows& rows = tensor.is_keys() ? span.keys : span.values;
      for (std::int64_t i = 0; i < rows.rows; ++i, to += n_heads * width) {
        widen(kernels, rows.range(i, 1), to);
        if (narrow(kernels, {to, static_cast<std::size_t>(width)}, rows.type, again.data())) continue;
        throw Unsupported("--save-state", "{}: values of {} are too small to be written exactly; use --kv f32",
                          tensor.name, name_of(rows.type));
      }
    }
  }
  return values;
}

/// The values of a tensor of a file, which must have its shape and type.
std::vector<float> read_values(const SafetensorsFile& file, const std::string& path, const KeptTensor& tensor) {
  const auto found = file.tensors().find(tensor.name);
  if (found == file.tensors().end()) throw BadInput(path, "tensor {} is missing", tensor.name);
  const StoredTensor& stored = found->second;
  const std::span<const std::int64_t> sizes = tensor.shape.sizes();
  if (stored.type != DType::f32 || !std::equal(sizes.begin(), sizes.end(), stored.shape.begin(), stored.shape.end())) {
    throw BadInput(path, "tensor {}: expected F32 [{}], got {} [{}]", tensor.name, fmt::join(sizes, ", "), stored.dtype,
                   fmt::join(stored.shape, ", "));
  }
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.count()));
  if (!values.empty()) std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
  return values;
}

/// Gives a cache a tensor in the file's layout.
void set_values(KvCache& cache, const std::string& path, const KeptTensor& tensor, std::span<const float> values,
                const Kernels& kernels) {
  if (tensor.what == KeptTensor::What::state) {
    const std::span<float> state = cache.next_state<float>(tensor.layer, tensor.number);
    const Shape& shape = tensor.state.shape;
    if (tensor.state.shown) return transpose(values, shape[shape.rank() - 1], shape[shape.rank() - 2], state);
    std::copy(values.begin(), values.end(), state.begin());
    return;
  }
  const std::int64_t width = tensor.shape[2], n_rows = tensor.shape[0] * tensor.shape[1];
  const KvType type = tensor.is_keys() ? cache.types().keys : cache.types().values;
  const std::int64_t bytes = kv_row_bytes(type, width);
  std::vector<std::byte> rows(static_cast<std::size_t>(n_rows * bytes));
  for (std::int64_t i = 0; i < n_rows; ++i) {
    const auto row = values.subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width));
    if (narrow(kernels, row, type, rows.data() + i * bytes)) continue;
    throw BadInput(path, "tensor {}: token {} has values that are not numbers of {}", tensor.name, i / tensor.shape[1],
                   name_of(type));
  }
  const KvBatch batch{rows.data(), type, tensor.shape[1], width};
  if (tensor.is_keys()) return cache.set_past_keys(tensor.layer, batch);
  cache.set_past_values(tensor.layer, batch);
}

/// What the metadata of a file say of the cache.
struct StateHeader {
  std::int64_t length = 0, planned_length = 0;
};

StateHeader read_header(const SafetensorsFile& file, const std::string& path, const ModelConfig& config,
                        KvTypes types) {
  const auto text = [&](const char* name) -> std::optional<std::string> {
    const auto found = file.metadata().find(name);
    return found != file.metadata().end() ? std::optional(found->second) : std::nullopt;
  };
  const auto number = [&](const char* name, std::optional<std::int64_t> otherwise) {
    const std::optional<std::string> given = text(name);
    if (!given && otherwise) return *otherwise;
    const std::optional<std::int64_t> n = given ? number_in<std::int64_t>(*given) : std::nullopt;
    if (n && *n >= 1 && *n <= config.max_seq_len) return *n;
    throw BadInput(path, "metadata {}: expected a number from 1 to {} (the model's context), got {}", name,
                   config.max_seq_len, given ? "\"" + *given + "\"" : "none");
  };
  const std::string model = text("model").value_or("none");
  if (model != digest_text(config)) {
    throw BadInput(path, "the state is one of another model: expected digest {}, got {}", digest_text(config), model);
  }
  const std::string kv = text("kv").value_or(text_of(KvTypes()));
  if (kv != text_of(types)) throw BadInput(path, "keys and values are {}, --kv is {}", kv, text_of(types));
  return {number("length", {}), number("planned_length", config.max_seq_len)};
}

/// The length of a cache whose frequencies are those of the file.
std::int64_t capacity_of(const StateHeader& header, const std::string& path, const ModelConfig& config,
                         std::int64_t n_more) {
  const std::int64_t needed = header.length + std::min(n_more, config.max_seq_len - header.length);
  if (longest_planned_length(config, needed) == header.planned_length) return needed;
  if (needed <= header.planned_length) return header.planned_length;
  throw BadInput(path, "the frequencies of RoPE are those of texts of at most {} tokens, the text may have {}",
                 header.planned_length, needed);
}

}  // namespace

void check_has_state_file(const ModelConfig& config, const char* where) {
  if (config.encoder) throw Unsupported(where, "the model has an encoder");
  if (is_bidirectional(config)) throw Unsupported(where, "the model attends to later tokens, so no text continues");
  if (!config.layers.empty()) {
    throw Unsupported(where, "the model has recurrent or dense layers, whose states have no file");
  }
}

StateWriter::StateWriter(const std::string& path, const Model& model)
    : model_((check_has_state_file(model.config(), "--save-state"), model)),
      path_(path),
      file_(path, header_bytes_for(kept_tensors(model.config(), 1).size())) {}

void StateWriter::write(const KvCache& cache, const Kernels& kernels) {
  const ModelConfig& config = model_.config();
  if (cache.length() == 0) throw InternalError("state_file", "expected a cache with tokens");
  file_.set_metadata("length", std::to_string(cache.length()));
  file_.set_metadata("model", digest_text(config));
  if (cache.types() != KvTypes()) file_.set_metadata("kv", text_of(cache.types()));
  const std::int64_t planned = longest_planned_length(config, cache.capacity());
  if (planned != config.max_seq_len) file_.set_metadata("planned_length", std::to_string(planned));
  for (const KeptTensor& tensor : kept_tensors(config, cache.length())) {
    std::vector<float> values = values_of(cache, tensor, kernels);
    file_.begin(tensor.name, DType::f32, {tensor.shape.sizes().begin(), tensor.shape.sizes().end()});
    file_.append(std::as_bytes(std::span(values)));
  }
  file_.commit();
}

std::shared_ptr<KvCache> read_state(const std::string& path, const Model& model, std::int64_t n_more, KvTypes types,
                                    const Kernels& kernels, KvMemory& memory) {
  const ModelConfig& config = model.config();
  check_has_state_file(config, "--state");
  const SafetensorsFile file = SafetensorsFile::open(path);
  const StateHeader header = read_header(file, path, config, types);
  const std::vector<KeptTensor> tensors = kept_tensors(config, header.length);
  for (const auto& entry : file.tensors()) {
    const std::string& name = entry.first;
    const auto is_it = [&](const KeptTensor& tensor) { return tensor.name == name; };
    if (std::none_of(tensors.begin(), tensors.end(), is_it)) throw BadInput(path, "tensor {} is unknown", name);
  }
  for (const KeptTensor& tensor : tensors) {
    const std::vector<float> values = read_values(file, path, tensor);
    if (kernels.all_finite(values.data(), static_cast<std::int64_t>(values.size()))) continue;
    throw BadInput(path, "tensor {} has a value that is infinite or NaN", tensor.name);
  }
  auto cache = std::make_shared<KvCache>(model.make_cache(capacity_of(header, path, config, n_more), types, memory));
  cache->begin(header.length);
  for (const KeptTensor& tensor : tensors) {
    set_values(*cache, path, tensor, read_values(file, path, tensor), kernels);
  }
  cache->advance(0);
  return cache;
}

}  // namespace vitrine
