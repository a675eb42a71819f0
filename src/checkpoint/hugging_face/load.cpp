// Hugging Face folders: a family's reader reads config.json, and its table binds the tensors. Every tensor must belong
// to the model and every parameter must be in the file.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "checkpoint/bind_tensors.h"
#include "checkpoint/formats.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/generation_config.h"
#include "checkpoint/hugging_face/open_tensors.h"
#include "checkpoint/hugging_face/quantization.h"
#include "checkpoint/hugging_face/task_parts.h"
#include "checkpoint/hugging_face/wrapper.h"
#include "checkpoint/names.h"
#include "checkpoint/param_rows.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_rules.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// Converts tensors of 64-bit numbers to F32, in memory that is added to the storage.
void narrow_doubles(StoredTensors& tensors) {
  for (auto& [name, tensor] : tensors.all) {
    if (tensor.dtype != "F64") continue;
    const std::size_t n = tensor.bytes.size() / sizeof(double);
    const auto floats = std::make_shared<std::vector<float>>(n);
    for (std::size_t i = 0; i < n; ++i) {
      double value = 0;
      std::memcpy(&value, tensor.bytes.data() + i * sizeof value, sizeof value);
      (*floats)[i] = static_cast<float>(value);
    }
    tensor.dtype = "F32";
    tensor.type = DType::f32;
    tensor.bytes = std::as_bytes(std::span(*floats));
    tensors.storage.push_back(floats);
  }
}

/// Gives tensors the names of the family's table. Early checkpoints of BERT call the weight and the bias of a LayerNorm
/// gamma and beta.
void rename_tensors(const Family& family, StoredTensors& tensors) {
  std::vector<std::pair<std::string_view, std::string_view>> renames = {{"LayerNorm.gamma", "LayerNorm.weight"},
                                                                        {"LayerNorm.beta", "LayerNorm.bias"}};
  renames.insert(renames.end(), family.renames.begin(), family.renames.end());
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [name, tensor] : tensors.all) {
    for (const auto& [early, known] : renames) {
      const std::size_t at = name.find(early);
      if (at == name.npos) continue;
      found.emplace_back(name, name.substr(0, at) + std::string(known) + name.substr(at + early.size()));
      break;
    }
  }
  for (const auto& [early, known] : found) {
    auto node = tensors.all.extract(early);
    node.key() = known;
    if (node.mapped().name.empty()) node.mapped().name = early;
    if (!tensors.all.insert(std::move(node)).inserted) {
      throw BadCheckpoint(tensors.where, "tensors {} and {} hold the same parameter", early, known);
    }
  }
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

DType dtype_of(const StoredTensor& tensor, const std::string& name) {
  if (tensor.type) return *tensor.type;
  throw Unsupported(tensor.file, "tensor {} is {}; F64, F32, F16 and BF16 are supported: save it as one of these", name,
                    tensor.dtype);
}

std::string_view prefix_of(const Family& family, const StoredTensors& tensors) {
  const auto holds = [&](std::string_view prefix) {
    return tensors.all.contains(with_prefix(family.embedding, prefix));
  };
  const auto it = std::find_if(family.prefixes.begin(), family.prefixes.end(), holds);
  return it != family.prefixes.end() ? *it : family.prefixes.front();
}

/// The stored weight of a parameter of ours, with its name; null if the file has none.
const std::pair<const std::string, StoredTensor>* stored_weight(const Family& family, const StoredTensors& tensors,
                                                                std::string_view ours) {
  for (const TensorRule& rule : family.tensors) {
    if (rule.ours.front() != ours) continue;
    const auto it = tensors.all.find(with_prefix(rule.stored, prefix_of(family, tensors)) + ".weight");
    if (it != tensors.all.end()) return &*it;
  }
  return nullptr;
}

/// A tensor of single elements, or of rows of whole blocks, as one matrix.
MatrixView matrix_of(const StoredTensor& tensor, std::int64_t rows, std::int64_t cols) {
  return {tensor.bytes.data(),          *tensor.type, rows, cols, tensor.row_size > 0 ? tensor.row_size : cols, 1,
          scales_of(tensor, rows, cols)};
}

