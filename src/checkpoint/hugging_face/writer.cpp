#include "checkpoint/hugging_face/writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file_writer.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_rules.h"
#include "kernels/kernels.h"
#include "model/count.h"

namespace vitrine {
namespace {

constexpr std::int64_t kElementsPerChunk = std::int64_t{1} << 21;

/// Consecutive rows of a parameter in a stored tensor.
struct Part {
  std::size_t param = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

/// A stored tensor, and the source of its rows.
struct Stored {
  std::string name, name_in_file;
  std::vector<Part> parts;
  PlaceShape shape;
  std::int64_t n_alternating = 1;  ///< Parts whose rows alternate: these many of each expert.
};

/// The tensors of a model of this config in that form, in the order of the family's table.
std::vector<Stored> stored_tensors(const Family& family, const std::optional<StoredForm>& as,
                                   const ModelConfig& config) {
  std::map<std::string, std::pair<std::size_t, Shape>> params;
  for_each_shape(config, [&](const std::string& name, const Shape& shape) {
    const std::size_t index = params.size();
    params.emplace(name, std::pair{index, shape});
  });
  std::vector<Stored> tensors;
  std::set<std::string> written;  // parameters, of which a table may have several names
  const auto add = [&](const TensorPlace& place) {
    const bool continues = place.head.value_or(0) > 0;  // a parameter whose first part is written
    if (as && !continues && !as->names.contains(place.stored)) return;
    std::vector<std::size_t> indices;
    std::vector<Shape> shapes;
    for (const std::string& ours : place.ours) {
      const auto it = params.find(ours);
      if (it == params.end() || written.contains(ours) != continues) return;  // this config has no such parameter
      const auto& [index, shape] = it->second;
      indices.push_back(index);
      shapes.push_back(shape);
    }
    written.insert(place.ours.begin(), place.ours.end());
    Stored stored{place.stored, place.stored, {}, shape_of(place, config, shapes)};
    if (place.rule->rows == Rows::alternating) stored.n_alternating = std::ssize(place.rule->ours);
    if (as && as->names_in_file.contains(stored.name)) stored.name_in_file = as->names_in_file.at(stored.name);
    for (const RowRun& run : row_runs(place, config, shapes)) {
      stored.parts.push_back({indices[run.part], run.first, run.count});
    }
    tensors.push_back(std::move(stored));
  };
  const std::string_view prefix = as ? std::string_view(as->prefix) : family.prefixes.front();
  for (const TensorRule& rule : family.tensors) for_each_place(rule, prefix, config, add);
  return tensors;
}

class TensorStream {
 public:
  /// `file` names the file in messages; empty: the values may be infinite or NaN.
  TensorStream(TensorSink& sink, const ParamValues& values, ThreadPool& pool, std::string file)
      : sink_(sink), values_(values), pool_(pool), file_(std::move(file)) {}

  /// Writes one tensor, a chunk of its stored rows at a time.
  template <class Report>
  void write(const Stored& stored, DType dtype, Report&& report) {
    dtype_ = dtype;
    sink_.begin(stored.name_in_file, dtype_, stored.shape.stored);
    const PlaceShape& shape = stored.shape;
    if (!shape.transposed) return write_lines(stored, shape.rows, shape.cols, 0, report);
    const std::int64_t rows = shape.rows / shape.n_stacked;
    for (std::int64_t i = 0; i < shape.n_stacked; ++i) write_lines(stored, shape.cols, rows, i * rows, report);
  }

 private:
  /// Writes `n_lines` lines: rows, or columns of the rows from `first_row` on.
  template <class Report>
  void write_lines(const Stored& stored, std::int64_t n_lines, std::int64_t line, std::int64_t first_row,
                   Report&& report) {
    const std::int64_t step = std::max<std::int64_t>(1, kElementsPerChunk / line);
    for (std::int64_t first = 0; first < n_lines; first += step) {
      const std::int64_t n = std::min(step, n_lines - first);
      buffer_.resize(static_cast<std::size_t>(n * line));
      if (stored.shape.is_vector) {
        fill_vector(stored, first, n);
      } else if (stored.shape.transposed) {
        fill_columns(stored, first_row, line, first, n);
      } else {
        fill_rows(stored, first, n);
      }
      if (!file_.empty()) check_range(stored.name_in_file);
      append(n * line);
      report(n * line);
    }
  }

  /// The parameter that holds row `row` of the tensor, its row there, and the number of rows from it on.
  static Part place(const Stored& stored, std::int64_t row) {
    if (const std::int64_t n = stored.n_alternating; n > 1) {
      const std::int64_t size = stored.shape.rows / stored.shape.n_stacked, in_copy = row % size;
      return {stored.parts[static_cast<std::size_t>(row / size * n + in_copy % n)].param, in_copy / n, 1};
    }
    auto part = stored.parts.begin();
    for (; row >= part->rows; ++part) row -= part->rows;
    return {part->param, part->first + row, part->rows - row};
  }

