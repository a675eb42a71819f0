// Folders of sparsify: cfg.json and sae.safetensors; the folder's name is the module. The encoder subtracts b_dec
// unless it transcodes. Source: EleutherAI/sparsify, sparsify/sparse_coder.py and fused_encoder.py.
#include "base/error.h"
#include "base/text.h"
#include "features/format.h"

namespace vitrine {
namespace {

/// Keys that say how a dictionary was trained.
constexpr std::string_view kSparsifyKeys[] = {"normalize_decoder", "multi_topk"};

/// `layers.3` and `layers.3.mlp`; the embedding is `embed_tokens`.
void read_module(const std::string& module, bool transcodes, ReadDictionary& read) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = module.rfind(kLayers);
  if (module.ends_with("embed_tokens")) {
    read.input = read.output = "hook_embed";
  }
  if (at == module.npos) return;
  const std::string_view after = std::string_view(module).substr(at + kLayers.size());
  const std::size_t dot = std::min(after.find('.'), after.size());
  const auto layer = number_in<int>(after.substr(0, dot));
  if (!layer) return;
  const std::string block = "blocks." + std::to_string(*layer) + ".";
  const std::string_view part = after.substr(dot);
  if (part.empty() && !transcodes) read.input = read.output = block + "hook_resid_post";
  if (part != ".mlp") return;
  read.output = block + "hook_mlp_out";
  read.input = transcodes ? block + "ln2.hook_out" : read.output;
}

}  // namespace

std::vector<ReadDictionary> read_sparsify(const DictionaryFolder& folder) {
  const Json object = folder.json("cfg.json");
  DictionaryConfig config(object, folder.path("cfg.json"));
  TensorTable tensors = TensorTable::open(folder.path("sae.safetensors"));
  ReadDictionary read;
  Dictionary& d = *read.dictionary;
  d.storage.push_back(tensors.storage());
  d.encoder = tensors.matrix("encoder.weight", Stored::by_rows);
  d.encoder_bias = tensors.vector("encoder.bias", d.d_sae());
  d.decoder = tensors.matrix("W_dec", Stored::by_rows, d.d_sae());
  d.decoder_bias = tensors.vector("b_dec", d.d_out());
  const bool transcodes = config.flag("transcode").value_or(false);
  if (!transcodes) d.subtracted = tensors.vector("b_dec", d.d_in());
  const bool has_skip = config.flag("skip_connection").value_or(false);
  if (has_skip) d.skip = tensors.matrix("W_skip", Stored::by_rows, d.d_out(), d.d_in());
  d.skip_reads_centered = has_skip && !transcodes;
  tensors.finish();
  config.size("d_in");
  config.check_size("d_in", d.d_in());
  if (const auto n = config.whole<std::int64_t>("num_latents", 0); n && *n > 0) {
    config.check_size("num_latents", d.d_sae());  // which then replaces the factor
    config.ignore({"expansion_factor"});
  } else if (const auto factor = config.whole<std::int64_t>("expansion_factor", 1, 1 << 20)) {
    config.check_size("expansion_factor", d.d_sae() / d.d_in());
  }
  config.refuse_flag("signed");
  const std::string activation = config.text("activation").value_or("topk");
  d.selection.k = config.size("k");
  d.selection.kind = FeatureSelection::Kind::topk;
  if (activation == "groupmax") {
    d.selection.kind = FeatureSelection::Kind::group_max;
    if (d.d_sae() % d.selection.k != 0) {
      throw BadCheckpoint(config.where(), "k: expected a divisor of {}, got {}", d.d_sae(), d.selection.k);
    }
  } else if (activation != "topk") {
    throw Unsupported(config.where(), "activation: expected topk or groupmax, got \"{}\"", activation);
  }
  config.finish(kSparsifyKeys);
  d.architecture = !transcodes ? activation : has_skip ? "skip_transcoder" : "transcoder";
  d.scaling.is_undone = !transcodes;
  read_module(folder.real_path().filename().string(), transcodes, read);
  return {read};
}

}  // namespace vitrine
