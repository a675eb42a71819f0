#include "model/dry_run.h"

#include <algorithm>

namespace vitrine {

Model shape_model(const ModelConfig& config, DType dtype) {
  alignas(64) static const std::byte kNowhere{};
  ModelParams params = empty_params(config);
  for_each_param(config, params, [&](Param& param, const std::string& name, const Shape& shape) {
    const std::int64_t cols = shape[shape.rank() - 1];
    param.name = name;
    param.shape = shape;
    param.view = {&kNowhere, shape.rank() > 1 ? dtype : DType::f32, shape.count() / cols, cols, cols, 1};
  });
  return Model(config, std::move(params), {});
}

DryPass::DryPass(ThreadPool& pool, std::vector<Segment> segments, std::vector<Segment> sources)
    : pass_{{pool, default_kernels(), arena_, nullptr, true}, std::move(segments)} {
  pass_.sources = std::move(sources);
}

void DryPass::run(const Model& model) {
  const auto rows_of = [](const std::vector<Segment>& segments) {
    return segments.empty() ? 0 : static_cast<std::size_t>(segments.back().first_row + segments.back().length);
  };
  const std::size_t n_rows = rows_of(pass_.segments), n_sources = rows_of(pass_.sources);
  const std::vector<std::int32_t> copied(pass_.is_taped() ? std::max(n_rows, n_sources) : 0);  // ids, by the tape
  const std::int32_t* const nowhere = reinterpret_cast<const std::int32_t*>(CountedMemory::kFirst);
  const std::int32_t* const ids = pass_.is_taped() ? copied.data() : nowhere;
  const Tokens tokens({ids, n_rows}, {}, {ids, n_sources});
  if (!pass_.is_taped()) return model.forward(pass_, tokens);
  LossRequest loss;
  const std::optional<TaskHead>& task = model.config().task;
  std::vector<float> gradients;
  if (model.config().has_head) loss.targets = tokens.ids;
  if (task) {
    const std::size_t n = task->pool == TaskHead::Pool::none ? n_rows : pass_.segments.size();
    gradients.resize(n * static_cast<std::size_t>(task->n_labels()));
    loss.output_gradients = gradients;
  }
  LossResult found;
  if (task || model.config().has_head) {
    pass_.training.loss = &loss;
    pass_.training.result = &found;
  } else {  // a model without a head learns by its rows
    pass_.receive_hidden = [this](const Tensor& rows) { pass_.grad(rows); };
  }
  model.forward_backward(pass_, tokens);
}

}  // namespace vitrine
