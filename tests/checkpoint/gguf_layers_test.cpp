// The config of a model in GGUF: layers with a window, offsets of norms.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "base/temp_folder.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf_support.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/presets.h"
#include "model/norms.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

/// The published sizes of a model whose windows are in three of four layers: GGUF has a flag for each layer.
TEST(GgufConfig, LayersWithAWindowAreFlags) {
  const Json json = preset_or_config("olmo-3-7b");
  const ModelConfig config = read_model_config(family_of(json, "test"), json, "test");
  const GgufArchitecture& architecture = gguf_architecture_of("olmo3", "test");
  GgufKeys keys = gguf_config_keys(architecture, config);
  keys.add("general.architecture", "olmo2");
  const TempFolder folder;
  GgufWriter writer(folder / "model.gguf");
  for (const char* tensor : {"token_embd.weight", "output.weight"}) {
    writer.add_tensor(tensor, {config.vocab_size, config.d_model}, 0, 4 * config.vocab_size * config.d_model);
  }
  const std::string header = writer.header(keys);
  EXPECT_NO_THROW(check_round_trip(architecture, header, {}, config, "test"));
  const GgufMetadata metadata = GgufMetadata::parse(std::as_bytes(std::span(header)), "test");
  const auto flags = metadata.booleans("olmo2.attention.sliding_window_pattern");
  ASSERT_TRUE(flags.has_value());
  for (std::size_t layer = 0; layer < 32; ++layer) EXPECT_EQ((*flags)[layer], layer % 4 != 3) << layer;
  EXPECT_EQ(&gguf_architecture(metadata), &architecture);
}

TEST(GgufConfig, FoldsTheWeightOffsetsOfAllNorms) {
  ModelConfig config = golden_checkpoint("gemma3").model->config();
  EXPECT_EQ(find<AttentionConfig>(config.blocks[0])->qk_norm->norm.weight_offset, 1);
  fold_weight_offsets(config);
  for (const auto& [name, norm] : norms_of(config)) EXPECT_EQ(norm.weight_offset, 0) << name;
}

/// What llama.cpp would compute otherwise is refused, though the file has it.
TEST(GgufConfig, SharedKeysAreThoseThatLlamaCppAssumes) {
  const GgufArchitecture& architecture = gguf_architecture_of("gemma4_text", "test");
  ModelConfig config = golden_checkpoint("gemma4").model->config();
  EXPECT_EQ(architecture.misread(config), "");
  find<AttentionConfig>(config.blocks[4])->kv_layer = 0;
  EXPECT_EQ(architecture.misread(config), "the layers whose keys and values others read");
}

/// Of a model with the sizes that llama.cpp's source has as constants, the file is the same model; the table of
/// per-layer embeddings has a row for every token.
TEST(Gguf, SeveralStreamsWithLlamaCppsConstants) {
  Json config = preset_or_config("gemma-3n-e4b");
  config.update({{"hidden_size", 24},
                 {"num_hidden_layers", 22},
                 {"num_kv_shared_layers", 2},
                 {"num_attention_heads", 2},
                 {"num_key_value_heads", 1},
                 {"head_dim", 8},
                 {"intermediate_size", 40},
                 {"vocab_size", 41},
                 {"vocab_size_per_layer_input", 37},
                 {"sliding_window", 6},
                 {"max_position_embeddings", 64}});
  const TempFolder folder;
  ThreadPool pool(2);
  init_checkpoint(config, "config", folder / "model", DType::f32, 7, pool);
  const Checkpoint original = load_checkpoint(folder / "model");
  const std::string path = folder / "model.gguf";
  const Checkpoint gguf = through_gguf(original, DType::f32, path);
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < 41; ++id) ids.push_back((id * 7 + 3) % 41);
  EXPECT_TRUE(same_bits(logits_of(*gguf.model, ids), logits_of(*original.model, ids)));
  // llama.cpp expects unread maps to keys and values in layers that read those of others
  const auto file = MappedFile::open(path);
  const GgufContents contents = GgufMetadata::parse(file->bytes(), path).contents();
  const auto count_of = [&](const std::string& ending) {
    const auto& tensors = contents.tensors;
    return std::count_if(tensors.begin(), tensors.end(), [&](const GgufTensor& t) { return t.name.ends_with(ending); });
  };
  for (const char* name : {".attn_k.weight", ".attn_v.weight", ".attn_k_norm.weight"}) EXPECT_EQ(count_of(name), 22);
  const GgufArchitecture& architecture = gguf_architecture_of("gemma3n_text", "test");
  EXPECT_EQ(architecture.misread(original.model->config()), "");
  const auto misread = [&](auto change) {
    ModelConfig other = original.model->config();
    change(other);
    return std::string(architecture.misread(other));
  };
  EXPECT_EQ(misread([](ModelConfig& c) { c.altup->active = 1; }), "the number of streams, or the active one");
  EXPECT_EQ(misread([](ModelConfig& c) { c.altup->scaled = false; }), "the lack of a scale of the corrected stream");
  EXPECT_EQ(misread([](ModelConfig& c) { find<LaurelConfig>(c.blocks[3])->rank = 63; }), "the rank of LAuReL");
  EXPECT_EQ(misread([](ModelConfig& c) { find<DenseConfig>(c.blocks[10])->gate_cutoff = 1.0f; }),
            "the sparsity of the gates");
  EXPECT_EQ(misread([](ModelConfig& c) { find<AttentionConfig>(c.blocks[21])->kv_layer = 2; }),
            "the layers whose keys and values others read");
}

TEST(Gguf, WeightsThatTheTypeCannotHoldAreRefused) {
  const HostileFolder source("llama_mha");
  const float large = 70000.0F;
  source.poke("model.layers.1.mlp.up_proj.weight", 8, {reinterpret_cast<const char*>(&large), sizeof large});
  const TempFolder folder;
  const std::string path = folder / "model.gguf";
  const Checkpoint original = load_checkpoint(source.path());
  const std::string message = message_of<BadInput>([&] { through_gguf(original, DType::f16, path); });
  expect_all_in(message, {path, "blk.1.ffn_up.weight", "f16"});
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(message_of<Error>([&] { through_gguf(original, DType::bf16, path); }), "");
}

TEST(GgufConfig, WithoutWindowsTheContextEndsWhereTheyWouldBegin) {
  for (const char* golden : {"mistral", "mixtral", "qwen2_window", "starcoder2"}) {
    SCOPED_TRACE(golden);
    const TempFolder temp;
    const Checkpoint original = load_checkpoint(goldens() + "/" + golden);
    std::int64_t smallest = original.model->config().max_seq_len;
    for (std::size_t i = 0; i < original.model->config().n_layers(); ++i) {
      const AttentionConfig* const attention = attention_of(original.model->config(), i);
      if (attention->window) smallest = std::min(smallest, *attention->window);
    }
    ASSERT_LT(smallest, original.model->config().max_seq_len);
    const Checkpoint written = through_gguf(original, DType::f32, temp / "x.gguf");
    EXPECT_EQ(written.model->config().max_seq_len, smallest);
    EXPECT_FALSE(attention_of(written.model->config(), 0)->window);
  }
}

}  // namespace
}  // namespace vitrine::test
