#include "checkpoint/adapters/adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/adapters/places.h"
#include "checkpoint/family.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/names.h"
#include "checkpoint/param_rows.h"
#include "quant/block_format.h"

namespace vitrine {
namespace {

/// Binds the modules of a file to the maps of a base.
class AdapterBinder {
 public:
  AdapterBinder(const AdapterFile& file, const Checkpoint& base, ThreadPool& pool)
      : file_(file), base_(base), model_(*base.model), pool_(pool), adapter_(std::make_shared<LoadedAdapter>()) {
    adapter_->storage = file.storage;
    const bool is_gguf = file.format == "GGUF";
    adapter_->format = is_gguf ? AdapterFormat::gguf : AdapterFormat::peft;
    adapter_->rslora = file.rslora;
    if (is_gguf && !file.architecture.empty()) {
      const std::string_view own = gguf_architecture_of(base, file.path).name;
      if (own != file.architecture) {
        throw BadCheckpoint(file.path, "general.architecture: expected \"{}\", as the model is, got \"{}\"", own,
                            file.architecture);
      }
    }
    for (AdapterPlace& place : all_places(base, is_gguf ? AdapterFormat::gguf : AdapterFormat::peft)) {
      std::string name = place.module;
      places_.emplace(std::move(name), std::move(place));
    }
  }

  std::shared_ptr<const LoadedAdapter> bind() {
    for (const auto& [name, low] : file_.modules) {
      const auto it = places_.find(name);
      if (it == places_.end()) throw BadCheckpoint(file_.path, "{}: the model has no such linear map", name);
      bind(it->second, low);
      adapter_->places.push_back(it->second);
    }
    for (const auto& [ours, parts] : parts_) bind_parts(ours, parts);
    for (const auto& [name, tensor] : file_.copies) check_copy(name, tensor);
    for (const auto& [name, tensor] : file_.saved) bind_saved(name, tensor);
    return adapter_;
  }

 private:
  void bind(const AdapterPlace& place, const StoredLowRank& low) {
    if (file_.layers && std::find(file_.layers->begin(), file_.layers->end(), place.layer) == file_.layers->end()) {
      throw BadCheckpoint(file_.path, "{}: expected only layers of layers_to_transform", place.module);
    }
    if (place.is_parameter != low.is_parameter) {
      throw BadCheckpoint(file_.path, "{}: expected a {}", place.module, place.is_parameter ? "parameter" : "module");
    }
    if (place.is_parameter) return bind_parameter(place, low);
    const std::int64_t n_experts = place.stacks_experts ? static_cast<std::int64_t>(place.ours.size()) : 1;
    std::int64_t n_rows = place.is_part ? static_cast<std::int64_t>(place.order.size()) : 0;
    for (const std::int64_t rows : place.rows) n_rows += place.is_part ? 0 : rows;
    std::vector<std::int64_t> a = {low.rank, place.cols}, b = {n_rows / n_experts, low.rank};
    if (place.stacks_experts) {
      a.insert(a.begin(), n_experts);
      b.insert(b.begin(), n_experts);
    }
    if (low.a.shape != a || low.b.shape != b) {
      throw BadCheckpoint(file_.path, "{}: expected A and B for rows of {} and {} elements, got {} and {}",
                          place.module, place.cols, n_rows / n_experts, low.a.shape.back(),
                          low.b.shape[low.b.shape.size() - 2]);
    }
    if (place.is_part) return parts_[place.ours.front()].push_back({&place, &low});
    const std::int64_t a_rows = low.rank * n_experts;
    const MatrixView stored_a = in_columns(place, floats(low.a, a_rows, place.cols)),
                     stored_b = without_factors(place, floats(low.b, n_rows, low.rank));
    if (place.stacks_experts) {
      for (std::int64_t e = 0; e < n_experts; ++e) {
        const std::string& name = place.ours[static_cast<std::size_t>(e)];
        add(name, low, share_a(name, stored_a.row_range(e * low.rank, low.rank)),
            stored_b.row_range(e * place.rows.front(), place.rows.front()), {});
      }
      return;
    }
    const auto shared_a = share_a(place.ours.front(), stored_a);
    for (std::size_t part = 0; part < place.ours.size(); ++part) {
      const std::vector<std::int64_t> rows = stored_rows(place, part);
      add(place.ours[part], low, shared_a, in_order(stored_b, rows),
          low.magnitudes ? in_order(floats(*low.magnitudes, n_rows, 1), rows) : MatrixView{});
    }
  }