/// A tensor whose headers do not say its shape, as rows of `cols` codes. What is not a multiple of the blocks of scales
/// has smaller groups.
StoredTensor in_rows_of(StoredTensor tensor, std::int64_t cols) {
  const std::int64_t unit = block_size(*tensor.type).elements;
  tensor.row_size = (cols + unit - 1) / unit * unit;
  tensor.scales->block_cols = std::gcd(cols, tensor.scales->block_cols);
  return tensor;
}

/// Whether a tensor has the values of a matrix or vector, in whatever type.
bool same_values(const StoredTensor& tensor, const MatrixView& view, const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  if (!tensor.type || count != shape.count()) return false;
  const std::size_t size = tensor.bytes.size();
  const bool is_dense = view.col_stride == 1 && (view.rows == 1 || view.row_stride == view.cols);
  if (tensor.type == view.dtype && !tensor.scales && is_dense && std::memcmp(tensor.bytes.data(), view.data, size) == 0)
    return true;
  const std::int64_t rows = view.rows, cols = view.cols;
  const MatrixView other = matrix_of(tensor, rows, cols);
  std::vector<float> a(static_cast<std::size_t>(cols)), b(a.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    read_row(view, row, a);
    read_row(other, row, b);
    if (!std::equal(a.begin(), a.end(), b.begin())) return false;
  }
  return true;
}

/// Lets the file decide about the head. A model that has none, and is not tied, computes vectors. A stored head that
/// differs from the embedding counts, as in transformers, whatever the config says.
void adapt_head(const Family& family, const StoredTensors& tensors, ModelConfig& config,
                std::vector<std::string>& notes) {
  const auto* const head = stored_weight(family, tensors, "unembed");
  if (!config.head.tied) config.has_head = config.has_head && head != nullptr;
  if (!config.head.tied || !config.has_head || head == nullptr) return;
  const bool has_two = config.encoder && !config.shared_embedding;
  const auto* const embed = stored_weight(family, tensors, has_two ? "decoder.embed" : "embed");
  if (embed == nullptr || !embed->second.type || embed->second.shape.size() != 2) return;
  const StoredTensor& table = embed->second;
  const std::int64_t rows = table.shape[0], cols = table.shape[1];
  if (same_values(head->second, matrix_of(table, rows, cols), Shape{rows, cols})) return;
  config.head.tied = false;
  notes.push_back(head->first + " differs from " + embed->first +
                  ", although the config ties them: the stored head counts");
}

/// Binds stored tensors to parameters by a family's table.
class Binder {
 public:
  /// Copies of tensors with interleaved rows are added to the storage of `tensors`.
  Binder(const Family& family, const ModelConfig& config, StoredTensors& tensors, ModelParams& params)
      : family_(family), config_(config), tensors_(tensors) {
    params = empty_params(config);
    for_each_param(config, params, [&](Param& param, const std::string& name, const Shape& shape) {
      param.name = name;
      param.shape = shape;
      slots_.emplace(name, &param);
    });
    prefix_ = prefix_of(family, tensors);
  }

  void bind() {
    for (const TensorRule& rule : family_.tensors) {
      for_each_place(rule, prefix_, config_, [&](const TensorPlace& place) { bind(place); });
    }
    for (const std::string_view name : family_.ignored) {
      const std::size_t n_in_encoder = config_.encoder ? config_.encoder->n_layers() : 0;
      for (std::size_t layer = 0; layer < std::max(config_.n_layers(), n_in_encoder); ++layer) {
        used_.insert(with_layer(with_prefix(name, prefix_), static_cast<std::int64_t>(layer)));
      }
    }
    check_head();
    for (const auto& [name, param] : slots_) {
      if (!param->present()) {
        throw BadCheckpoint(tensors_.where, "tensor {} ({}) is missing", param->stored_name, name);
      }
    }
    for (const auto& [name, tensor] : tensors_.all) {
      const std::string& in_file = name_in_file(name, tensor);
      if (used_.contains(name) || is_buffer(name) || is_allowed(in_file)) continue;
      if (is_of_other_class(name)) {
        leave_out(in_file, tensor);
        continue;
      }
      throw BadCheckpoint(tensor.file, "tensor {} is not part of this model (--allow-tensor ignores it)", in_file);
    }
  }

  std::string_view prefix() const { return prefix_; }
  /// The modules that another class of the family has, and this one does not use.
  const std::vector<UnreadTensors>& left_out() const { return left_out_; }

