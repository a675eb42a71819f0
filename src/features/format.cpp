#include "features/format.h"

#include <cmath>

#include "base/error.h"
#include "base/mapped_file.h"
#include "kernels/kernels.h"

namespace vitrine {

bool DictionaryFolder::has(const std::string& file) const {
  std::error_code error;
  return std::filesystem::is_regular_file(folder_ / file, error);
}

std::filesystem::path DictionaryFolder::real_path() const {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(folder_, error);
  return error ? folder_ : real;
}

Json DictionaryFolder::json(const std::string& file) const {
  const auto text = MappedFile::open(path(file));
  refuse_pickle(path(file), text->bytes());
  Json object = parse_json(text->text_without_mark(), path(file));
  if (!object.is_object()) throw BadCheckpoint(path(file), "expected a JSON object");
  return object;
}

namespace {

constexpr const char* kUnknownKey = "a key that is not known, and may change the values";

}  // namespace

DictionaryConfig::DictionaryConfig(const Json& object, std::string where)
    : ObjectFields(object, kUnknownKey), object_(object), where_(std::move(where)) {}

std::int64_t DictionaryConfig::size(std::string_view name) {
  const auto number = whole<std::int64_t>(name, 1, std::int64_t{1} << 40);
  if (!number) throw BadCheckpoint(where_, "{} is missing", name);
  return *number;
}

std::string DictionaryConfig::required_text(std::string_view name) {
  auto value = text(name);
  if (!value) throw BadCheckpoint(where_, "{} is missing", name);
  return *std::move(value);
}

void DictionaryConfig::check_size(std::string_view name, std::int64_t size) {
  const auto stated = whole<std::int64_t>(name, 1);
  if (!stated || *stated == size) return;
  throw BadCheckpoint(where_, "{}: the weights have {}, the config says {}", name, size, *stated);
}

void DictionaryConfig::refuse_flag(std::string_view name) {
  if (flag(name).value_or(false)) throw Unsupported(where_, "{}: it is not read, expected false", name);
}

void DictionaryConfig::finish(std::span<const std::string_view> harmless) {
  for (const std::string_view name : harmless) ignore({name});
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null()) ignore({name});
  }
  ObjectFields::finish();
}

std::exception_ptr DictionaryConfig::error_of(std::string_view name, const std::string& message) const {
  return std::make_exception_ptr(BadCheckpoint(where_, "{}: {}", name, message));
}

std::span<const DictionaryFormat> dictionary_formats() {
  static const std::vector<DictionaryFormat> formats = {
      {"SAELens", {"cfg.json", "sae_weights.safetensors"}, read_saelens},
      {"sparsify", {"cfg.json", "sae.safetensors"}, read_sparsify},
      {"circuit-tracer", {"config.yaml"}, read_circuit_tracer},
      {"Gemma Scope 2", {"config.json", "params.safetensors"}, read_gemma_scope_2},
      {"Gemma Scope", {"params.npz"}, read_gemma_scope_1},
      {"Llama Scope", {"hyperparams.json", "checkpoints/final.safetensors"}, read_llama_scope},
      {"dictionary_learning", {"config.json", "ae.safetensors"}, read_dictionary_learning},
  };
  return formats;
}

std::vector<float> norms_of(const Param& decoder, const std::string& where) {
  const MatrixView& w = decoder.view;
  const Kernels& kernels = default_kernels();
  std::vector<double> squares(static_cast<std::size_t>(w.rows));
  const bool by_rows = w.col_stride == 1;
  const std::int64_t n = by_rows ? w.rows : w.cols, width = by_rows ? w.cols : w.rows;
  std::vector<float> line(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < n; ++i) {  // line by line as they are stored
    kernels.widen(by_rows ? w.at(i, 0) : w.at(0, i), w.dtype, width, line.data());
    for (std::int64_t j = 0; j < width; ++j) {
      const double value = line[static_cast<std::size_t>(j)];
      squares[static_cast<std::size_t>(by_rows ? i : j)] += value * value;
    }
  }
  std::vector<float> norms;
  for (const double square : squares) {
    norms.push_back(static_cast<float>(std::sqrt(square)));
    if (!(norms.back() > 0) || !std::isfinite(norms.back())) {
      throw BadCheckpoint(where, "{}: row {} has the norm {}", decoder.stored_name, norms.size() - 1, norms.back());
    }
  }
  return norms;
}

std::vector<float> inverse(std::vector<float> values) {
  for (float& value : values) value = 1 / value;
  return values;
}

}  // namespace vitrine