  /// Our name of a tensor of the head for labels; empty: it is another tensor.
  std::string name_in_head(const std::string& stored) const {
    if (base_.table == nullptr || !model_.config().task) return {};
    for (const TensorRule& rule : base_.table->tensors) {
      for (const char* const ending : {".weight", ".bias"}) {
        const auto is_it = [&](std::string_view prefix) { return with_prefix(rule.stored, prefix) + ending == stored; };
        const bool is_stored = is_it(base_.prefix) || std::ranges::any_of(base_.table->prefixes, is_it);
        if (is_stored && rule.ours.front().starts_with("head.")) return std::string(rule.ours.front()) + ending;
      }
    }
    return {};
  }

  void bind_saved(const std::string& stored, const StoredTensor& tensor) {
    const std::string name = name_in_head(stored);
    const Param* own = nullptr;
    for_each_param(model_.config(), model_.params(), [&](const Param& param, const std::string& known, const Shape&) {
      if (known == name) own = &param;
    });
    if (own == nullptr) {
      if (stored.ends_with(".weight")) return check_copy(stored.substr(0, stored.size() - 7), tensor);
      throw Unsupported(file_.path, "the file replaces {}, which is not of a head for labels (modules_to_save)",
                        stored);
    }
    std::vector<std::int64_t> shape;
    for (int i = 0; i < own->shape.rank(); ++i) shape.push_back(own->shape[i]);
    if (tensor.shape != shape) {
      throw BadCheckpoint(file_.path, "{}: expected [{}], as the model has, got [{}]", stored, fmt::join(shape, ", "),
                          fmt::join(tensor.shape, ", "));
    }
    const bool is_vector = shape.size() == 1;
    Param param = *own;
    param.view = floats(tensor, is_vector ? 1 : shape[0], shape.back());
    adapter_->saved.emplace(name, std::move(param));
  }

  /// A module that has some rows of a map.
  struct BoundPart {
    const AdapterPlace* place;
    const StoredLowRank* low;
  };

  /// Adds a map whose rows are in several modules; those of a module that the file lacks are 0.
  void bind_parts(const std::string& ours, const std::vector<BoundPart>& parts) {
    const StoredLowRank& first = *parts.front().low;
    const std::int64_t n_rows = parts.front().place->rows.front(), r = first.rank;
    std::map<std::int64_t, std::pair<MatrixView, std::int64_t>> rows;  // of each row of the map
    for (const auto& [place, low] : parts) {
      if (low->rank != r || low->scale != first.scale || low->a.type != first.a.type ||
          !std::ranges::equal(low->a.bytes, first.a.bytes)) {
        throw Unsupported(file_.path, "{} and {}: expected one matrix A, as the model has both in one matrix",
                          parts.front().place->module, place->module);
      }
      const MatrixView b = floats(low->b, static_cast<std::int64_t>(place->order.size()), r);
      for (std::size_t i = 0; i < place->order.size(); ++i) {
        rows[place->order[i].row] = {b, static_cast<std::int64_t>(i)};
      }
    }
    const MatrixView all = copy_of(n_rows, r, [&](std::int64_t row, std::span<float> to) {
      if (const auto it = rows.find(row); it != rows.end()) read_row(it->second.first, it->second.second, to);
    });
    add(ours, first, share_a(ours, floats(first.a, r, parts.front().place->cols)), all, {});
  }

  /// A with the columns in the order of the map.
  MatrixView in_columns(const AdapterPlace& place, const MatrixView& a) {
    if (place.columns.empty()) return a;
    std::vector<float> row(place.columns.size());
    return copy_of(a.rows, a.cols, [&](std::int64_t k, std::span<float> to) {
      read_row(a, k, row);
      for (std::size_t i = 0; i < row.size(); ++i) to[static_cast<std::size_t>(place.columns[i])] = row[i];
    });
  }

