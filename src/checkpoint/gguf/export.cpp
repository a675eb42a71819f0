#include "checkpoint/gguf/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/heads.h"
#include "checkpoint/gguf/plan.h"
#include "checkpoint/gguf/types.h"
#include "checkpoint/param_rows.h"
#include "kernels/quantize.h"
#include "quant/block_format.h"

namespace vitrine {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 22;
constexpr std::int64_t kTaskElements = 1 << 14;    // of one thread at a time, at least
constexpr float kBeyondHalf = 65520;               // rounds to infinity
constexpr std::uint32_t kQuantizationVersion = 2;  // of ggml's formats

/// Writes tensors by groups of rows.
class TensorStream {
 public:
  TensorStream(GgufWriter& writer, ThreadPool& pool, std::string where)
      : writer_(writer), pool_(pool), where_(std::move(where)) {}

  /// Sets the tensor's error if `measures`.
  void write(PlannedTensor& tensor, bool measures, const std::function<void(std::int64_t)>& report) {
    Squares all;
    const std::int64_t step = std::max<std::int64_t>(1, kChunkElements / tensor.cols);
    for (std::size_t part = 0; part < tensor.parts.size(); ++part) {
      for (std::int64_t first = 0; first < tensor.parts[part].rows; first += step) {
        const std::int64_t n = std::min(step, tensor.parts[part].rows - first);
        fill(tensor, part, first, n);
        if (measures) all += squares_of(tensor, part, first, n);
        writer_.append(bytes_);
        report(n * tensor.cols);
      }
    }
    if (measures) tensor.error = all.size > 0 ? std::sqrt(all.error / all.size) : 0.0;
  }

 private:
  /// Σ w (x − y)² and Σ w x².
  struct Squares {
    double error = 0, size = 0;

    Squares& operator+=(const Squares& other) {
      error += other.error;
      size += other.size;
      return *this;
    }
  };

