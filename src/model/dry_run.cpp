#include "model/dry_run.h"

namespace vitrine {

Model shape_model(const ModelConfig& config, DType dtype) {
  static const std::byte kNowhere{};
  ModelParams params = empty_params(config);
  for_each_param(config, params, [&](Param& param, const std::string& name, const Shape& shape) {
    const std::int64_t cols = shape[shape.rank() - 1];
    param.name = name;
    param.shape = shape;
    param.view = {&kNowhere, shape.rank() > 1 ? dtype : DType::f32, shape.count() / cols, cols, cols, 1};
  });
  return Model(config, std::move(params), {});
}

DryPass::DryPass(ThreadPool& pool, std::vector<Segment> segments)
    : pass_{{pool, default_kernels(), arena_, nullptr, true}, std::move(segments)} {}

void DryPass::run(const Model& model) {
  const Segment& last = pass_.segments.back();
  const auto n_rows = static_cast<std::size_t>(last.first_row + last.length);
  const std::vector<std::int32_t> targets(pass_.is_taped() ? n_rows : 0);  // backward closures copy ids
  const std::int32_t* const nowhere = reinterpret_cast<const std::int32_t*>(CountedMemory::kFirst);
  const std::span<const std::int32_t> ids(pass_.is_taped() ? targets.data() : nowhere, n_rows);
  if (!pass_.is_taped()) return model.forward(pass_, ids);
  LossRequest loss{.targets = ids, .weights = {}};
  LossResult found;
  pass_.training.loss = &loss;
  pass_.training.result = &found;
  model.learn(pass_, ids);
}

}  // namespace vitrine
