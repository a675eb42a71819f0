// Folders of circuit-tracer: config.yaml, and layer_N.safetensors of per-layer transcoders, or W_enc_N.safetensors and
// W_dec_N.safetensors of a cross-layer transcoder, whose features of layer N write to layers N, N + 1, …
// Source: decoderesearch/circuit-tracer 0.5, transcoder/single_layer_transcoder.py and cross_layer_transcoder.py.
#include <fmt/format.h>

#include "base/error.h"
#include "base/mapped_file.h"
#include "features/format.h"
#include "features/yaml_fields.h"

namespace vitrine {
namespace {

constexpr int kMaxLayers = 1000;

/// Keys that name a set, and where its files are on a hub.
constexpr std::string_view kCircuitTracerKeys[] = {"model_name", "scan",     "transcoders",
                                                   "repo_id",    "revision", "subfolder"};

struct Hooks {
  std::string input, output;
};

void set_hooks(const Hooks& hooks, int layer, ReadDictionary& read) {
  read.input = fmt::format("blocks.{}.{}", layer, hooks.input);
  read.output = fmt::format("blocks.{}.{}", layer, hooks.output);
}

void read_threshold(TensorTable& tensors, const std::string& name, Dictionary& d) {
  if (!tensors.has(name)) return;
  d.selection.kind = FeatureSelection::Kind::jump;
  d.selection.thresholds = tensors.values(name, d.d_sae());
}

std::string name_of_architecture(const Dictionary& d) {
  const bool jumps = d.selection.kind == FeatureSelection::Kind::jump;
  return std::string(jumps ? "jumprelu_" : "") + (d.skip.present() ? "skip_" : "") + "transcoder";
}

std::vector<ReadDictionary> read_layers(const DictionaryFolder& folder, const Hooks& hooks) {
  std::vector<ReadDictionary> all;
  for (int layer = 0; layer < kMaxLayers; ++layer) {
    const std::string file = fmt::format("layer_{}.safetensors", layer);
    if (!folder.has(file)) break;
    TensorTable tensors = TensorTable::open(folder.path(file));
    ReadDictionary& read = all.emplace_back();
    Dictionary& d = *read.dictionary;
    d.storage.push_back(tensors.storage());
    d.encoder = tensors.matrix("W_enc", Stored::by_rows);
    d.decoder = tensors.matrix("W_dec", Stored::by_rows, d.d_sae());
    d.encoder_bias = tensors.vector("b_enc", d.d_sae());
    d.decoder_bias = tensors.vector("b_dec", d.d_out());
    if (tensors.has("W_skip")) d.skip = tensors.matrix("W_skip", Stored::by_rows, d.d_out(), d.d_in());
    read_threshold(tensors, "activation_function.threshold", d);
    tensors.finish();
    d.architecture = name_of_architecture(d);
    d.scaling.is_undone = false;
    set_hooks(hooks, layer, read);
  }
  return all;
}

std::vector<ReadDictionary> read_cross_layer(const DictionaryFolder& folder, const Hooks& hooks) {
  int n_layers = 0;
  while (n_layers < kMaxLayers && folder.has(fmt::format("W_enc_{}.safetensors", n_layers))) ++n_layers;
  std::vector<ReadDictionary> all(static_cast<std::size_t>(n_layers));
  for (int layer = 0; layer < n_layers; ++layer) {
    TensorTable encoder = TensorTable::open(folder.path(fmt::format("W_enc_{}.safetensors", layer)));
    TensorTable decoder = TensorTable::open(folder.path(fmt::format("W_dec_{}.safetensors", layer)));
    const std::string name = fmt::format("W_dec_{}", layer);
    const auto own = static_cast<std::size_t>(layer);
    Dictionary& d = *all[own].dictionary;
    d.encoder = encoder.matrix(fmt::format("W_enc_{}", layer), Stored::by_rows);
    const std::int64_t d_out = decoder.size_of(name, 2, 3), n_parts = n_layers - layer;
    d.decoder = decoder.part(name, 0, n_parts, d.d_sae(), d_out);
    d.encoder_bias = encoder.vector(fmt::format("b_enc_{}", layer), d.d_sae());
    d.decoder_bias = encoder.vector(fmt::format("b_dec_{}", layer), d_out);
    const std::string skip = fmt::format("W_skip_{}", layer);
    if (encoder.has(skip)) d.skip = encoder.matrix(skip, Stored::transposed, d_out, d.d_in());
    read_threshold(encoder, fmt::format("threshold_{}", layer), d);
    for (int later = layer + 1; later < n_layers; ++later) {
      Dictionary& reader = *all[static_cast<std::size_t>(later)].dictionary;
      reader.earlier.push_back({&d, decoder.part(name, later - layer, n_parts, d.d_sae(), d_out)});
      reader.storage.push_back(decoder.storage());
    }
    encoder.finish();
    decoder.finish();
    d.storage.push_back(encoder.storage());
    d.storage.push_back(decoder.storage());
    d.architecture = "cross_layer_" + name_of_architecture(d);
    d.scaling.is_undone = false;
    set_hooks(hooks, layer, all[own]);
  }
  // A dictionary keeps the earlier ones that it reads, which keep nothing of it.
  for (std::size_t i = 1; i < all.size(); ++i) all[i].dictionary->storage.push_back(all[i - 1].dictionary);
  return all;
}

}  // namespace

std::vector<ReadDictionary> read_circuit_tracer(const DictionaryFolder& folder) {
  const std::string where = folder.path("config.yaml");
  const auto file = MappedFile::open(where);
  refuse_pickle(where, file->bytes());
  const Json object = yaml_fields(file->text_without_mark(), where);
  DictionaryConfig config(object, where);
  const std::string kind = config.required_text("model_kind");
  const Hooks hooks{config.required_text("feature_input_hook"), config.required_text("feature_output_hook")};
  config.finish(kCircuitTracerKeys);
  std::vector<ReadDictionary> all;
  if (kind == "transcoder_set") {
    all = read_layers(folder, hooks);
  } else if (kind == "cross_layer_transcoder") {
    all = read_cross_layer(folder, hooks);
  } else {
    throw Unsupported(where, "model_kind: expected transcoder_set or cross_layer_transcoder, got \"{}\"", kind);
  }
  if (all.empty()) throw BadCheckpoint(where, "the folder has no weights of layer 0");
  return all;
}

}  // namespace vitrine
