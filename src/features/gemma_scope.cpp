// Gemma Scope 1 (params.npz) and 2 (params.safetensors and config.json). JumpReLU; b_dec is not subtracted.
// Sources: Lieberum et al. 2024; the model cards of google/gemma-scope and google/gemma-scope-2;
// decoderesearch/SAELens, sae_lens/loading/pretrained_sae_loaders.py.
#include "base/error.h"
#include "base/text.h"
#include "features/format.h"
#include "features/site_names.h"

namespace vitrine {
namespace {

Dictionary& begin_jump_relu(ReadDictionary& read, TensorTable& tensors) {
  Dictionary& d = *read.dictionary;
  d.architecture = "jumprelu";
  d.storage.push_back(tensors.storage());
  d.encoder = tensors.matrix(tensors.one_of({"w_enc", "W_enc"}), Stored::transposed);
  d.decoder = tensors.matrix(tensors.one_of({"w_dec", "W_dec"}), Stored::by_rows, d.d_sae());
  d.encoder_bias = tensors.vector("b_enc", d.d_sae());
  d.decoder_bias = tensors.vector("b_dec", d.d_out());
  d.selection.kind = FeatureSelection::Kind::jump;
  d.selection.thresholds = tensors.values("threshold", d.d_sae());
  return d;
}

/// Keys of Gemma Scope 2 that describe a dictionary.
constexpr std::string_view kGemmaScopeKeys[] = {"model_name", "l0"};

struct Place {
  std::string_view word, input, output;
};
constexpr Place kPlaces[] = {
    {"res", "hook_resid_post", "hook_resid_post"},
    {"mlp", "hook_mlp_out", "hook_mlp_out"},
    {"att", "attn.hook_z", "attn.hook_z"},
    {"transcoder", "ln2.hook_normalized", "hook_mlp_out"},
    {"transcoders", "ln2.hook_normalized", "hook_mlp_out"},
};

/// Whether a folder's name has the word between other characters than letters: `gemma-scope-2b-pt-res`.
bool has_word(std::string_view name, std::string_view word) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (std::size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
    const std::size_t after = at + word.size();
    if ((at == 0 || !is_letter(name[at - 1])) && (after == name.size() || !is_letter(name[after]))) return true;
  }
  return false;
}

/// The sites that a path such as gemma-scope-2b-pt-res/layer_20/width_16k/average_l0_71 states.
void read_path(const std::filesystem::path& path, ReadDictionary& read) {
  std::vector<std::string> parts;
  for (const auto& part : path) parts.push_back(part.string());
  for (std::size_t i = parts.size(); i-- > 0;) {
    constexpr std::string_view kLayer = "layer_";
    if (!parts[i].starts_with(kLayer)) continue;
    const auto layer = number_in<int>(std::string_view(parts[i]).substr(kLayer.size()));
    for (std::size_t j = i; layer && j-- > 0;) {
      for (const Place& place : kPlaces) {
        if (!has_word(parts[j], place.word)) continue;
        const std::string block = "blocks." + std::to_string(*layer) + ".";
        read.input = block + std::string(place.input);
        read.output = block + std::string(place.output);
        return;
      }
    }
  }
}

}  // namespace

std::vector<ReadDictionary> read_gemma_scope_1(const DictionaryFolder& folder) {
  TensorTable tensors = TensorTable::open(folder.path("params.npz"));
  ReadDictionary read;
  Dictionary& d = begin_jump_relu(read, tensors);
  tensors.finish();
  read_path(folder.real_path(), read);
  if (read.input != read.output) {
    d.architecture = "jumprelu_transcoder";
    d.scaling.is_undone = false;
  }
  return {read};
}

std::vector<ReadDictionary> read_gemma_scope_2(const DictionaryFolder& folder) {
  const Json object = folder.json("config.json");
  DictionaryConfig config(object, folder.path("config.json"));
  const std::string architecture = config.required_text("architecture");
  if (architecture != "jump_relu") {
    throw Unsupported(config.where(), "the architecture \"{}\" is not known", architecture);
  }
  TensorTable tensors = TensorTable::open(folder.path("params.safetensors"));
  ReadDictionary read;
  Dictionary& d = begin_jump_relu(read, tensors);
  const bool has_skip = tensors.has("affine_skip_connection");
  if (config.flag("affine_connection").value_or(has_skip) != has_skip) {
    throw BadCheckpoint(tensors.where(), "affine_skip_connection: the config says {}", has_skip ? "none" : "one");
  }
  config.check_size("width", d.d_sae());
  const std::string type = config.text("type").value_or("sae");
  if (type != "sae" && type != "transcoder") {
    throw Unsupported(config.where(), "type: expected sae or transcoder, got \"{}\"", type);
  }
  if (has_skip) d.skip = tensors.matrix("affine_skip_connection", Stored::transposed, d.d_out(), d.d_in());
  tensors.finish();
  const auto site = [&](const char* key) {
    const auto module = config.text(key);
    if (!module) return std::string();
    const auto known = site_of_module(*module);
    if (!known) throw Unsupported(config.where(), "{}: the module \"{}\" is not known; give @SITE", key, *module);
    return *known;
  };
  read.input = site("hf_hook_point_in");
  read.output = site("hf_hook_point_out");
  if (read.output.empty()) read.output = read.input;
  config.finish(kGemmaScopeKeys);
  if (read.input != read.output) {
    d.architecture = has_skip ? "jumprelu_skip_transcoder" : "jumprelu_transcoder";
    d.scaling.is_undone = false;
  }
  return {read};
}

}  // namespace vitrine
