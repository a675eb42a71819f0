#include "checkpoint/adapters/control.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/gguf_writer.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "checkpoint/gguf/file.h"

namespace vitrine {
namespace {

constexpr std::string_view kArchitecture = "controlvector", kDirection = "direction.";
constexpr std::uint32_t kGgmlF32 = 0;

/// N of `direction.N`, as it is written without leading zeros.
int layer_of(const std::string& path, const std::string& name, const ModelConfig& config) {
  const std::string_view digits = std::string_view(name).substr(std::min(name.size(), kDirection.size()));
  const auto layer = number_in<int>(digits);
  if (!name.starts_with(kDirection) || !layer || std::to_string(*layer) != digits || *layer < 1) {
    throw BadCheckpoint(path, "tensor {}: expected direction.N with N of at least 1", name);
  }
  if (*layer >= static_cast<int>(config.n_layers())) {
    throw BadCheckpoint(path, "tensor {}: the last block of the model is {}", name, config.n_layers() - 1);
  }
  return *layer;
}

std::vector<float> direction_of(const std::string& path, const std::string& name, const StoredTensor& tensor,
                                std::int64_t width) {
  if (tensor.type != DType::f32 || tensor.shape != std::vector{width}) {
    throw BadCheckpoint(path, "tensor {}: expected F32 [{}], got {} [{}]", name, width, tensor.dtype,
                        fmt::join(tensor.shape, ", "));
  }
  std::vector<float> direction(static_cast<std::size_t>(width));
  std::memcpy(direction.data(), tensor.bytes.data(), direction.size() * sizeof(float));
  for (std::size_t i = 0; i < direction.size(); ++i) {
    if (!std::isfinite(direction[i])) throw BadCheckpoint(path, "tensor {}: element {} is {}", name, i, direction[i]);
  }
  return direction;
}

}  // namespace

void require_one_stream(const ModelConfig& config, const std::string& where) {
  if (config.encoder) throw Unsupported(where, "control vectors are for models with one stack, got an encoder–decoder");
  if (config.altup) throw Unsupported(where, "control vectors are for models with one residual stream, got AltUp's");
}

std::shared_ptr<const ControlVector> load_control(const std::string& path, const ModelConfig& config) {
  const auto mapped = MappedFile::open(path);
  if (!mapped->text().starts_with("GGUF")) throw BadInput(path, "expected a control vector: a GGUF file");
  const GgufModelFile file = open_gguf(mapped);
  const std::string_view architecture = file.metadata.string("general.architecture").value_or("");
  if (architecture != kArchitecture) {
    throw BadInput(path, "expected a control vector (general.architecture \"{}\"), got \"{}\"", kArchitecture,
                   architecture);
  }
  require_one_stream(config, path);
  auto control = std::make_shared<ControlVector>();
  control->model_hint = file.metadata.string("controlvector.model_hint").value_or("");
  for (const auto& [name, tensor] : file.tensors.all) {
    const int layer = layer_of(path, name, config);
    const std::int64_t width = config.width_before(static_cast<std::size_t>(layer) + 1);
    control->directions.emplace(layer, direction_of(path, name, tensor, width));
  }
  if (control->directions.empty()) throw BadCheckpoint(path, "expected at least one tensor direction.N, got none");
  return control;
}

void write_control(const std::string& path, const ControlVector& control, const ModelConfig& config) {
  GgufKeys keys;
  keys.add("general.architecture", kArchitecture);
  keys.add("controlvector.model_hint", control.model_hint);
  keys.add("controlvector.layer_count", static_cast<std::uint32_t>(config.n_layers() - 1));
  GgufWriter writer(path);
  for (const auto& [layer, direction] : control.directions) {
    writer.add_tensor(fmt::format("{}{}", kDirection, layer), {std::ssize(direction)}, kGgmlF32,
                      std::ssize(direction) * static_cast<std::int64_t>(sizeof(float)));
  }
  writer.begin(keys);
  for (const auto& [layer, direction] : control.directions) writer.append(std::as_bytes(std::span(direction)));
  writer.commit();
}

}  // namespace vitrine
