#include "train/trainable.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/checked.h"
#include "base/error.h"
#include "base/file_writer.h"
#include "base/mapped_file.h"
#include "checkpoint/hugging_face_writer.h"
#include "kernels/kernels.h"
#include "model/count.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kGrain = std::int64_t{1} << 14;  // elements that are worth waking a thread

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Zeros from the system, which takes pages from memory when they are first written.
std::shared_ptr<std::byte> zeros(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  void* const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw OutOfCapacity("parameters", "cannot have {:.1f} GB of memory", static_cast<double>(bytes) / 1e9);
  }
  ::madvise(data, size, MADV_HUGEPAGE);  // fewer address translations; the system may not know it
  return {static_cast<std::byte*>(data), [size](std::byte* p) { ::munmap(p, size); }};
}

/// Elements of a stored parameter, dense and row-major, into `to`.
void copy_dense(const MatrixView& view, float* to, ThreadPool& pool, const Kernels& k) {
  if (view.col_stride == 1) {
    return pool.parallel_for(view.rows, kGrain / view.cols + 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t r = begin; r < end; ++r) k.widen(view.at(r, 0), view.dtype, view.cols, to + r * view.cols);
    });
  }
  if (view.row_stride != 1) throw InternalError("parameters", "a view without a stride of 1");
  pool.parallel_for(view.cols, kGrain / view.rows + 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> column(static_cast<std::size_t>(view.rows));
    for (std::int64_t c = begin; c < end; ++c) {
      k.widen(view.at(0, c), view.dtype, view.rows, column.data());
      for (std::int64_t r = 0; r < view.rows; ++r) to[r * view.cols + c] = column[static_cast<std::size_t>(r)];
    }
  });
}

void copy_whole(const fs::path& from, const fs::path& to) {
  const auto file = MappedFile::open(from.string());
  FileWriter writer(to.string());
  writer.write(file->bytes());
  writer.commit();
}

void copy_tokenizer(const std::string& from, const fs::path& folder) {
  if (from.empty()) return;
  for (const TokenizerFile& file : tokenizer_files(from)) copy_whole(file.path, folder / file.name);
  if (!fs::exists(folder / "tokenizer.json") || fs::exists(folder / "tokenizer_config.json")) return;
  // Else transformers takes the class that the model's family usually has, and not this file's rules.
  const std::string text = "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n";
  FileWriter config((folder / "tokenizer_config.json").string());
  config.write(std::as_bytes(std::span(text)));
  config.commit();
}

}  // namespace

Trainable::Trainable(const ModelConfig& config, DType dtype) : dtype_(dtype) {
  if (dtype != DType::f32 && dtype != DType::bf16) {
    throw InternalError("parameters", "there is no training of {}", name_of(dtype));
  }
  validate(config, "config");
  const std::int64_t n_params = count_params(config);
  if (!checked_mul(n_params, 8)) throw OutOfCapacity("parameters", "{} of them fit no memory", n_params);
  std::int64_t value_bytes = 0, weight_bytes = 0;
  for_each_shape(config, [&](const std::string&, const Shape& shape) {
    value_bytes += aligned(shape.count() * size_of(DType::f32));
    weight_bytes += aligned(shape.count() * size_of(dtype));
  });
  const std::shared_ptr<std::byte> values = zeros(value_bytes);
  const std::shared_ptr<std::byte> weights = dtype == DType::f32 ? values : zeros(weight_bytes);

  ModelParams views = empty_params(config);
  std::byte *value = values.get(), *weight = weights.get();
  for_each_param(config, views, [&](Param& param, const std::string& name, const Shape& shape) {
    const std::int64_t cols = shape[shape.rank() - 1];
    param = {name, name, shape, {weight, dtype, shape.count() / cols, cols, cols, 1}};
    params_.push_back({name, shape, reinterpret_cast<float*>(value), dtype == DType::f32 ? nullptr : weight});
    value += aligned(shape.count() * size_of(DType::f32));
    weight += aligned(shape.count() * size_of(dtype));
  });
  model_ = std::make_shared<const Model>(config, std::move(views),
                                         std::vector<std::shared_ptr<const void>>{values, weights});
}

void Trainable::round_weights(ThreadPool& pool, const Kernels& k) const {
  if (dtype_ == DType::f32) return;
  for (const TrainParam& param : params_) {
    pool.parallel_for(param.count(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      k.narrow(param.value + begin, end - begin, dtype_, param.rounded + begin * size_of(dtype_));
    });
  }
}

Trainable draw_trainable(const ModelConfig& config, DType dtype, const InitOptions& options, std::uint64_t seed,
                         ThreadPool& pool, const Kernels& k) {
  Trainable trainable(config, dtype);
  const std::span<const TrainParam> params = trainable.params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const InitRule rule = init_rule(config, params[i].name, params[i].shape, options);
    pool.parallel_for(params[i].count(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      draw_initial(rule, seed, i, begin, {params[i].value + begin, static_cast<std::size_t>(end - begin)});
    });
  }
  trainable.round_weights(pool, k);
  return trainable;
}

Trainable copy_trainable(const Model& model, DType dtype, ThreadPool& pool, const Kernels& k) {
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape&) {
    if (!is_blocks(param.view.dtype)) return;
    throw Unsupported(name, "expected weights of f32, f16 or bf16 to train on, got {}", name_of(param.view.dtype));
  });
  Trainable trainable(model.config(), dtype);
  auto target = trainable.params().begin();
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string&, const Shape&) {
    copy_dense(param.view, (target++)->value, pool, k);
  });
  trainable.round_weights(pool, k);
  return trainable;
}

void save_model(const Trainable& trainable, const ModelFiles& files, const std::string& folder, ThreadPool& pool) {
  const std::span<const TrainParam> params = trainable.params();
  const ParamValues values = [&](std::size_t i, std::int64_t row, std::int64_t first_col, std::span<float> out) {
    const std::int64_t cols = params[i].shape[params[i].shape.rank() - 1];
    std::copy_n(params[i].value + row * cols + first_col, out.size(), out.data());
  };
  const fs::path to = folder;
  write_hugging_face_tensors((to / "model.safetensors").string(), files.family, trainable.model().config(),
                             trainable.dtype(), values, pool);
  copy_tokenizer(files.tokenizer, to);
  write_config_json((to / "config.json").string(), files.family, files.config, trainable.dtype());
}

}  // namespace vitrine