  /// Of the rows in floats_ and bytes_, n rows of the part from `first` on.
  Squares squares_of(const PlannedTensor& tensor, std::size_t part, std::int64_t first, std::int64_t n) const {
    std::vector<Squares> rows(static_cast<std::size_t>(n));
    pool_.parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<float> stored(static_cast<std::size_t>(tensor.cols));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::byte* const bytes = bytes_.data() + bytes_of(tensor.dtype, i * tensor.cols);
        read_row({bytes, tensor.dtype, 1, tensor.cols, tensor.cols, 1}, 0, stored);
        const float* const x = floats_.data() + i * tensor.cols;
        const float* const weights = tensor.importance_of(part, first + i);
        Squares& row = rows[static_cast<std::size_t>(i)];
        for (std::size_t k = 0; k < stored.size(); ++k) {
          const double w = weights != nullptr ? static_cast<double>(weights[k]) : 1.0,
                       value = static_cast<double>(x[k]);
          const double difference = value - static_cast<double>(stored[k]);
          row += {w * difference * difference, w * value * value};
        }
      }
    });
    Squares sum;
    for (const Squares& row : rows) sum += row;
    return sum;
  }

  /// Fills bytes_ with rows [first, first + n) of the file for a part.
  void fill(const PlannedTensor& tensor, std::size_t index, std::int64_t first, std::int64_t n) {
    const SourceRows& part = tensor.parts[index];
    bytes_.resize(static_cast<std::size_t>(bytes_of(tensor.dtype, n * tensor.cols)));
    floats_.resize(static_cast<std::size_t>(n * tensor.cols));
    if (part.param->shape.rank() == 1) read_vector(part);
    const std::int64_t at_least = std::max<std::int64_t>(1, kTaskElements / tensor.cols);
    pool_.parallel_for(n, at_least, [&](std::int64_t begin, std::int64_t end, int) {
      float* const rows = floats_.data() + begin * tensor.cols;
      for (std::int64_t i = begin; i < end; ++i) {
        read(part, first + i, {floats_.data() + i * tensor.cols, static_cast<std::size_t>(tensor.cols)});
      }
      if (!default_kernels().all_finite(rows, (end - begin) * tensor.cols)) {
        throw BadInput(where_ + ", " + tensor.name, "expected finite weights, got infinity or NaN");
      }
      if (copy_rows(tensor, part, first, begin, end)) return;
      convert(rows, first + begin, end - begin, tensor, index,
              bytes_.data() + bytes_of(tensor.dtype, begin * tensor.cols));
    });
  }

  void read_vector(const SourceRows& part) {
    vector_.resize(static_cast<std::size_t>(part.param->shape[0]));
    read_row(part.param->view, 0, vector_);
  }

  void read(const SourceRows& part, std::int64_t row, std::span<float> to) const {
    if (part.of_heads && part.of_heads->is_transposed) return read_column(part, row, to);
    const std::int64_t source = part.source(row);
    if (part.param->shape.rank() != 1) {
      read_row(part.param->view, source, to);
      if (part.columns.size > 0) reorder(part.columns, to);
    } else {
      to[0] = vector_[static_cast<std::size_t>(source)] + part.offset;
    }
    if (part.factor != 1) std::transform(to.begin(), to.end(), to.begin(), [&](float x) { return x * part.factor; });
    if (!part.to_rates) return;
    for (float& x : to) x = -static_cast<float>(math::exp(static_cast<double>(x)));
  }

  static void reorder(const HeadOrder& order, std::span<float> row) {
    const std::vector<float> from(row.begin(), row.end());
    for (std::int64_t head = 0; head < order.n_heads; ++head) {
      std::copy_n(from.begin() + order.source(head) * order.size, order.size, row.begin() + head * order.size);
    }
  }

  /// Column `row` of a head's rows.
  static void read_column(const SourceRows& part, std::int64_t row, std::span<float> to) {
    const HeadRows& of = *part.of_heads;
    const MatrixView& w = part.param->view;
    const std::int64_t head = row / w.cols, column = row % w.cols;
    if (!is_blocks(w.dtype)) {
      const MatrixView rows = w.row_range(head * of.step + of.first, of.count).col_range(column, 1);
      for (std::int64_t i = 0; i < of.count; ++i) read_row(rows, i, to.subspan(static_cast<std::size_t>(i), 1));
      return;
    }
    std::vector<float> whole(static_cast<std::size_t>(w.cols));
    for (std::int64_t i = 0; i < of.count; ++i) {
      read_row(w, head * of.step + of.first + i, whole);
      to[static_cast<std::size_t>(i)] = whole[static_cast<std::size_t>(column)];
    }
  }

  /// Blocks that keep their type are copied.
  bool copy_rows(const PlannedTensor& tensor, const SourceRows& part, std::int64_t first, std::int64_t begin,
                 std::int64_t end) {
    const MatrixView& view = part.param->view;
    const bool is_mxfp4 = view.dtype == DType::mxfp4_pairs && tensor.dtype == DType::mxfp4;
    const bool is_transposed = part.of_heads && part.of_heads->is_transposed;
    const bool changes = is_transposed || part.columns.size > 0 || part.factor != 1;
    if (!is_blocks(view.dtype) || (view.dtype != tensor.dtype && !is_mxfp4) || changes) return false;
    const std::int64_t size = bytes_of(tensor.dtype, tensor.cols);
    for (std::int64_t i = begin; i < end; ++i) {
      std::byte* const to = bytes_.data() + i * size;
      const std::int64_t row = part.source(first + i);
      if (is_mxfp4) {
        copy_mxfp4(view.at(row, 0), view.scales.data + view.scales.index(row, 0), tensor.cols, to);
      } else {
        std::memcpy(to, view.at(row, 0), static_cast<std::size_t>(size));
      }
    }
    return true;
  }

  /// Converts n rows of the part, from `first` on.
  void convert(const float* rows, std::int64_t first, std::int64_t n, const PlannedTensor& tensor, std::size_t part,
               std::byte* to) const {
    const std::string where = where_ + ", " + tensor.name;
    const Kernels& kernels = default_kernels();
    if (is_blocks(tensor.dtype)) {
      const std::int64_t of_head = tensor.rows_of_head();
      for (std::int64_t i = 0, count = 0; i < n; i += count) {
        count = tensor.n_heads > 1 ? std::min(n - i, of_head - (first + i) % of_head) : n;
        quantize_rows(kernels, tensor.dtype, rows + i * tensor.cols, count, tensor.cols,
                      tensor.importance_of(part, first + i), to + bytes_of(tensor.dtype, i * tensor.cols), where);
      }
      return;
    }
    const std::span<const float> all(rows, static_cast<std::size_t>(n * tensor.cols));
    const auto too_large = [](float x) { return std::abs(x) >= kBeyondHalf && std::isfinite(x); };
    if (tensor.dtype == DType::f16 && std::any_of(all.begin(), all.end(), too_large)) {
      throw BadInput(where, "the weights exceed the range of f16 (bf16 and f32 can hold them)");
    }
    kernels.narrow(rows, n * tensor.cols, tensor.dtype, to);
  }

  GgufWriter& writer_;
  ThreadPool& pool_;
  std::string where_;
  std::vector<float> floats_, vector_;
  std::vector<std::byte> bytes_;
};

/// The names of the matrices, and the numbers of the experts, that the importance matrix knows nothing about. Those of
/// the ends of the model are not expected to be there.
std::vector<std::string> unweighted_tensors(const std::vector<PlannedTensor>& tensors) {
  std::vector<std::string> names;
  for (const PlannedTensor& tensor : tensors) {
    if (!is_blocks(tensor.dtype) || !tensor.name.starts_with("blk.")) continue;
    if (tensor.importance.empty()) names.push_back(tensor.name);
    for (std::int64_t i = 0; i < tensor.n_copies && !tensor.importance.empty(); ++i) {
      if (tensor.importance_of(static_cast<std::size_t>(i)) != nullptr) continue;
      names.push_back(tensor.n_copies == 1 ? tensor.name : fmt::format("{}, expert {}", tensor.name, i));
    }
  }
  return names;
}