 private:
  void bind(const TensorPlace& place) {
    const std::string& stored = place.stored;
    std::vector<Param*> params;
    std::vector<Shape> shapes;
    for (const std::string& ours : place.ours) {
      const auto slot = slots_.find(ours);
      if (slot == slots_.end()) return;  // this config has no such parameter
      params.push_back(slot->second);
      const bool is_first = place.head.value_or(0) == 0;
      if (!slot->second->present() && is_first) slot->second->stored_name = stored;
      shapes.push_back(slot->second->shape);
    }
    const auto it = tensors_.all.find(stored);
    if (it == tensors_.all.end()) return;
    used_.insert(stored);
    if (place.head) return copy_head(it->second, place, shapes, *params.front());
    StoredTensor tensor = it->second;
    for (const Param* param : params) {
      if (!param->present()) continue;
      if (!is_allowed(name_in_file(stored, tensor))) check_copy(tensor, name_in_file(stored, tensor), *param);
      return;
    }

    if (place.rule->transposed && tensor.type && is_blocks(*tensor.type)) {  // blocks are stored by rows everywhere
      TensorRule by_rows = *place.rule;
      by_rows.transposed = false;
      TensorPlace upright = place;
      upright.rule = &by_rows;
      return bind(upright);
    }
    PlaceShape shape = shape_of(place, config_, shapes);
    const bool knows_shape = tensor.n_elements == 0;
    const std::int64_t even = (shape.rows * shape.cols + 1) / 2 * 2;
    const bool fits = knows_shape ? tensor.shape == shape.stored : tensor.n_elements == even;
    if (!fits) {
      throw BadCheckpoint(tensor.file, "tensor {}: expected shape {} ({}), got {}", name_in_file(stored, tensor),
                          shape_text(shape.stored), params.front()->name, shape_text(tensor.shape));
    }
    if (!knows_shape) tensor = in_rows_of(tensor, shape.cols);
    shape.row_size = tensor.row_size;
    const DType dtype = dtype_of(tensor, stored);
    if (shape.is_vector && is_quantized(dtype)) {
      throw Unsupported(tensor.file, "tensor {}: a vector in {} is not supported; F32, F16 and BF16 are", stored,
                        tensor.dtype);
    }
    const std::byte* bytes = tensor.bytes.data();
    const bool alternates = place.rule->rows == Rows::alternating;
    const bool may_alternate = tensor.scales && tensor.scales->block_rows == 1 && !has_groups(dtype);
    if (tensor.scales && place.rule->rows != Rows::stacked && !(alternates && may_alternate)) {
      throw Unsupported(tensor.file, "tensor {}: {} in rows that are interleaved is not supported", stored,
                        tensor.dtype);
    }
    if (alternates) {
      if (shape.transposed || shape.is_vector) bytes = separate(tensor.bytes, place, shape, size_of(dtype));
    } else if (place.rule->rows != Rows::stacked) {
      bytes = stack(tensor.bytes, row_runs(place, config_, shapes), shapes, bytes_of(dtype, shape.cols));
    }
    const std::vector<MatrixView> views = views_of(place, shape, bytes, dtype, shapes);
    for (std::size_t i = 0; i < params.size(); ++i) {
      params[i]->view = views[i];
      params[i]->view.scales = scales_of_param(tensor, place, shape, shapes, i);
    }
  }

  /// A copy of lines in which the elements of several parameters alternate, those of each parameter together.
  const std::byte* separate(std::span<const std::byte> from, const TensorPlace& place, const PlaceShape& shape,
                            std::int64_t element) {
    const auto copy = std::make_shared<std::vector<std::byte>>(from.size());
    const std::int64_t n = shape.rows / shape.n_stacked, step = std::ssize(place.rule->ours);
    const std::byte* next = from.data();
    for (std::byte* line = copy->data(); line < copy->data() + copy->size(); line += n * element) {
      for (std::int64_t i = 0; i < n; ++i, next += element) {
        std::copy_n(next, element, line + (i % step * (n / step) + i / step) * element);
      }
    }
    tensors_.storage.push_back(copy);
    return copy->data();
  }

