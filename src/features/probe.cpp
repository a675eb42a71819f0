#include "features/probe.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "features/tensor_table.h"
#include "kernels/kernels.h"

namespace vitrine {
namespace {

constexpr std::string_view kSite = "site", kPool = "pool", kLabels = "labels";

bool is_label(const Json& label) { return label.is_number_integer() || label.is_string() || label.is_boolean(); }

/// Distinct labels of one type; as many as the probe has logits, or two.
std::vector<Json> labels_in(const std::string& text, const std::string& where, std::int64_t n_logits) {
  const Json list = parse_json(text, where + ", labels");
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_label)) {
    throw BadCheckpoint(where, "labels: expected a list of whole numbers, texts or truth values");
  }
  const std::vector<Json> labels(list.begin(), list.end());
  const auto expected = static_cast<std::size_t>(n_logits == 1 ? 2 : n_logits);
  if (labels.size() != expected) {
    throw BadCheckpoint(where, "labels: expected {}, as the weight has {} rows, got {}", expected, n_logits,
                        labels.size());
  }
  return labels;
}

void check_finite(const std::string& where, const Param& param) {
  const MatrixView& view = param.view;
  std::vector<float> row(static_cast<std::size_t>(view.cols));
  for (std::int64_t i = 0; i < view.rows; ++i) {
    default_kernels().widen(view.data + i * bytes_of(view.dtype, view.cols), view.dtype, view.cols, row.data());
    for (const float value : row) {
      if (!std::isfinite(value)) throw BadCheckpoint(where, "{}: expected finite numbers, got {}", param.name, value);
    }
  }
}

}  // namespace

std::string_view name_of(ProbePool pool) { return pool == ProbePool::last ? "last" : "mean"; }

ProbePool probe_pool_named(const std::string& where, std::string_view name) {
  if (name == "last") return ProbePool::last;
  if (name == "mean") return ProbePool::mean;
  throw BadInput(where, "expected last or mean, got \"{}\"", name);
}

ReadProbe read_probe(const std::string& path) {
  {
    const auto bytes = MappedFile::open(path);
    refuse_pickle(path, bytes->bytes());
  }
  const SafetensorsFile file = SafetensorsFile::open(path);
  TensorTable tensors(path, file.tensors(), file.file());
  ReadProbe read;
  Dictionary& probe = *read.probe;
  probe.architecture = "probe";
  probe.encoder = tensors.matrix("weight", Stored::by_rows);
  probe.encoder_bias = tensors.vector("bias", probe.encoder.shape[0]);
  tensors.finish();
  probe.storage.push_back(tensors.storage());
  check_finite(path, probe.encoder);
  check_finite(path, probe.encoder_bias);
  const auto metadata = [&](std::string_view name) {
    const auto at = file.metadata().find(std::string(name));
    return at != file.metadata().end() ? at->second : std::string();
  };
  read.facts.site = metadata(kSite);
  read.facts.pool = metadata(kPool);
  if (!read.facts.pool.empty()) probe_pool_named(path, read.facts.pool);
  const std::string labels = metadata(kLabels);
  if (!labels.empty()) read.facts.labels = labels_in(labels, path, probe.encoder.shape[0]);
  return read;
}

std::shared_ptr<const Dictionary> load_probe(const DictionaryText& text, const Model& model, ThreadPool& pool) {
  const ReadProbe read = read_probe(text.path);
  Dictionary& probe = *read.probe;
  probe.name = text.name.empty() ? std::filesystem::path(text.path).stem().string() : text.name;
  if (!is_dictionary_name(probe.name)) {
    throw BadInput(text.path, "\"{}\" is no name of a site: expected letters, digits, _ and -; give one as NAME={}",
                   probe.name, text.path);
  }
  const std::string& site = text.site.empty() ? read.facts.site : text.site;
  if (site.empty()) throw BadInput(text.path, "the file names no site; give it as {}@SITE", text.path);
  const DictionarySiteOf at = dictionary_sites(text.path, {site}, model, pool).front();
  if (at.width != probe.d_in()) {
    throw BadInput(text.path, "{}: expected weights of {} columns, the width of the site, got {}", site, at.width,
                   probe.d_in());
  }
  probe.input = probe.output = at.id;
  return read.probe;
}

void write_probe(const std::string& path, const ProbeFacts& facts, const std::vector<double>& weight,
                 const std::vector<double>& bias) {
  SafetensorsWriter writer(path, 4096 + header_bytes_for(2) + 2 * std::ssize(Json(facts.labels).dump()));
  writer.set_metadata(std::string(kSite), facts.site);
  writer.set_metadata(std::string(kPool), facts.pool);
  writer.set_metadata(std::string(kLabels), Json(facts.labels).dump());
  std::vector<float> w(weight.begin(), weight.end()), b(bias.begin(), bias.end());
  writer.add("weight", Tensor{w.data(), {std::ssize(b), std::ssize(w) / std::ssize(b)}});
  writer.add("bias", Tensor{b.data(), {std::ssize(b)}});
  writer.commit();
}

}  // namespace vitrine
