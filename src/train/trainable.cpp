#include "train/trainable.h"

#include <cstring>
#include <filesystem>
#include <map>

#include "base/checked.h"
#include "base/error.h"
#include "base/file_writer.h"
#include "base/mapped_file.h"
#include "checkpoint/hugging_face/writer.h"
#include "kernels/kernels.h"
#include "model/count.h"
#include "tensor/zero_memory.h"
#include "tokenizer/read/tokenizer_folder.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kGrain = std::int64_t{1} << 14;  // elements per thread, at least

/// Copies the elements of a stored parameter to `to`, dense and row-major.
void copy_dense(const MatrixView& view, float* to, ThreadPool& pool, const Kernels& k) {
  if (view.col_stride == 1) {
    return pool.parallel_for(view.rows, kGrain / view.cols + 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t r = begin; r < end; ++r) k.widen(view.at(r, 0), view.dtype, view.cols, to + r * view.cols);
    });
  }
  if (view.row_stride != 1) throw InternalError("parameters", "expected a view with a stride of 1");
  pool.parallel_for(view.cols, kGrain / view.rows + 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> column(static_cast<std::size_t>(view.rows));
    for (std::int64_t c = begin; c < end; ++c) {
      k.widen(view.at(0, c), view.dtype, view.rows, column.data());
      for (std::int64_t r = 0; r < view.rows; ++r) to[r * view.cols + c] = column[static_cast<std::size_t>(r)];
    }
  });
}

/// A copy of a vector that no gradient changes; without elements, its initial value.
std::shared_ptr<std::vector<float>> copy_buffer(const ModelConfig& config, const std::string& name, const Shape& shape,
                                                const Param& from) {
  const double value = init_rule(config, norms_of(config), name, shape, {}).mean;
  const auto values =
      std::make_shared<std::vector<float>>(static_cast<std::size_t>(shape[0]), static_cast<float>(value));
  if (!from.present()) return values;
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    default_kernels().widen(from.view.at(0, i), from.view.dtype, 1, values->data() + i);
  }
  return values;
}

}  // namespace

Trainable::Trainable(const ModelConfig& config, DType dtype) : Trainable(config, dtype, nullptr, {}, {}) {}

Trainable::Trainable(const ModelConfig& config, DType dtype, TextSteps steps)
    : Trainable(config, dtype, nullptr, {}, std::move(steps)) {}

Trainable::Trainable(std::shared_ptr<const Model> base, DType dtype, const IsTrainable& learns, TextSteps steps)
    : Trainable(base->config(), dtype, base, learns, std::move(steps)) {}

Trainable::Trainable(const ModelConfig& config, DType dtype, const std::shared_ptr<const Model>& base,
                     const IsTrainable& learns, TextSteps steps)
    : dtype_(dtype), steps_(std::move(steps)) {
  if (dtype != DType::f32 && dtype != DType::bf16) {
    throw InternalError("parameters", "expected f32 or bf16 to train in, got {}", name_of(dtype));
  }
  validate(config, "config");
  const std::int64_t n_params = count_params(config);
  if (!checked_mul(n_params, 8)) throw OutOfCapacity("parameters", "{} of them do not fit in memory", n_params);
  const auto is_learning = [&](const std::string& name) {
    return !is_constant(config, name) && (!learns || learns(name));
  };
  const auto is_buffer = [&](const std::string& name, const Shape& shape) {
    return is_constant(config, name) && shape.rank() == 1;
  };
  std::int64_t value_bytes = 0, weight_bytes = 0;
  bool is_any_frozen = false;
  const auto count = [&](const Shape& shape) {
    value_bytes += round_up(shape.count(), kParamAlignment) * size_of(DType::f32);
    weight_bytes += round_up(shape.count(), kParamAlignment) * size_of(dtype);
  };
  for_each_shape(config, [&](const std::string& name, const Shape& shape) {
    is_any_frozen |= !is_learning(name);
    if (is_learning(name)) count(shape);
  });
  for_each_step_param(steps_, [&](const Param& param) { count(param.shape); });
  const auto values = std::make_shared<const ZeroMemory>(value_bytes, "parameters");
  const auto weights = dtype == DType::f32 ? values : std::make_shared<const ZeroMemory>(weight_bytes, "parameters");
  values_ = {values->floats(), static_cast<std::size_t>(value_bytes) / sizeof(float)};
  weights_ = {weights->bytes(), static_cast<std::size_t>(weight_bytes)};
  std::vector<std::shared_ptr<const void>> storage = {values, weights};
  if (is_any_frozen) storage.push_back(base);

  ModelParams views = base != nullptr ? base->params() : empty_params(config);
  std::byte *value = values->bytes(), *weight = weights->bytes();
  const auto place = [&](Param& param, const std::string& name, const Shape& shape) {
    const std::int64_t cols = shape[shape.rank() - 1];
    param = {name, param.stored_name, shape, {weight, dtype, shape.count() / cols, cols, cols, 1}};
    params_.push_back({name, shape, reinterpret_cast<float*>(value), dtype == DType::f32 ? nullptr : weight});
    value += round_up(shape.count(), kParamAlignment) * size_of(DType::f32);
    weight += round_up(shape.count(), kParamAlignment) * size_of(dtype);
  };
  for_each_param(config, views, [&](Param& param, const std::string& name, const Shape& shape) {
    if (!is_learning(name)) {
      if (!is_buffer(name, shape)) return;
      const auto copy = copy_buffer(config, name, shape, param);
      const std::int64_t n = shape[0];
      storage.push_back(copy);
      param = {name, name, shape, {reinterpret_cast<const std::byte*>(copy->data()), DType::f32, 1, n, n, 1}};
      buffers_.push_back({name, shape, copy->data()});
      return;
    }
    param.stored_name = name;
    place(param, name, shape);
    params_.back().limit = limit_of(config, name);
  });
  const std::size_t n_of_model = params_.size();
  for_each_step_param(steps_, [&](Param& param) { place(param, std::string(param.name), Shape(param.shape)); });
  steps_.storage = {values, weights};
  model_ = std::make_shared<const Model>(config, std::move(views), std::move(storage));
  auto next = params_.begin(), next_buffer = buffers_.begin();
  for_each_param(config, model_->params(), [&](const Param& param, const std::string& name, const Shape& shape) {
    if (is_learning(name)) (next++)->param = &param;
    if (is_buffer(name, shape)) (next_buffer++)->param = &param;
  });
  next = params_.begin() + static_cast<std::ptrdiff_t>(n_of_model);
  for_each_step_param(steps_, [&](const Param& param) { (next++)->param = &param; });
}

