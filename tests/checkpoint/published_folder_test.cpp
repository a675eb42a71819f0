// Folders as people publish them: without a head, with one that the config denies, in F64, of base classes.
#include "checkpoint/hostile_folder.h"
#include "checkpoint/hugging_face/config_json.h"

namespace vitrine::test {
namespace {

TEST(PublishedFolders, WithoutAHeadThereAreVectorsOnly) {
  const HostileFolder folder("llama_mha");
  folder.edit_json([](Json& config) { config["architectures"] = {"LlamaModel"}; });
  folder.edit_header([](Json& header) {
    header["model.rotary_emb.inv_freq"] = header["lm_head.weight"];  // a buffer, which is ignored
    header.erase("lm_head.weight");
  });
  EXPECT_FALSE(load_checkpoint(folder.path()).model->config().has_head);
}

TEST(PublishedFolders, AStoredHeadCountsWhateverTheConfigSays) {
  const HostileFolder folder("llama_mha");
  folder.edit_json([](Json& config) { config["tie_word_embeddings"] = true; });
  const Checkpoint checkpoint = load_checkpoint(folder.path());
  EXPECT_FALSE(checkpoint.model->config().head.tied);
  ASSERT_EQ(checkpoint.notes.size(), 1U);
  EXPECT_THAT(checkpoint.notes.front(), testing::HasSubstr("lm_head.weight differs from model.embed_tokens.weight"));
}

TEST(PublishedFolders, PositionsOfM2M100BeginAfterThePad) {
  Json config = {{"model_type", "m2m_100"},     {"d_model", 8},        {"vocab_size", 97},
                 {"encoder_layers", 1},         {"decoder_layers", 1}, {"encoder_attention_heads", 2},
                 {"decoder_attention_heads", 2}};
  const auto first = [&](const Json& pad) {
    config["pad_token_id"] = pad;
    const ModelConfig model = read_model_config(family_named("m2m_100"), config, "config.json");
    EXPECT_EQ(model.embedding.first_position, model.encoder->embedding.first_position);
    return model.embedding.first_position;
  };
  EXPECT_EQ(first(1), 2);
  EXPECT_EQ(first(0), 1);
  EXPECT_EQ(first(50), 51);
  EXPECT_EQ(first(nullptr), 2) << "the default is 1";
}

TEST(PublishedFolders, KeysOfGenerationAreReadOrNamed) {
  const HostileFolder folder("llama_mha");
  const auto search = [&](const char* json, const LoadOptions& options = {}) {
    folder.write(json, "generation_config.json");
    return load_checkpoint(folder.path(), options).search;
  };
  const SearchDefaults read = search(
      R"({"begin_suppress_tokens": [3], "sequence_bias": [[[1, 2], 1.5], [[1, 2], 2], [[1000000], 1]],
          "exponential_decay_length_penalty": [2, 1.5], "stop_strings": "x", "bad_words_ids": [[4, 1000000]],
          "encoder_repetition_penalty": 1.25, "guidance_scale": 1, "num_beam_groups": 1, "penalty_alpha": 0,
          "watermarking_config": null, "token_healing": false, "somebody": {"key": 1}})");
  EXPECT_THAT(read.suppressed_first, testing::ElementsAre(3));
  EXPECT_THAT(read.sequence_bias, testing::ElementsAre(std::pair(std::vector<std::int32_t>{1, 2}, 2.0F)));
  EXPECT_EQ(read.stop_growth, (std::pair<std::int64_t, double>(2, 1.5)));
  EXPECT_THAT(read.stop_strings, testing::ElementsAre("x"));
  EXPECT_TRUE(read.bad_words.empty()) << "a word that cannot occur";
  EXPECT_EQ(read.source_penalty, 1.25);
  EXPECT_EQ(read.refused, "");
  for (const char* key : {"guidance_scale", "num_beam_groups", "penalty_alpha", "diversity_penalty"}) {
    const std::string json = Json{{key, 2}}.dump();
    EXPECT_EQ(search(json.c_str()).refused, key);
    EXPECT_EQ(search(json.c_str(), {.allowed_config_keys = {key}}).refused, "");
  }
}

}  // namespace
}  // namespace vitrine::test
