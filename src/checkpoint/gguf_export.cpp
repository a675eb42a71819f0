#include "checkpoint/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "checkpoint/gguf_architecture.h"
#include "checkpoint/gguf_types.h"
#include "checkpoint/param_rows.h"
#include "checkpoint/tensor_rules.h"
#include "kernels/kernels.h"
#include "quant/block_format.h"

namespace vitrine {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;
constexpr float kBeyondHalf = 65520;               // rounds to infinity
constexpr std::uint32_t kQuantizationVersion = 2;  // of ggml's formats

/// A parameter as a source of the file's rows.
struct SourceRows {
  const Param* param = nullptr;
  std::int64_t rows = 0;      ///< A vector's elements are rows of one.
  float offset = 0;           ///< Added to every element: the weight_offset of a norm.
  std::int64_t head_dim = 0;  ///< Of the heads within which rows are permuted; 0: they are not.
  std::int64_t rope_dim = 0;  ///< The rows of each head that RoPE rotates,
  bool to_pairs = true;       ///< which are permuted from halves to interleaved pairs, or back.

  /// The parameter's row for row `row` of the file.
  std::int64_t source(std::int64_t row) const {
    if (head_dim == 0 || row % head_dim >= rope_dim) return row;
    const std::int64_t first = row / head_dim * head_dim, i = row % head_dim, half = rope_dim / 2;
    return first + (to_pairs ? i % 2 * half + i / 2 : i % half * 2 + i / half);
  }
};

struct Target {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  std::vector<SourceRows> parts;
  std::int64_t rows = 0, cols = 0;  // a vector has one column

  std::int64_t bytes() const { return bytes_of(dtype, rows * cols); }
};

/// The tensors of the file.
class Plan {
 public:
  Plan(const GgufArchitecture& architecture, const Checkpoint& checkpoint, DType dtype, const std::string& where)
      : architecture_(architecture), config_(checkpoint.model->config()), dtype_(dtype) {
    for_each_param(config_, checkpoint.model->params(),
                   [&](const Param& param, const std::string& name, const Shape&) { params_.emplace(name, &param); });
    for (const TensorRule& rule : gguf_tensor_rules(architecture)) {
      const bool is_fused = rule.stored.ends_with(".attn_qkv");
      const bool is_part =
          rule.stored.ends_with(".attn_q") || rule.stored.ends_with(".attn_k") || rule.stored.ends_with(".attn_v");
      const bool is_one_expert = rule.stored.find("{e}") != rule.stored.npos;  // all experts are written in one tensor
      if (is_one_expert || (architecture.fused_qkv ? is_part : is_fused)) continue;
      for_each_place(rule, "", config_, [&](const TensorPlace& place) { add(place); });
    }
    if (params_.size() != used_) throw Unsupported(where, "the model has parameters for which GGUF has no names");
  }

  std::vector<Target> targets;

 private:
  void add(const TensorPlace& place) {
    Target target;
    target.name = place.stored;
    std::vector<Shape> shapes;
    for (const std::string& name : place.ours) {
      const auto it = params_.find(name);
      if (it == params_.end()) return;  // this config has no such parameter
      const Param& param = *it->second;
      SourceRows part{&param, param.shape[0]};
      const bool is_gain = param.shape.rank() == 1 && name.ends_with(".weight");
      if (is_gain) part.offset = config_.final_norm->weight_offset;  // all norms of a model have the same one
      if (name.find(".attn.wq.") != name.npos || name.find(".attn.wk.") != name.npos) permute(place.layer, part);
      shapes.push_back(param.shape);
      target.parts.push_back(part);
    }
    const PlaceShape shape = shape_of(place, config_, shapes);
    const bool is_gate = target.name.ends_with(kSharedGateName);
    target.rows = shape.rows;
    target.cols = shape.cols;
    target.shape = is_gate ? std::vector{shape.cols} : shape.stored;
    const bool is_small = shape.is_vector || is_gate || target.name.ends_with(".ffn_gate_inp.weight");
    if (!is_small && target.name != "position_embd.weight") target.dtype = dtype_of(target);
    used_ += target.parts.size();
    targets.push_back(std::move(target));
  }

  void permute(std::int64_t layer, SourceRows& part) const {
    const AttentionConfig& a = config_.blocks[static_cast<std::size_t>(layer)].attention();
    if (!a.rope || a.rope->layout == architecture_.layout) return;
    part.head_dim = a.head_dim;
    part.rope_dim = a.rope->dim;
    part.to_pairs = architecture_.layout == RopeConfig::Layout::interleaved;
  }

  /// The type of a matrix, as in llama.cpp: that of the file, except for the head of a q4_0 file and for rows that are
  /// not whole blocks.
  DType dtype_of(const Target& target) const {
    const auto fits = [&](DType dtype) { return target.cols % block_size(dtype).elements == 0; };
    DType dtype = dtype_;
    const bool is_head = target.name == (config_.head.tied ? "token_embd.weight" : "output.weight");
    if (dtype == DType::q4_0 && is_head) dtype = fits(DType::q6_k) ? DType::q6_k : DType::q8_0;
    return fits(dtype) ? dtype : DType::f16;
  }