  /// B of rows that the file has times a factor. Where that is 0 the model has no output, whatever B is.
  MatrixView without_factors(const AdapterPlace& place, const MatrixView& b) {
    if (place.factors.empty()) return b;
    return copy_of(b.rows, b.cols, [&](std::int64_t row, std::span<float> to) {
      read_row(b, row, to);
      const float factor = place.factors[static_cast<std::size_t>(row)];
      for (float& x : to) x = factor == 0 ? 0 : x / factor;
    });
  }

  /// Adds the maps of all experts.
  void bind_parameter(const AdapterPlace& place, const StoredLowRank& low) {
    const std::int64_t n = place.n_experts, r = low.rank, n_rows = static_cast<std::int64_t>(place.order.size());
    const std::int64_t in = place.is_swapped ? n_rows : place.cols, out = place.is_swapped ? place.cols : n_rows;
    const std::vector<std::int64_t> a = {n * r, in}, b = {out, r * n};
    if (low.a.shape != a || low.b.shape != b) {
      throw BadCheckpoint(file_.path, "{}: expected A [{}, {}] and B [{}, {}] of {} experts, got [{}] and [{}]",
                          place.module, a[0], a[1], b[0], b[1], n, fmt::join(low.a.shape, ", "),
                          fmt::join(low.b.shape, ", "));
    }
    const MatrixView stored_a = floats(low.a, n * r, in), stored_b = floats(low.b, out, r * n);
    for (std::int64_t e = 0; e < n; ++e) {
      const MatrixView a_rows = copy_of(
          r, in, [&](std::int64_t k, std::span<float> to) { read_row(stored_a.row_range(e * r + k, 1), 0, to); });
      std::vector<float> row(static_cast<std::size_t>(r * n));
      const MatrixView b_rows = copy_of(out, r, [&](std::int64_t o, std::span<float> to) {
        read_row(stored_b, o, row);
        for (std::int64_t k = 0; k < r; ++k) to[static_cast<std::size_t>(k)] = row[static_cast<std::size_t>(k * n + e)];
      });
      const std::size_t first = static_cast<std::size_t>(e * place.maps_of_expert());
      const auto shared_a = share_a(place.ours[first], place.is_swapped ? dense_transposed(b_rows) : a_rows);
      const MatrixView all_b = place.is_swapped ? dense_transposed(a_rows) : b_rows;
      for (std::size_t part = 0; part < static_cast<std::size_t>(place.maps_of_expert()); ++part) {
        add(place.ours[first + part], low, shared_a, in_order(all_b, stored_rows(place, part)), {});
      }
    }
  }

  /// A matrix of floats in memory of its own.
  MatrixView copy_of(std::int64_t rows, std::int64_t cols,
                     const std::function<void(std::int64_t row, std::span<float> to)>& read) {
    const auto copy = std::make_shared<std::vector<float>>(static_cast<std::size_t>(rows * cols));
    for (std::int64_t i = 0; i < rows; ++i) {
      read(i, {copy->data() + i * cols, static_cast<std::size_t>(cols)});
    }
    adapter_->storage.push_back(copy);
    return view_of(copy->data(), rows, cols, cols);
  }
  MatrixView dense_transposed(const MatrixView& m) {
    return copy_of(m.cols, m.rows, [&](std::int64_t column, std::span<float> to) {
      for (std::int64_t i = 0; i < m.rows; ++i) {
        to[static_cast<std::size_t>(i)] = *reinterpret_cast<const float*>(m.at(i, column));
      }
    });
  }

  /// The stored row of each row of a map.
  static std::vector<std::int64_t> stored_rows(const AdapterPlace& place, std::size_t part) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(place.rows[part]));
    for (std::size_t stored = 0; stored < place.order.size(); ++stored) {
      const PartRow& at = place.order[stored];
      if (at.part == part) rows[static_cast<std::size_t>(at.row)] = static_cast<std::int64_t>(stored);
    }
    return rows;
  }

