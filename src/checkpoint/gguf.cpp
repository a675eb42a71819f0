// Models in GGUF files. Source: ggml-org/ggml, docs/gguf.md.
#include "base/error.h"
#include "checkpoint/formats.h"
#include "checkpoint/gguf_architecture.h"
#include "checkpoint/gguf_file.h"

namespace vitrine {
namespace {

/// BOS and the ids that end a text, where the vocabulary has them.
void read_special_ids(const GgufMetadata& metadata, Checkpoint& checkpoint) {
  const std::int64_t vocab_size = checkpoint.model->config().vocab_size;
  const auto id_of = [&](std::string_view key) -> std::optional<std::int32_t> {
    const auto id = metadata.integer(key);
    if (!id || *id < 0 || *id >= vocab_size) return std::nullopt;
    return static_cast<std::int32_t>(*id);
  };
  checkpoint.bos_id = id_of("tokenizer.ggml.bos_token_id");
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = id_of(key)) checkpoint.stop_ids.push_back(*id);
  }
}

/// Makes the gates of shared experts matrices of one row.
void reshape_gates(StoredTensors& tensors) {
  for (auto& [name, tensor] : tensors.all) {
    if (name.ends_with(kSharedGateName) && tensor.shape.size() == 1) tensor.shape.insert(tensor.shape.begin(), 1);
  }
}

}  // namespace

Checkpoint load_gguf(const std::shared_ptr<const MappedFile>& file, const LoadOptions& options) {
  GgufModelFile gguf = open_gguf(file);
  const GgufMetadata& metadata = gguf.metadata;
  const std::string_view kind = metadata.string("general.type").value_or("model");
  if (kind != "model") throw Unsupported(file->path(), "general.type: expected \"model\", got \"{}\"", kind);
  const GgufArchitecture& architecture = gguf_architecture(metadata);

  ModelConfig config = read_gguf_config(architecture, metadata, gguf.tensors, options);
  reshape_gates(gguf.tensors);
  ModelParams params;
  const auto table = std::make_shared<const Family>(gguf_family(architecture));
  const std::string prefix = bind_tensors(*table, config, gguf.tensors, params);

  Checkpoint result;
  result.table = table;
  result.prefix = prefix;
  result.model = std::make_shared<const Model>(std::move(config), std::move(params), gguf.tensors.storage);
  result.description = std::string(architecture.family) + ", GGUF";
  result.family = architecture.family;
  result.tokenizer_path = file->path();
  read_special_ids(metadata, result);
  return result;
}

}  // namespace vitrine