  void fill_vector(const Stored& stored, std::int64_t first, std::int64_t n) {
    for (std::int64_t i = 0; i < n;) {
      const Part at = place(stored, first + i);
      const std::int64_t run = std::min(at.rows, n - i);
      values_(at.param, 0, at.first, {buffer_.data() + i, static_cast<std::size_t>(run)});
      i += run;
    }
  }

  void fill_rows(const Stored& stored, std::int64_t first, std::int64_t n) {
    pool_.parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Part at = place(stored, first + i);
        values_(at.param, at.first, 0,
                {buffer_.data() + i * stored.shape.cols, static_cast<std::size_t>(stored.shape.cols)});
      }
    });
  }

  /// Columns [first, first + n) of `n_rows` rows from `first_row` on, as rows of the file.
  void fill_columns(const Stored& stored, std::int64_t first_row, std::int64_t n_rows, std::int64_t first,
                    std::int64_t n) {
    pool_.parallel_for(n_rows, 16, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<float> run(static_cast<std::size_t>(n));
      for (std::int64_t i = begin; i < end; ++i) {
        const Part at = place(stored, first_row + i);
        values_(at.param, at.first, first, run);
        for (std::int64_t c = 0; c < n; ++c)
          buffer_[static_cast<std::size_t>(c * n_rows + i)] = run[static_cast<std::size_t>(c)];
      }
    });
  }

  /// Throws BadInput for numbers in buffer_ that are not finite, or would not be in the type of the tensor.
  void check_range(const std::string& name) const {
    constexpr float kBeyondHalf = 65520;  // rounds to infinity
    const auto too_large = [](float x) { return std::abs(x) >= kBeyondHalf; };
    if (!default_kernels().all_finite(buffer_.data(), static_cast<std::int64_t>(buffer_.size()))) {
      throw BadInput(file_, "tensor {}: expected finite numbers to write, got infinity or NaN", name);
    }
    if (dtype_ == DType::f16 && std::any_of(buffer_.begin(), buffer_.end(), too_large)) {
      throw BadInput(file_, "tensor {}: the numbers exceed the range of f16 (bf16 and f32 can hold them)", name);
    }
  }

  void append(std::int64_t n) {
    const std::span<const float> floats(buffer_.data(), static_cast<std::size_t>(n));
    if (dtype_ == DType::f32) return sink_.append(std::as_bytes(floats));
    halves_.resize(floats.size());
    pool_.parallel_for(n, 1 << 14, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        halves_[i] = dtype_ == DType::bf16 ? bf16_from_float(floats[i]) : f16_from_float(floats[i]);
      }
    });
    sink_.append(std::as_bytes(std::span(halves_)));
  }

  TensorSink& sink_;
  DType dtype_ = DType::f32;  // of the current tensor
  const ParamValues& values_;
  ThreadPool& pool_;
  std::string file_;
  std::vector<float> buffer_;
  std::vector<std::uint16_t> halves_;
};

}  // namespace

namespace {

void write_tensors(TensorSink& sink, const std::vector<Stored>& tensors, const Family& family,
                   const ModelConfig& config, DType dtype, const ParamValues& values, ThreadPool& pool,
                   const ReportProgress& report, const std::optional<StoredForm>& as, const std::string& file = "") {
  std::int64_t total = 0;
  for (const Stored& stored : tensors) total += stored.shape.rows * stored.shape.cols;
  if (!as && total != count_params(config)) {
    throw InternalError(family.model_type, "the table holds {} elements, the model has {}", total,
                        count_params(config));
  }
  TensorStream stream(sink, values, pool, file);
  std::int64_t done = 0;
  for (const Stored& stored : tensors) {
    const bool has_own = as && as->types.contains(stored.name);
    stream.write(stored, has_own ? as->types.at(stored.name) : dtype, [&](std::int64_t n) {
      done += n;
      if (report) report(done, total);
    });
  }
}

}  // namespace

void write_hugging_face_tensors(TensorSink& sink, const Family& family, const ModelConfig& config, DType dtype,
                                const ParamValues& values, ThreadPool& pool, const std::optional<StoredForm>& as) {
  write_tensors(sink, stored_tensors(family, as, config), family, config, dtype, values, pool, {}, as);
}

void write_hugging_face_tensors(const std::string& path, const Family& family, const ModelConfig& config, DType dtype,
                                const ParamValues& values, ThreadPool& pool, const ReportProgress& report,
                                const std::optional<StoredForm>& as) {
  const std::vector<Stored> tensors = stored_tensors(family, as, config);
  SafetensorsWriter writer(path, header_bytes_for(tensors.size()));
  write_tensors(writer, tensors, family, config, dtype, values, pool, report, as, path);
  writer.commit();
}

void write_config_json(const std::string& path, const Family& family, Json config, DType dtype) {
  config.erase("dtype");
  config.erase("quantization_config");  // the weights are written dequantized
  config["torch_dtype"] = dtype == DType::f32 ? "float32" : dtype == DType::f16 ? "float16" : "bfloat16";
  if (!config.contains("architectures")) config["architectures"] = {std::string(family.architecture)};
  write_file(path, config.dump(2) + "\n");
}

}  // namespace vitrine