  /// The tensor as a matrix of a type of single elements; blocks are dequantized.
  MatrixView floats(const StoredTensor& tensor, std::int64_t rows, std::int64_t cols) {
    if (!is_blocks(*tensor.type)) return {tensor.bytes.data(), *tensor.type, rows, cols, cols, 1};
    const auto copy = std::make_shared<std::vector<float>>(static_cast<std::size_t>(rows * cols));
    dequantize_row(*tensor.type, tensor.bytes.data(), rows * cols, copy->data());
    adapter_->storage.push_back(copy);
    return view_of(copy->data(), rows, cols, cols);
  }

  /// The stored rows in the order of a map: a view if they follow each other, else a copy.
  MatrixView in_order(const MatrixView& stored, const std::vector<std::int64_t>& rows) {
    const auto n = static_cast<std::int64_t>(rows.size());
    bool follow = true;
    for (std::size_t i = 1; i < rows.size(); ++i) follow = follow && rows[i] == rows[0] + static_cast<std::int64_t>(i);
    if (follow) return stored.row_range(rows.front(), n);
    const std::int64_t row_bytes = bytes_of(stored.dtype, stored.cols);
    const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(n * row_bytes));
    for (std::int64_t i = 0; i < n; ++i) {
      std::memcpy(copy->data() + i * row_bytes, stored.at(rows[static_cast<std::size_t>(i)], 0),
                  static_cast<std::size_t>(row_bytes));
    }
    adapter_->storage.push_back(copy);
    return {copy->data(), stored.dtype, n, stored.cols, stored.cols, 1};
  }

  static std::string lora_name(const std::string& weight, const char* what) {
    return weight.substr(0, weight.size() - std::string_view("weight").size()) + what;
  }

  std::shared_ptr<const Param> share_a(const std::string& name, const MatrixView& view) {
    const std::string own = lora_name(name, "lora_a");
    return std::make_shared<const Param>(Param{own, own, {view.rows, view.cols}, view});
  }

  void add(const std::string& name, const StoredLowRank& low, std::shared_ptr<const Param> a, const MatrixView& b,
           const MatrixView& magnitudes) {
    const std::string own = lora_name(name, "lora_b");
    LowRank map{std::move(a), {own, own, {b.rows, b.cols}, b}, low.scale};
    if (magnitudes.data != nullptr) map.magnitudes = magnitudes_of(name, map, magnitudes);
    if (!adapter_->maps.emplace(name, std::move(map)).second) {
      throw BadCheckpoint(file_.path, "two modules change {}", name);
    }
  }

  /// DoRA's norms, from the base's weight as floats.
  Magnitudes magnitudes_of(const std::string& name, const LowRank& low, const MatrixView& vector) {
    const std::string own = lora_name(name, "lora_magnitude_vector");
    const std::int64_t n = vector.rows;
    const Param& weight = weight_of(model_, name);
    const std::int64_t cols = weight.view.cols, r = low.rank();
    Magnitudes m{{own, own, {n}, {vector.data, vector.dtype, 1, n, n, 1}}, {}, {}, {}};
    for (std::vector<double>* sums : {&m.squares, &m.products, &m.added_squares})
      sums->resize(static_cast<std::size_t>(n));
    std::vector<float> a(static_cast<std::size_t>(r * cols));
    for (std::int64_t i = 0; i < r; ++i)
      read_row(low.a->view, i,
               std::span(a).subspan(static_cast<std::size_t>(i * cols), static_cast<std::size_t>(cols)));
    pool_.parallel_for(n, 4, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<float> w(static_cast<std::size_t>(cols)), b(static_cast<std::size_t>(r));
      for (std::int64_t row = begin; row < end; ++row) {
        read_row(weight.view, row, w);
        read_row(low.b.view, row, b);
        double squares = 0, products = 0, added = 0;
        for (std::size_t c = 0; c < w.size(); ++c) {
          double ba = 0;
          for (std::size_t i = 0; i < b.size(); ++i) {
            ba += static_cast<double>(b[i]) * static_cast<double>(a[i * w.size() + c]);
          }
          const auto own_weight = static_cast<double>(w[c]);
          squares += own_weight * own_weight;
          products += own_weight * ba;
          added += ba * ba;
        }
        const auto at = static_cast<std::size_t>(row);
        m.squares[at] = squares;
        m.products[at] = products;
        m.added_squares[at] = added;
      }
    });
    return m;
  }

  /// peft repeats the weight of an embedding or head that it changes. It must be that of the base.
  void check_copy(const std::string& name, const StoredTensor& tensor) const {
    const auto it = places_.find(name);
    const bool is_head = it != places_.end() && it->second.ours.front() == "unembed.weight";
    if (!is_head) throw Unsupported(file_.path, "the file replaces the weight of {} (modules_to_save)", name);
    const MatrixView& own = weight_of(model_, "unembed.weight").view;
    const bool fits = tensor.type && !is_quantized(*tensor.type) && tensor.shape == std::vector{own.rows, own.cols};
    std::vector<float> theirs(static_cast<std::size_t>(own.cols)), ours(theirs.size());
    std::vector<std::byte> rounded(theirs.size() * sizeof(float));
    for (std::int64_t row = 0; fits && row < own.rows && !is_quantized(own.dtype); ++row) {
      read_row({tensor.bytes.data(), *tensor.type, own.rows, own.cols, own.cols, 1}, row, theirs);
      read_row(own, row, ours);
      if (own.dtype != DType::f32) {  // the adapter may repeat it in a wider type
        default_kernels().narrow(theirs.data(), own.cols, own.dtype, rounded.data());
        default_kernels().widen(rounded.data(), own.dtype, own.cols, theirs.data());
      }
      if (theirs == ours) continue;
      throw Unsupported(file_.path, "the file replaces the weight of {}: it differs from the model's", name);
    }
    if (!fits) throw Unsupported(file_.path, "the file replaces the weight of {} by one of another shape", name);
  }

  const AdapterFile& file_;
  const Checkpoint& base_;
  const Model& model_;
  ThreadPool& pool_;
  std::shared_ptr<LoadedAdapter> adapter_;
  std::map<std::string, AdapterPlace> places_;
  std::map<std::string, std::vector<BoundPart>> parts_;  ///< By the name of the map.
};

}  // namespace

