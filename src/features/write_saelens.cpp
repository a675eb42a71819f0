#include "features/write_saelens.h"

#include <span>
#include <vector>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace vitrine {
namespace {

using Kind = FeatureSelection::Kind;

/// The version whose format this is.
constexpr const char* kVersion = "6.54.12";

std::string architecture_of(const Dictionary& d, bool is_transcoder) {
  switch (d.selection.kind) {
    case Kind::relu:
      return is_transcoder ? "transcoder" : "standard";
    case Kind::jump:
      return is_transcoder ? "jumprelu_transcoder" : "jumprelu";
    case Kind::topk:
      return "topk";
    default:
      throw InternalError("write_saelens", "expected relu, jump or topk");
  }
}

std::string normalization_of(const InputScaling& scaling) {
  switch (scaling.kind) {
    case InputScaling::Kind::none:
      return "none";
    case InputScaling::Kind::layer_norm:
      return "layer_norm";
    case InputScaling::Kind::constant_norm:
      return "constant_norm_rescale";
    default:
      throw InternalError("write_saelens", "a factor belongs into the weights");
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json config_of(const Dictionary& d, const DictionaryOrigin& origin) {
  const bool is_transcoder = !origin.site_out.empty();
  Json config = {{"architecture", architecture_of(d, is_transcoder)},
                 {"d_in", d.d_in()},
                 {"d_sae", d.d_sae()},
                 {"dtype", "float32"},
                 {"device", "cpu"},
                 {"apply_b_dec_to_input", d.subtracted.present()},
                 {"normalize_activations", normalization_of(d.scaling)},
                 {"reshape_activations", origin.site.ends_with(".hook_z") ? "hook_z" : "none"}};
  if (d.selection.kind == Kind::topk) {
    config["k"] = d.selection.k;
    config["rescale_acts_by_decoder_norm"] = !d.selection.norms.empty();
  } else if (is_transcoder) {
    config["d_out"] = d.d_out();
  }
  config["metadata"] = {{"hook_name", text_or_null(origin.site)},
                        {"hook_name_out", text_or_null(origin.site_out)},
                        {"hook_head_index", nullptr},
                        {"model_name", text_or_null(origin.model)},
                        {"context_size", origin.context > 0 ? Json(origin.context) : Json()},
                        {"prepend_bos", false},
                        {"sae_lens_version", kVersion}};
  return config;
}

/// A float32 parameter by columns.
void add_transposed(SafetensorsWriter& file, const char* name, const Param& param) {
  const std::int64_t rows = param.shape[0], cols = param.shape[1];
  file.begin(name, DType::f32, {cols, rows});
  std::vector<float> line(static_cast<std::size_t>(rows));
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) {
      line[static_cast<std::size_t>(r)] = *reinterpret_cast<const float*>(param.view.at(r, c));
    }
    file.append(std::as_bytes(std::span(line)));
  }
}

void add(SafetensorsWriter& file, const char* name, const Param& param) {
  const std::span<const std::int64_t> sizes = param.shape.sizes();
  file.begin(name, DType::f32, {sizes.begin(), sizes.end()});
  file.append({param.view.data, static_cast<std::size_t>(param.shape.count()) * sizeof(float)});
}

}  // namespace

void write_saelens(const Dictionary& d, const DictionaryOrigin& origin, const std::string& folder) {
  write_file(folder + "/cfg.json", config_of(d, origin).dump(2) + "\n");
  SafetensorsWriter file(folder + "/sae_weights.safetensors", header_bytes_for(5));
  add_transposed(file, "W_enc", d.encoder);
  add(file, "b_enc", d.encoder_bias);
  add(file, "W_dec", d.decoder);
  add(file, "b_dec", d.decoder_bias);
  if (d.selection.kind == Kind::jump) {
    file.begin("threshold", DType::f32, {d.d_sae()});
    for (std::int64_t i = 0; i < d.d_sae(); ++i) {
      const float threshold =
          d.selection.thresholds[d.selection.thresholds.size() > 1 ? static_cast<std::size_t>(i) : 0];
      file.append(std::as_bytes(std::span(&threshold, 1)));
    }
  }
  file.commit();
}

}  // namespace vitrine
