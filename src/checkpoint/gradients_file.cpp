#include "checkpoint/gradients_file.h"

#include <algorithm>

#include "checkpoint/hugging_face_writer.h"
#include "checkpoint/safetensors.h"

namespace vitrine {

void write_gradients(const std::string& path, const Checkpoint& checkpoint, const Gradients& gradients,
                     ThreadPool& pool, const ReportProgress& report) {
  const Model& model = *checkpoint.model;
  std::vector<const Param*> params;
  for_each_param(model.config(), model.params(),
                 [&](const Param& param, const std::string&, const Shape&) { params.push_back(&param); });
  const auto values = [&](std::size_t i, std::int64_t row, std::int64_t first_col, std::span<float> out) {
    const Tensor gradient = gradients.of(*params[i]);
    if (gradient.data == nullptr) return std::fill(out.begin(), out.end(), 0.0f);
    const std::int64_t cols = gradient.shape[gradient.shape.rank() - 1];
    std::copy_n(gradient.data + row * cols + first_col, out.size(), out.begin());
  };
  if (checkpoint.table != nullptr) {
    StoredForm as{checkpoint.prefix, {}};
    for (const Param* param : params) {
      if (!is_constant(model.config(), param->name)) as.names.insert(param->stored_name);
    }
    write_hugging_face_tensors(path, *checkpoint.table, model.config(), DType::f32, values, pool, report, as);
    return;
  }
  SafetensorsWriter writer(path, header_bytes_for(params.size()));
  for (const Param* param : params) writer.add(param->name, gradients.of(*param), report);
  writer.commit();
}

}  // namespace vitrine