  /// Copies one head's part of a vector next to those of the heads before it, which must be there.
  void copy_head(const StoredTensor& tensor, const TensorPlace& place, const std::vector<Shape>& shapes, Param& param) {
    const PlaceShape shape = shape_of(place, config_, shapes);
    const DType dtype = dtype_of(tensor, place.stored);
    std::vector<std::byte>& copied = heads_[&param];
    if (copied.empty()) param.view.dtype = dtype;
    if (tensor.shape != shape.stored || is_quantized(dtype) || dtype != param.view.dtype) {
      throw BadCheckpoint(tensor.file,
                          "tensor {}: expected floats of shape {} ({}), in one type for all heads, got {} {}",
                          place.stored, shape_text(shape.stored), param.name, tensor.dtype, shape_text(tensor.shape));
    }
    const std::size_t size = tensor.bytes.size();
    if (copied.size() != static_cast<std::size_t>(*place.head) * size) return;  // one before it is missing
    copied.insert(copied.end(), tensor.bytes.begin(), tensor.bytes.end());
    const std::int64_t n = param.shape[0];
    if (copied.size() != static_cast<std::size_t>(n / shape.rows) * size) return;
    const auto whole = std::make_shared<const std::vector<std::byte>>(std::move(copied));
    tensors_.storage.push_back(whole);
    param.view = {whole->data(), dtype, 1, n, n, 1};
  }

  /// A copy of a tensor in which the rows of each part are consecutive.
  const std::byte* stack(std::span<const std::byte> from, const std::vector<RowRun>& runs,
                         const std::vector<Shape>& parts, std::int64_t row_bytes) {
    const auto copy = std::make_shared<std::vector<std::byte>>(from.size());
    std::vector<std::int64_t> first(parts.size());
    for (std::size_t part = 1; part < parts.size(); ++part) first[part] = first[part - 1] + parts[part - 1][0];
    const std::byte* next = from.data();
    for (const RowRun& run : runs) {
      const std::int64_t n = run.count * row_bytes;
      std::copy_n(next, n, copy->data() + (first[run.part] + run.first) * row_bytes);
      next += n;
    }
    tensors_.storage.push_back(copy);
    return copy->data();
  }

  /// Throws BadCheckpoint unless a tensor has the values of `param`, which is bound to another one.
  static void check_copy(const StoredTensor& tensor, const std::string& name, const Param& param) {
    if (same_values(tensor, param.view, param.shape)) return;
    throw BadCheckpoint(tensor.file, "tensor {} differs from {}, whose copy it is (--allow-tensor ignores it)", name,
                        param.stored_name);
  }

  /// If the file also holds a tied head, it has the values of the embedding: untie_heads() has seen to it.
  void check_head() {
    if (!config_.head.tied) return;
    for (const TensorRule& rule : family_.tensors) {
      if (rule.ours.front() == "unembed") used_.insert(with_prefix(rule.stored, prefix_) + ".weight");
    }
  }

  /// Buffers of libraries, which can be computed.
  static bool is_buffer(std::string_view name) {
    constexpr std::string_view kEndings[] = {
        "rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached",   "embeddings.position_ids",
        "encoder.version",     "decoder.version",       "embed_positions.weights", "embed_positions._float_tensor"};
    return std::any_of(std::begin(kEndings), std::end(kEndings),
                       [&](std::string_view ending) { return name.ends_with(ending); });
  }

  bool is_of_other_class(std::string_view name) const {
    const std::string_view module = name.substr(0, name.rfind('.'));
    return std::any_of(family_.unused.begin(), family_.unused.end(),
                       [&](std::string_view unused) { return module == with_prefix(unused, prefix_); });
  }

  /// The tensors of a module follow each other.
  void leave_out(const std::string& name, const StoredTensor& tensor) {
    const std::string module = name.substr(0, name.rfind('.'));
    if (left_out_.empty() || left_out_.back().what != module) left_out_.push_back({module});
    ++left_out_.back().count;
    left_out_.back().bytes += std::ssize(tensor.bytes);
  }

  /// Whether the caller names the tensor, or its beginning followed by `*`.
  bool is_allowed(std::string_view name) const {
    return std::any_of(tensors_.allowed.begin(), tensors_.allowed.end(), [&](std::string_view allowed) {
      return allowed.ends_with('*') ? name.starts_with(allowed.substr(0, allowed.size() - 1)) : name == allowed;
    });
  }