  const GgufArchitecture& architecture_;
  const ModelConfig& config_;
  DType dtype_;
  std::map<std::string, const Param*> params_;
  std::size_t used_ = 0;
};

/// Writes tensors by groups of rows.
class TargetStream {
 public:
  TargetStream(GgufWriter& writer, ThreadPool& pool, std::string where)
      : writer_(writer), pool_(pool), where_(std::move(where)) {}

  void write(const Target& target, const std::function<void(std::int64_t)>& report) {
    const std::int64_t step = std::max<std::int64_t>(1, kChunkElements / target.cols);
    for (const SourceRows& part : target.parts) {
      for (std::int64_t first = 0; first < part.rows; first += step) {
        const std::int64_t n = std::min(step, part.rows - first);
        fill(target, part, first, n);
        writer_.append(bytes_);
        report(n * target.cols);
      }
    }
  }

 private:
  /// Fills bytes_ with rows [first, first + n) of the file for a part.
  void fill(const Target& target, const SourceRows& part, std::int64_t first, std::int64_t n) {
    const MatrixView& view = part.param->view;
    const bool is_vector = part.param->shape.rank() == 1;
    bytes_.resize(static_cast<std::size_t>(bytes_of(target.dtype, n * target.cols)));
    floats_.resize(static_cast<std::size_t>(n * target.cols));
    std::vector<float> vector;
    if (is_vector) {
      vector.resize(static_cast<std::size_t>(part.rows));
      read_row(view, 0, vector);
    }
    pool_.parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t source = part.source(first + i);
        float* const row = floats_.data() + i * target.cols;
        if (is_vector) {
          *row = vector[static_cast<std::size_t>(source)] + part.offset;
        } else {
          read_row(view, source, {row, static_cast<std::size_t>(target.cols)});
        }
        std::byte* const to = bytes_.data() + bytes_of(target.dtype, i * target.cols);
        convert({row, static_cast<std::size_t>(target.cols)}, target, to);
      }
    });
  }

  void convert(std::span<const float> row, const Target& target, std::byte* to) const {
    const std::string where = where_ + ", " + target.name;
    if (is_blocks(target.dtype)) return quantize_row(target.dtype, row.data(), target.cols, to, where);
    const auto too_large = [](float x) { return std::abs(x) >= kBeyondHalf && std::isfinite(x); };
    if (target.dtype == DType::f16 && std::any_of(row.begin(), row.end(), too_large)) {
      throw BadInput(where, "the weights exceed the range of f16 (bf16 and f32 can hold them)");
    }
    default_kernels().narrow(row.data(), target.cols, target.dtype, to);
  }

  GgufWriter& writer_;
  ThreadPool& pool_;
  std::string where_;
  std::vector<float> floats_;
  std::vector<std::byte> bytes_;
};

}  // namespace

GgufExport write_gguf(const std::string& path, const Checkpoint& checkpoint, DType dtype, const GgufKeys& tokenizer,
                      ThreadPool& pool, const ReportProgress& report) {
  const ModelConfig& config = checkpoint.model->config();
  const GgufArchitecture& architecture = gguf_architecture_of(checkpoint.family, path);
  const std::vector<RopeTensor> rope = rope_tensors(config);
  const Plan plan(architecture, checkpoint, dtype, path);

  GgufKeys keys;
  keys.add("general.architecture", architecture.name);
  keys.add("general.type", "model");
  keys.add("general.file_type", ggml_type_of(dtype).file_type);
  if (is_blocks(dtype)) keys.add("general.quantization_version", kQuantizationVersion);
  keys.add(gguf_config_keys(architecture, config));
  keys.add(tokenizer);

  GgufExport result;
  GgufWriter writer(path);
  for (const RopeTensor& tensor : rope) {
    const auto n = static_cast<std::int64_t>(tensor.values.size());
    writer.add_tensor(tensor.name, {n}, ggml_type_of(DType::f32).number, n * size_of(DType::f32));
  }
  for (const Target& target : plan.targets) {
    writer.add_tensor(target.name, target.shape, ggml_type_of(target.dtype).number, target.bytes());
    result.elements += target.rows * target.cols;
    result.bytes += target.bytes();
    ++result.tensors;
  }
  check_round_trip(architecture, writer.header(keys), rope, config, path);
  check_disk_space(path, result.bytes);

  writer.begin(keys);
  for (const RopeTensor& tensor : rope) writer.append(std::as_bytes(std::span(tensor.values)));
  TargetStream stream(writer, pool, path);
  std::int64_t done = 0;
  for (const Target& target : plan.targets) {
    stream.write(target, [&](std::int64_t n) {
      done += n;
      if (report) report(done, result.elements);
    });
  }
  writer.commit();
  return result;
}

}  // namespace vitrine