const Param& weight_of(const Model& model, std::string_view name) {
  if (name == "unembed.weight" && model.config().head.tied) return model.params().embed;
  const Param* found = nullptr;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& own, const Shape&) {
    if (own == name) found = &param;
  });
  if (found == nullptr) throw InternalError("adapter", "no parameter is called {}", name);
  return *found;
}

std::string name_of_head_tensor(const Checkpoint& base, const std::string& ours) {
  if (base.table == nullptr || !base.model->config().task || !ours.starts_with("head.")) return {};
  const std::size_t dot = ours.rfind('.');
  for (const TensorRule& rule : base.table->tensors) {
    if (rule.ours.front() == std::string_view(ours).substr(0, dot)) {
      return with_prefix(rule.stored, base.prefix) + ours.substr(dot);
    }
  }
  return {};
}

Checkpoint with_saved_parameters(const Checkpoint& base, const LoadedAdapter& adapter) {
  ModelParams params = base.model->params();
  const ModelConfig& config = base.model->config();
  for_each_param(config, params, [&](Param& param, const std::string& name, const Shape&) {
    if (const auto it = adapter.saved.find(name); it != adapter.saved.end()) param = it->second;
  });
  std::vector<std::shared_ptr<const void>> storage = adapter.storage;
  storage.push_back(base.model);
  Checkpoint result = base;
  result.model = std::make_shared<const Model>(config, std::move(params), std::move(storage));
  return result;
}

std::shared_ptr<const LoadedAdapter> load_adapter(const std::string& path, const Checkpoint& base, ThreadPool& pool,
                                                  bool may_replace) {
  const AdapterFile file = open_adapter(path);
  auto adapter = AdapterBinder(file, base, pool).bind();
  if (adapter->saved.empty() || may_replace) return adapter;
  throw Unsupported(path,
                    "the adapter replaces the head for labels (modules_to_save): it can be used for all texts of a "
                    "command, or merged (vitrine lora merge)");
}

}  // namespace vitrine