Trainable::Trainable(Checkpoint base, WritableAdapter adapter, TextSteps steps)
    : dtype_(DType::f32),
      base_(adapter.adapter->saved.empty() ? std::move(base) : with_saved_parameters(base, *adapter.adapter)),
      adapter_(adapter.adapter),
      steps_(std::move(steps)) {
  model_ = base_.model;
  applied_ = {{adapter_, 1.0}};
  std::map<std::string, const Param*> replaced;  // of the model, which passes read
  for_each_param(model_->config(), model_->params(), [&](const Param& param, const std::string& name, const Shape&) {
    if (adapter_->saved.contains(name)) replaced[name] = &param;
  });
  for (const AdapterMatrix& matrix : adapter.matrices) {
    const auto own = replaced.find(matrix.param->name);
    params_.push_back({matrix.param->name, matrix.param->shape, matrix.values, nullptr,
                       own != replaced.end() ? own->second : matrix.param});
  }
}

/// Adapters change no embedding, so the blocks' numbers in the names decide. In a model with an encoder, all of the
/// decoder follows it.
std::optional<SiteId> Trainable::first_learning_block() const {
  if (adapter_ == nullptr) return {};
  const ModelConfig& config = model_->config();
  SiteId first = BlockSite{static_cast<int>(config.n_layers()), config.stack()}(Site::resid_pre);
  for (const auto& [name, low] : adapter_->maps) {
    const std::size_t dot = name.find('.'), digit = dot + 1;
    if (name[digit] < '0' || name[digit] > '9') continue;  // of the head
    const Stack stack = name.starts_with("encoder.") ? Stack::encoder : config.stack();
    const SiteId own = BlockSite{std::stoi(name.substr(digit)), stack}(Site::resid_pre);
    if (precedes(own, first)) first = own;
  }
  return first;
}

void Trainable::round_weights(std::size_t i, ThreadPool& pool, const Kernels& k) const {
  if (dtype_ == DType::f32) return;
  const TrainParam& param = params_[i];
  pool.parallel_for(param.count(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    k.narrow(param.value + begin, end - begin, dtype_, param.rounded + begin * size_of(dtype_));
  });
}

void Trainable::round_weights(ThreadPool& pool, const Kernels& k) const {
  for (std::size_t i = 0; i < params_.size(); ++i) round_weights(i, pool, k);
}

Trainable draw_trainable(const ModelConfig& config, DType dtype, const InitOptions& options, std::uint64_t seed,
                         ThreadPool& pool, const Kernels& k, const Filled& filled) {
  Trainable trainable(config, dtype);
  const std::span<const TrainParam> params = trainable.params();
  const NormsByName norms = norms_of(config);
  if (filled) filled(trainable, 0);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const InitRule rule = init_rule(config, norms, params[i].name, params[i].shape, options);
    pool.parallel_for(params[i].count(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      draw_initial(rule, seed, i, begin, {params[i].value + begin, static_cast<std::size_t>(end - begin)});
    });
    trainable.round_weights(i, pool, k);
    if (filled) filled(trainable, i + 1);
  }
  return trainable;
}

