#include "checkpoint/gradients_file.h"

#include <algorithm>

#include "checkpoint/bind_tensors.h"
#include "checkpoint/hugging_face/writer.h"
#include "checkpoint/safetensors.h"

namespace vitrine {
namespace {

std::vector<const Param*> all_params(const Model& model) {
  std::vector<const Param*> params;
  for_each_param(model.config(), model.params(),
                 [&](const Param& param, const std::string&, const Shape&) { params.push_back(&param); });
  return params;
}

/// The form of the checkpoint's file; nothing for a model in training, which has none.
std::optional<StoredForm> form_of(const Checkpoint& checkpoint, const std::vector<const Param*>& params) {
  if (checkpoint.stored == nullptr) return std::nullopt;
  StoredForm as{checkpoint.prefix, {}};
  for (const Param* param : params) {
    if (is_constant(checkpoint.model->config(), param->name)) continue;
    as.names.insert(param->stored_name);
    const auto tensor = checkpoint.stored->all.find(param->stored_name);
    if (tensor == checkpoint.stored->all.end() || tensor->second.name.empty()) continue;
    as.names_in_file[param->stored_name] = tensor->second.name;
  }
  return as;
}

/// Elements of the gradients of `params`, which must outlive the result.
ParamValues values_of(const std::vector<const Param*>& params, const Gradients& gradients) {
  return [&](std::size_t i, std::int64_t row, std::int64_t first_col, std::span<float> out) {
    const Tensor gradient = gradients.of(*params[i]);
    if (gradient.data == nullptr) return std::fill(out.begin(), out.end(), 0.0f);
    const std::int64_t cols = gradient.shape[gradient.shape.rank() - 1];
    std::copy_n(gradient.data + row * cols + first_col, out.size(), out.begin());
  };
}

}  // namespace

void write_gradients(const std::string& path, const Checkpoint& checkpoint, const Gradients& gradients,
                     ThreadPool& pool, const ReportProgress& report) {
  const std::vector<const Param*> params = all_params(*checkpoint.model);
  if (checkpoint.table != nullptr) {
    write_hugging_face_tensors(path, *checkpoint.table, checkpoint.model->config(), DType::f32,
                               values_of(params, gradients), pool, report, form_of(checkpoint, params));
    return;
  }
  SafetensorsWriter writer(path, header_bytes_for(params.size()));
  for (const Param* param : params) writer.add(param->name, gradients.of(*param), report);
  writer.commit();
}

void write_gradients(TensorSink& sink, const Checkpoint& checkpoint, const Gradients& gradients, ThreadPool& pool) {
  const std::vector<const Param*> params = all_params(*checkpoint.model);
  if (checkpoint.table != nullptr) {
    return write_hugging_face_tensors(sink, *checkpoint.table, checkpoint.model->config(), DType::f32,
                                      values_of(params, gradients), pool, form_of(checkpoint, params));
  }
  for (const Param* param : params) {
    const Tensor gradient = gradients.of(*param);
    const auto sizes = gradient.shape.sizes();
    sink.begin(param->name, DType::f32, {sizes.begin(), sizes.end()});
    sink.append(std::as_bytes(gradient.values()));
  }
}

}  // namespace vitrine
