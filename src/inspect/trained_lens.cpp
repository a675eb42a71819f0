#include "inspect/trained_lens.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/exchanged.h"
#include "features/tensor_table.h"
#include "kernels/widen_row.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

constexpr const char* kFileName = "lens.safetensors";

/// Throws BadCheckpoint for a value that is infinite or NaN.
void check_values(const std::string& where, const Param& param) {
  const Kernels& kernels = default_kernels();
  std::vector<float> row(static_cast<std::size_t>(param.view.cols));
  for (std::int64_t r = 0; r < param.view.rows; ++r) {
    widen_row(kernels, param.view, r, param.view.cols, row.data());
    if (kernels.all_finite(row.data(), param.view.cols)) continue;
    throw BadCheckpoint(where, "{}: expected finite numbers, row {} has a value that is infinite or NaN", param.name,
                        r);
  }
}

void write_param(SafetensorsWriter& file, const std::string& name, const Param& param) {
  const std::span<const std::int64_t> sizes = param.shape.sizes();
  file.begin(name, DType::f32, {sizes.begin(), sizes.end()});
  file.append({param.view.data, static_cast<std::size_t>(param.shape.count()) * sizeof(float)});
}

}  // namespace

std::string name_of(LensKind kind) { return kind == LensKind::tuned ? "tuned" : "jacobian"; }

MappedStates mapped_states(LensKind kind, const StackConfig& config) {
  const auto n_layers = static_cast<std::int64_t>(config.n_layers());
  if (kind == LensKind::tuned) return {0, n_layers};
  if (n_layers < 2) throw Unsupported("lens", "the model has one layer, so a Jacobian lens has no layer to map");
  return {1, n_layers - 1};
}

TrainedLens read_trained_lens(const std::string& given, LensKind kind, const StackConfig& config) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(given, error);
  const std::string path = is_folder ? given + "/" + kFileName : given;
  refuse_pickle(path, MappedFile::open(path)->bytes());
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto said = file.metadata().find("kind");
  if (said != file.metadata().end() && said->second != name_of(kind)) {
    throw BadInput(path, "expected a {} lens, got one of the kind {}", name_of(kind), said->second);
  }
  TensorTable tensors(path, file.tensors(), file.file());
  TrainedLens lens{kind, {}, file.file()};
  const bool is_tuned = kind == LensKind::tuned;
  const bool has_names_of_tuned_lens = is_tuned && tensors.has("0.weight");
  const std::int64_t width = config.width_before(config.n_layers()), n_maps = mapped_states(kind, config).n_maps;
  for (std::int64_t layer = 0; layer < n_maps; ++layer) {
    const std::string own = has_names_of_tuned_lens ? fmt::format("{}", layer) : fmt::format("layers.{}", layer);
    const std::string weight = has_names_of_tuned_lens ? own + ".weight" : own, bias = own + ".bias";
    if (!tensors.has(weight)) {
      throw BadCheckpoint(path, "the tensor {} is missing: expected one for each of {} layers", weight, n_maps);
    }
    LinearParams& map = lens.layers.emplace_back();
    map.weight = tensors.matrix(weight, Stored::by_rows, width, width);
    if (is_tuned && tensors.has(bias)) map.bias = tensors.vector(bias, width);
    for (const Param* param : {&map.weight, &map.bias}) {
      if (param->present()) check_values(path, *param);
    }
  }
  tensors.finish();
  return lens;
}

void write_trained_lens(const std::string& folder, LensKind kind, std::span<const LinearParams> layers) {
  SafetensorsWriter file(folder + kFileName, header_bytes_for(2 * layers.size()));
  file.set_metadata("kind", name_of(kind));
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::string name = fmt::format("layers.{}", layer);
    write_param(file, name, layers[layer].weight);
    if (layers[layer].bias.present()) write_param(file, name + ".bias", layers[layer].bias);
  }
  file.commit();
}

Tensor map_states(Pass& p, LensKind kind, const LinearParams& map, const Tensor& states) {
  const Exchanged<Compute> in_floats(p.compute, Compute::f32);
  const Tensor mapped = linear_part(p, map, states, 0);  // adapters are the model's
  return kind == LensKind::tuned ? add(p, states, mapped) : mapped;
}

}  // namespace vitrine