  const Family& family_;
  const ModelConfig& config_;
  StoredTensors& tensors_;
  std::map<std::string, Param*> slots_;                   // by our name
  std::map<const Param*, std::vector<std::byte>> heads_;  // the parts that are copied so far
  std::set<std::string> used_;                            // stored names of this model
  std::string_view prefix_;
  std::vector<UnreadTensors> left_out_;
};

}  // namespace

Checkpoint bind_tensors(const Family& family, ModelConfig config, StoredTensors tensors,
                        PlaceholderTokens placeholders) {
  rename_tensors(family, tensors);
  if (family.adapt_to_shapes) {
    const std::string_view prefix = prefix_of(family, tensors);
    family.adapt_to_shapes(config, [&](std::string_view name) {
      const auto it = tensors.all.find(with_prefix(name, prefix));
      return it != tensors.all.end() ? it->second.shape : std::vector<std::int64_t>();
    });
    validate(config, tensors.where);
  }
  if (family.adapt) {
    family.adapt(config, [&](std::string_view name) { return tensors.all.contains(std::string(name)); });
    validate(config, tensors.where);
  }
  Checkpoint result;
  adapt_head(family, tensors, config, result.notes);
  ModelParams params;
  Binder binder(family, config, tensors, params);
  binder.bind();
  result.unread = binder.left_out();
  result.table = std::make_shared<const Family>(family);
  result.prefix = binder.prefix();
  result.family = family.model_type;
  result.model =
      std::make_shared<const Model>(std::move(config), std::move(params), tensors.storage, std::move(placeholders));
  result.stored = std::make_shared<const StoredTensors>(std::move(tensors));
  return result;
}

Checkpoint bind_hugging_face(const Json& config, StoredTensors tensors, const std::string& where,
                             const LoadOptions& options) {
  TextHalf half = text_half(config, where, options.allowed_config_keys);
  Family family = family_of(half.config, half.where);
  ModelConfig model = read_model_config(family, half.config, half.where, options.allowed_config_keys);
  if (!model.has_head && !model.task) leave_out_heads(family);
  const std::vector<UnreadTensors> unread = keep_text_half(half, family, tensors);
  narrow_doubles(tensors);
  ConfigReader reader(half.config, half.where, options.allowed_config_keys);
  tensors.without_values = options.without_values;
  const Quantization quantization = read_quantization(reader);
  join_quantized(quantization, tensors);
  tensors.allowed = options.allowed_tensors;
  Checkpoint result = bind_tensors(family, std::move(model), std::move(tensors), std::move(half.placeholders));
  result.unread.insert(result.unread.end(), unread.begin(), unread.end());
  if (quantization.groups.rounds_activations) {
    result.notes.emplace_back("activations are not rounded, although quantization_config says so (docs/quantizing.md)");
  }
  if (half.wrapper != nullptr) result.wrapper = half.wrapper->model_type;
  result.config = half.config.dump(2) + "\n";
  result.asks_float32 = half.config.value("dtype", half.config.value("torch_dtype", Json())) == "float32";
  return result;
}

Checkpoint load_hugging_face(const std::string& folder, const LoadOptions& options) {
  const fs::path config_path = fs::path(folder) / "config.json";
  if (!may_exist(config_path) && may_exist(fs::path(folder) / "adapter_config.json")) {
    throw Unsupported(
        folder,
        "expected a model, got an adapter (adapter_config.json): give its base, and this folder with --adapter");
  }
  if (!may_exist(config_path)) throw BadInput(folder, "expected config.json in the folder");
  const Json json = read_json_file(config_path.string());
  const TextHalf half = text_half(json, config_path.string(), options.allowed_config_keys);
  const Family family = family_of(half.config, half.where);
  read_model_config(family, half.config, half.where, options.allowed_config_keys);  // its errors come first
  Checkpoint result = bind_hugging_face(json, open_tensors(folder), config_path.string(), options);
  const std::string inside = result.wrapper.empty() ? "" : " in " + result.wrapper;
  result.description = std::string(family.model_type) + inside + ", Hugging Face checkpoint";
  result.tokenizer_path = folder;
  read_generation(folder, half.config, options.allowed_config_keys, result);
  return result;
}

}  // namespace vitrine