/// Throws BadInput if the importance matrix has tensors that the model lacks.
void check_names(const ImportanceMatrix& importance, const std::vector<PlannedTensor>& tensors) {
  for (const auto& entry : importance.tensors) {
    const std::string& name = entry.first;
    const auto has_name = [&](const PlannedTensor& tensor) { return tensor.name == name; };
    if (name == "output.weight" || std::any_of(tensors.begin(), tensors.end(), has_name)) continue;
    throw BadInput(importance.path, "{}: the model has no such tensor: the importance matrix is of another model",
                   name);
  }
}

/// Takes what the file has as keys out of the plan. Tensors are in the order of the layers.
GgufKeys take_numbers_of_layers(const GgufArchitecture& architecture, std::vector<PlannedTensor>& plan) {
  GgufKeys keys;
  for (const std::string_view name : architecture.numbers_of_layers) {
    std::vector<float> numbers;
    const std::string end = "." + std::string(name);
    std::erase_if(plan, [&](const PlannedTensor& tensor) {
      if (!tensor.name.ends_with(end)) return false;
      read_row(tensor.parts.front().param->view, 0, {&numbers.emplace_back(), 1});
      return true;
    });
    keys.add(name, numbers);
  }
  return keys;
}

PlannedTensor dense_tensor(std::size_t i, const Param& weight) {
  PlannedTensor tensor;
  tensor.name = fmt::format("dense_{}.weight", i + 2);
  tensor.rows = weight.shape[0];
  tensor.cols = weight.shape[1];
  tensor.shape = {tensor.rows, tensor.cols};
  tensor.parts.push_back({&weight, tensor.rows});
  return tensor;
}

}  // namespace

GgufExport write_gguf(const std::string& path, const Checkpoint& checkpoint, const GgufTypes& types,
                      const GgufExtras& extras, ThreadPool& pool, const ReportProgress& report) {
  ModelConfig config = checkpoint.model->config();
  const GgufArchitecture& architecture = gguf_architecture_of(checkpoint, path);
  if (architecture.is_encoder) config.has_head = false;  // encoder_notes()
  const std::vector<RopeTensor> rope = rope_tensors(config);
  GgufExport result = plan_gguf(path, checkpoint, types, extras);
  if (const auto context = leave_out_windows(architecture, config)) {
    result.notes.push_back(
        fmt::format("the file's context is {} tokens, the attention window: GGUF's architecture {} has no windows",
                    *context, architecture.name));
  }

  GgufKeys keys;
  keys.add("general.architecture", architecture.name);
  keys.add("general.type", "model");
  keys.add("general.file_type", types.file->number);
  if (is_blocks(types.file->dtype)) keys.add("general.quantization_version", kQuantizationVersion);
  keys.add(gguf_config_keys(architecture, config));
  keys.add(gguf_encoder_keys(architecture, config));
  keys.add(gguf_head_keys(architecture, config, path));
  keys.add(result.numbers);
  keys.add(extras.keys);

  GgufWriter writer(path);
  for (const RopeTensor& tensor : rope) {
    const auto n = static_cast<std::int64_t>(tensor.values.size());
    writer.add_tensor(tensor.name, {n}, ggml_type_of(DType::f32).number, n * size_of(DType::f32));
  }
  for (const PlannedTensor& tensor : result.plan) {
    writer.add_tensor(tensor.name, tensor.shape, ggml_type_of(tensor.dtype).number, tensor.bytes());
  }
  check_round_trip(architecture, writer.header(keys), rope, config, path);
  check_disk_space(path, result.bytes);

  writer.begin(keys);
  for (const RopeTensor& tensor : rope) writer.append(std::as_bytes(std::span(tensor.values)));
  TensorStream stream(writer, pool, path);
  std::int64_t done = 0;
  for (PlannedTensor& tensor : result.plan) {
    stream.write(tensor, types.measures_errors && tensor.is_matrix, [&](std::int64_t n) {
      done += n;
      if (report) report(done, result.elements);
    });
  }
  writer.commit();
  return result;
}

GgufExport plan_gguf(const std::string& path, const Checkpoint& checkpoint, const GgufTypes& types,
                     const GgufExtras& extras) {
  GgufExport result;
  const GgufArchitecture& architecture = gguf_architecture_of(checkpoint, path);
  gguf_head_keys(architecture, checkpoint.model->config(), path);  // refuses what has no place
  result.notes = encoder_notes(architecture, checkpoint.model->config());
  result.plan = plan_tensors(architecture, checkpoint, types, path);
  for (std::size_t i = 0; i < extras.dense.size(); ++i) result.plan.push_back(dense_tensor(i, *extras.dense[i]));
  result.numbers = take_numbers_of_layers(architecture, result.plan);
  if (types.importance != nullptr) {
    check_names(*types.importance, result.plan);
    result.unweighted = unweighted_tensors(result.plan);
  }
  for (const PlannedTensor& tensor : result.plan) {
    result.elements += tensor.rows * tensor.cols;
    result.bytes += tensor.bytes();
  }
  return result;
}

}  // namespace vitrine