Trainable copy_trainable(const std::shared_ptr<const Model>& model, DType dtype, ThreadPool& pool, const Kernels& k,
                         const IsTrainable& learns, const TextSteps& steps) {
  const auto for_each_learning = [&](auto&& visit) {
    for_each_param(model->config(), model->params(), [&](const Param& param, const std::string& name, const Shape&) {
      if (!is_constant(model->config(), name) && (!learns || learns(name))) visit(param, name);
    });
  };
  for_each_learning([](const Param& param, const std::string& name) {
    if (!is_quantized(param.view.dtype)) return;
    throw Unsupported(name, "expected weights of f32, f16 or bf16 to train on, got {}", name_of(param.view.dtype));
  });
  Trainable trainable(model, dtype, learns, steps);
  auto target = trainable.params().begin();
  for_each_learning(
      [&](const Param& param, const std::string&) { copy_dense(param.view, (target++)->value, pool, k); });
  for_each_step_param(steps, [&](const Param& param) { copy_dense(param.view, (target++)->value, pool, k); });
  trainable.round_weights(pool, k);
  return trainable;
}

Trainable extend_trainable(const Model& model, const ModelConfig& config, DType dtype, const InitOptions& options,
                           const std::function<std::string(const std::string& name)>& source, std::uint64_t seed,
                           ThreadPool& pool, const Kernels& k) {
  std::map<std::string, const Param*> known;
  for_each_param(model.config(), model.params(),
                 [&](const Param& param, const std::string& name, const Shape&) { known[name] = &param; });
  Trainable trainable(config, dtype);
  const std::span<const TrainParam> params = trainable.params();
  const NormsByName norms = norms_of(config);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto found = known.find(source(params[i].name));
    if (found != known.end() && found->second->present() && found->second->shape == params[i].shape) {
      const MatrixView& view = found->second->view;
      if (is_quantized(view.dtype)) {
        throw Unsupported(params[i].name, "expected weights of f32, f16 or bf16 to train on, got {}",
                          name_of(view.dtype));
      }
      copy_dense(view, params[i].value, pool, k);
    } else {
      const InitRule rule = init_rule(config, norms, params[i].name, params[i].shape, options);
      draw_initial(rule, seed, i, 0, {params[i].value, static_cast<std::size_t>(params[i].count())});
    }
  }
  trainable.round_weights(pool, k);
  return trainable;
}

ParamValues values_of(const Model& model, const Hold& hold) {
  std::vector<MatrixView> views;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape&) {
    if (is_quantized(param.view.dtype)) {
      throw Unsupported(name, "expected weights of f32, f16 or bf16 to save, got {}", name_of(param.view.dtype));
    }
    views.push_back(param.view);
  });
  return [views = std::move(views), hold, &k = default_kernels()](std::size_t i, std::int64_t row,
                                                                  std::int64_t first_col, std::span<float> out) {
    const MatrixView& view = views[i];
    if (hold) hold(view.at(row, first_col));
    const std::int64_t step = view.col_stride == 1 ? static_cast<std::int64_t>(out.size()) : 1;
    for (std::int64_t at = 0; at < static_cast<std::int64_t>(out.size()); at += step) {
      k.widen(view.at(row, first_col + at), view.dtype, step, out.data() + at);
    }
  };
}

void copy_tokenizer(const std::string& from, const std::string& to) {
  const fs::path folder = to;
  if (from.empty()) return;
  for (const TokenizerFile& file : tokenizer_files(from)) {
    fs::create_directories((folder / file.name).parent_path());
    write_file((folder / file.name).string(), MappedFile::open(file.path)->text());
  }
  if (!fs::exists(folder / "tokenizer.json") || fs::exists(folder / "tokenizer_config.json")) return;
  // Otherwise the usual class of the new model's family counts, whose rules may differ from those of this tokenizer.
  std::string name = fs::is_directory(from) ? read_tokenizer_folder(from).class_name : "";
  if (name.empty() || name == "TokenizersBackend") name = "PreTrainedTokenizerFast";
  write_file((folder / "tokenizer_config.json").string(), Json({{"tokenizer_class", name}}).dump() + "\n");
}

void save_model(const Trainable& trainable, const ModelFiles& files, const std::string& folder, ThreadPool& pool,
                const Hold& hold) {
  const fs::path to = folder;
  const auto write_template = [&] {
    if (!files.chat_template.empty()) write_file((to / "chat_template.jinja").string(), files.chat_template);
  };
  if (trainable.adapter() != nullptr) {
    write_template();
    PeftOptions options = files.adapter;
    options.saved = &trainable.adapter()->saved;
    write_peft_adapter(folder, *trainable.adapter(), *trainable.base(), options);
    if (options.saved->empty()) return;
    // PEFT does not read it; it says what the head is of.
    return write_config_json((to / "config.json").string(), files.family, files.config, trainable.dtype());
  }
  const Model& model = trainable.model();
  write_hugging_face_tensors((to / "model.safetensors").string(), files.family, model.config(), trainable.dtype(),
                             values_of(model, hold), pool);
  copy_tokenizer(files.tokenizer, folder);
  write_template();
  for (const auto& [name, text] : files.sentences) {
    fs::create_directories((to / name).parent_path());
    write_file((to / name).string(), text);
  }
  write_step_weights(folder, files.sentences, trainable.steps(), hold);
  write_config_json((to / "config.json").string(), files.family, files.config, trainable.dtype());
}

}  // namespace vitrine
