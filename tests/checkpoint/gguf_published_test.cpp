// GGUF files with keys and tensors that older converters of llama.cpp wrote and vitrine does not write.
#include <gmock/gmock.h>

#include <functional>

#include "checkpoint/gguf_support.h"
#include "checkpoint/hostile_folder.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

/// A golden with changed keys of its config.
Checkpoint changed(const HostileFolder& folder, const Json& words) {
  folder.edit_json([&](Json& config) { config.update(words); });
  return load_checkpoint(folder.path());
}

std::vector<float> logits_of_forty(const Model& model) {
  return logits_of(model, some_ids(model, std::min<std::int64_t>(40, model.config().max_seq_len)));
}

void expect_same(const Checkpoint& ours, const Checkpoint& reference) {
  EXPECT_TRUE(same_bits(logits_of_forty(*ours.model), logits_of_forty(*reference.model)));
}

/// Phi 4 has no window, which its files express as a window of 0.
TEST(PublishedGguf, AWindowOfZeroMeansNone) {
  const TempFolder temp;
  const HostileFolder folder("phi3_short");
  const Checkpoint original = changed(folder, {{"rope_scaling", nullptr}, {"sliding_window", nullptr}});
  Published file(original, temp / "model.gguf");
  EXPECT_FALSE(file.keys.contains("phi3.attention.sliding_window"));
  file.set("phi3.attention.sliding_window", 0U);
  expect_same(file.load(temp / "zero.gguf"), original);
}

/// Derivatives of Gemma 3 without windows have no window keys.
TEST(PublishedGguf, Gemma3WithoutWindows) {
  const TempFolder temp;
  const HostileFolder folder("gemma3"), flat_folder("gemma3");
  const Checkpoint windows = changed(folder, {{"query_pre_attn_scalar", 8}});
  const auto n_layers = static_cast<std::size_t>(windows.model->config().n_layers());
  const Checkpoint flat = changed(flat_folder, {{"query_pre_attn_scalar", 8},
                                                {"layer_types", std::vector<std::string>(n_layers, "full_attention")}});
  Published file(windows, temp / "model.gguf");
  ASSERT_EQ(file.keys.erase("gemma3.attention.sliding_window"), 1U);
  const Checkpoint read = file.load(temp / "none.gguf");
  expect_same(read, flat);
  EXPECT_FALSE(same_bits(logits_of_forty(*read.model), logits_of_forty(*windows.model)));
  file.set("gemma3.attention.sliding_window", 0U);
  expect_same(file.load(temp / "zero.gguf"), flat);
  expect_same(through_gguf(flat, DType::f32, temp / "flat.gguf"), flat);
}

/// In Granite's files a flag of the scaling says whether there is RoPE.
TEST(PublishedGguf, GraniteWithoutRope) {
  const TempFolder temp;
  const Checkpoint original = golden_checkpoint("granite");
  Published file(original, temp / "model.gguf");
  file.set("granite.rope.scaling.finetuned", true);
  const Checkpoint with_rope = file.load(temp / "true.gguf");
  expect_same(with_rope, load_checkpoint(temp / "model.gguf"));
  file.set("granite.rope.scaling.finetuned", false);
  const Checkpoint read = file.load(temp / "false.gguf");
  for (const BlockConfig& block : read.model->config().blocks) EXPECT_FALSE(find<AttentionConfig>(block)->rope);
  const std::vector<std::int32_t> ids = some_ids(*read.model, 9), first = {ids.front()};
  EXPECT_FALSE(same_bits(logits_of(*read.model, ids), logits_of(*with_rope.model, ids)));
  EXPECT_TRUE(same_bits(logits_of(*read.model, first), logits_of(*with_rope.model, first)))
      << "position 0 has no rotation";
  expect_same(through_gguf(read, DType::f32, temp / "again.gguf"), read);
}

TEST(PublishedGguf, KeysWithoutEffect) {
  const TempFolder temp;
  Published file(golden_checkpoint("granite"), temp / "model.gguf");
  for (const char* key : {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.inner_size",
                          "ssm.time_step_rank", "expert_shared_feed_forward_length"}) {
    file.set("granite." + std::string(key), 64U);
  }
  file.set("granite.pooling_type", 0U);
  file.set("granite.expert_count", 0U);
  file.set("granite.expert_used_count", 0U);
  expect_same(file.load(temp / "more.gguf"), load_checkpoint(temp / "model.gguf"));

  Published llama(golden_checkpoint("llama_mha"), temp / "llama.gguf");
  llama.set("llama.ssm.conv_kernel", 64U);
  expect_all_in(message_of<Unsupported>([&] { llama.load(temp / "other.gguf"); }), {"llama.ssm.conv_kernel"});
}

TEST(PublishedGguf, SpecialIdsBeyondTheVocabularyAreNotedAndIgnored) {
  const TempFolder temp;
  Published file(golden_checkpoint("llama_mha"), temp / "model.gguf");
  const auto n = static_cast<std::uint32_t>(golden_checkpoint("llama_mha").model->config().vocab_size);
  file.set("tokenizer.ggml.bos_token_id", n);
  file.set("tokenizer.ggml.eos_token_id", 3U);
  file.set("tokenizer.ggml.eot_token_id", 0xFFFFFFFFU);
  file.set("tokenizer.ggml.padding_token_id", n - 1);
  file.set("tokenizer.ggml.mask_token_id", n + 1);
  const Checkpoint read = file.load(temp / "beyond.gguf");
  EXPECT_FALSE(read.bos_id);
  EXPECT_THAT(read.stop_ids, testing::ElementsAre(3));
  ASSERT_EQ(read.notes.size(), 3U);
  expect_all_in(read.notes[0], {"tokenizer.ggml.bos_token_id is ignored", std::to_string(n) + " is not an id"});
  expect_all_in(read.notes[1], {"tokenizer.ggml.eot_token_id is ignored"});
  expect_all_in(read.notes[2], {"tokenizer.ggml.mask_token_id is ignored"});
  expect_same(read, load_checkpoint(temp / "model.gguf"));
  file.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "c"});
  EXPECT_TRUE(file.load(temp / "fewer.gguf").stop_ids.empty()) << "the vocabulary ends before the embedding";
}

TEST(PublishedGguf, WhatIsRefusedNamesTheOptionThatAllowsIt) {
  const TempFolder temp;
  Published file(golden_checkpoint("llama_mha"), temp / "model.gguf");
  const std::string path = temp / "other.gguf";
  const auto refusal_of = [&](const LoadOptions& options) {
    message_of<Error>([&] { file.load(path); });  // writes it
    return load_refusal(path, options);
  };
  file.set("llama.attention.value_length", 3U);
  file.set("llama.rope.dimension_count", 2U);
  expect_all_in(refusal_of({}), {"llama.attention.value_length: expected", "got 3", "--allow-config-key llama.att"});
  expect_all_in(refusal_of({{"llama.attention.value_length"}}),
                {"llama.rope.dimension_count: expected", "--allow-config-key llama.rope.dimension_count"});
  const std::vector<std::string> keys = {"llama.attention.value_length", "llama.rope.dimension_count"};
  EXPECT_EQ(refusal_of({keys}), "");
  file.tensors["blk.0.extra.weight"] = {{1}, std::string(4, 'x')};
  expect_all_in(refusal_of({keys}), {"tensor blk.0.extra.weight is not part of this model (--allow-tensor"});
  EXPECT_EQ(refusal_of({keys, {"blk.0.extra.*"}}), "");
}

/// The first Mixtral files have one tensor for each expert.
TEST(PublishedGguf, OneTensorForEachExpert) {
  const TempFolder temp;
  const HostileFolder folder("mixtral");
  Published file(changed(folder, {{"sliding_window", nullptr}}), temp / "model.gguf");
  const auto stacked = file.tensors;
  int n = 0;
  for (const auto& [name, tensor] : stacked) {
    const std::size_t at = name.find("_exps.weight");
    if (at == name.npos) continue;
    const std::size_t bytes = tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0]);
    for (std::int64_t expert = 0; expert < tensor.shape[0]; ++expert) {
      const std::string one = tensor.bytes.substr(static_cast<std::size_t>(expert) * bytes, bytes);
      file.tensors[name.substr(0, at) + "." + std::to_string(expert) + ".weight"] = {{tensor.shape[1], tensor.shape[2]},
                                                                                     one};
      ++n;
    }
    file.tensors.erase(name);
  }
  EXPECT_GT(n, 6);
  const Checkpoint read = file.load(temp / "old.gguf");
  expect_same(read, load_checkpoint(temp / "model.gguf"));
  expect_same(through_gguf(read, DType::f32, temp / "again.gguf"), read);
  file.tensors.erase("blk.0.ffn_up.1.weight");
  expect_all_in(message_of<BadCheckpoint>([&] { file.load(temp / "broken.gguf"); }), {"blk.0.ffn_up", "is missing"});
}

/// The first files of Qwen's MoE models have only one width.
TEST(PublishedGguf, QwenExpertsWithoutAWidth) {
  const TempFolder temp;
  const Checkpoint original = wide_llama(temp / "hf", {{"architectures", {"Qwen2MoeForCausalLM"}},
                                                       {"model_type", "qwen2_moe"},
                                                       {"num_experts", 4},
                                                       {"num_experts_per_tok", 2},
                                                       {"moe_intermediate_size", 256},
                                                       {"shared_expert_intermediate_size", 512}});
  Published file(original, temp / "model.gguf");
  ASSERT_EQ(file.keys.erase("qwen2moe.expert_feed_forward_length"), 1U);
  ASSERT_EQ(file.keys.erase("qwen2moe.expert_shared_feed_forward_length"), 1U);
  file.set("qwen2moe.feed_forward_length", 512U);
  expect_same(file.load(temp / "old.gguf"), load_checkpoint(temp / "model.gguf"));
}

/// Files of GLM 4.5 hold layers that predict further tokens, which block_count includes.
TEST(PublishedGguf, LayersThatPredictFurtherTokensAreLeftOut) {
  const TempFolder temp;
  Published file(golden_checkpoint("glm4_moe"), temp / "model.gguf");
  const Checkpoint original = load_checkpoint(temp / "model.gguf");
  const auto n_layers = static_cast<std::uint32_t>(original.model->config().n_layers());
  const std::string further = "blk." + std::to_string(n_layers) + ".";
  file.tensors[further + "nextn.enorm.weight"] = {{2}, std::string(8, 'x')};
  file.tensors[further + "attn_norm.weight"] = {{1}, std::string(4, 'x')};
  file.set("glm4moe.block_count", n_layers + 1);
  file.set("glm4moe.nextn_predict_layers", 1U);
  const Checkpoint read = file.load(temp / "further.gguf");
  expect_same(read, original);
  ASSERT_EQ(read.unread.size(), 1U);
  EXPECT_EQ(read.unread.front().count, 2);
  EXPECT_EQ(read.unread.front().bytes, 12);
  file.set("glm4moe.nextn_predict_layers", n_layers + 1);
  expect_all_in(message_of<BadCheckpoint>([&] { file.load(temp / "none.gguf"); }), {"nextn_predict_layers"});
}

/// Newer converters say theta and the whole magnitude of OLMo 3 a second time.
TEST(PublishedGguf, RopeSaidTwice) {
  const TempFolder temp;
  Published file(golden_checkpoint("olmo3"), temp / "model.gguf");
  const Checkpoint original = load_checkpoint(temp / "model.gguf");
  const RopeConfig& rope = *find<AttentionConfig>(original.model->config().blocks.back())->rope;
  ASSERT_TRUE(std::holds_alternative<YarnScaling>(rope.scaling));
  file.set("olmo2.rope.freq_base_swa", static_cast<float>(rope.theta));
  expect_same(file.load(temp / "theta.gguf"), original);
  file.keys.erase("olmo2.rope.scaling.attn_factor");
  file.set("olmo2.rope.scaling.yarn_attn_factor", rope.magnitude);
  expect_same(file.load(temp / "magnitude.gguf"), original);
  file.set("olmo2.rope.scaling.yarn_attn_factor", 2 * rope.magnitude);
  EXPECT_FALSE(same_bits(logits_of_forty(*file.load(temp / "twice.gguf").model), logits_of_forty(*original.model)));
  file.set("olmo2.rope.freq_base_swa", static_cast<float>(2 * rope.theta));
  expect_all_in(message_of<Unsupported>([&] { file.load(temp / "other.gguf"); }), {"olmo2.rope.freq_base_swa"});
}

/// Some converters keep the dimension of 1 that ERNIE's corrections have.
TEST(PublishedGguf, CorrectionsAsMatricesOfOneRow) {
  const TempFolder temp;
  Published file(golden_checkpoint("glm4_moe"), temp / "model.gguf");
  int n_changed = 0;
  for (auto& [name, tensor] : file.tensors) {
    if (!name.ends_with(".exp_probs_b.bias")) continue;
    tensor.shape.insert(tensor.shape.begin(), 1);
    ++n_changed;
  }
  ASSERT_GT(n_changed, 0);
  expect_same(file.load(temp / "rows.gguf"), load_checkpoint(temp / "model.gguf"));
}

/// Of Gemma 4, llama.cpp derives the width of values from d_model, and a softcap of 30, where their keys are absent.
TEST(PublishedGguf, Gemma4SaysWhatOthersAssume) {
  const TempFolder temp;
  const Checkpoint original = golden_checkpoint("gemma4_moe");
  ASSERT_FALSE(original.model->config().head.softcap);
  Published file(original, temp / "model.gguf");
  const GgufModelFile written = open_gguf(MappedFile::open(temp / "model.gguf"));
  EXPECT_EQ(written.metadata.integer("gemma4.attention.value_length"),
            written.metadata.integer("gemma4.attention.key_length"));
  EXPECT_EQ(written.metadata.real("gemma4.final_logit_softcapping"), 0.0);
  file.keys.erase("gemma4.final_logit_softcapping");
  EXPECT_EQ(file.load(temp / "usual.gguf").model->config().head.softcap, 30.0f);
}

/// What llama.cpp's graphs have no place for is refused.
TEST(PublishedGguf, WhatLlamaCppMisreadsIsNotWritten) {
  const TempFolder temp;
  const auto refused = [&](const char* golden) {
    return message_of<Unsupported>([&] { through_gguf(golden_checkpoint(golden), DType::f32, temp / "no.gguf"); });
  };
  expect_all_in(refused("nemotron"), {"heads whose elements"});
  expect_all_in(refused("glm"), {"heads whose elements"});
  expect_all_in(refused("olmoe"), {"fewer K/V heads"});
  expect_all_in(refused("cohere_qk_norm"), {"the norms of q and k"});
}

/// The numbers of xIELU are lists of keys.
TEST(PublishedGguf, NumbersOfLayersAreKeys) {
  const TempFolder temp;
  const Checkpoint original = golden_checkpoint("apertus");
  Published file(original, temp / "model.gguf");
  for (const auto& [name, tensor] : file.tensors) EXPECT_EQ(name.find("xielu"), name.npos);
  expect_same(load_checkpoint(temp / "model.gguf"), original);
  file.set("xielu.beta", 0.25f);  // that of all layers
  const Checkpoint other = file.load(temp / "number.gguf");
  EXPECT_FALSE(same_bits(logits_of_forty(*other.model), logits_of_forty(*original.model)));
  file.set("xielu.beta", std::vector<float>(1, 0.5f));
  expect_all_in(message_of<BadCheckpoint>([&] { file.load(temp / "short.gguf"); }), {"xielu.beta", "a list of"});
  file.keys.erase("xielu.beta");
  expect_all_in(message_of<BadCheckpoint>([&] { file.load(temp / "none.gguf"); }), {"xielu.beta", "a list of"});
}

/// Goldens whose sizes llama.cpp has no place for, in other sizes and with random weights.
TEST(PublishedGguf, ResizedGoldensAreWritten) {
  const std::pair<const char*, Json> kResized[] = {{"glm", {{"hidden_size", 72}}},
                                                   {"nemotron", {{"hidden_size", 40}}},
                                                   {"olmoe", {{"num_key_value_heads", 5}}},
                                                   {"cohere_qk_norm", {{"use_qk_norm", false}}},
                                                   {"cohere_qk_norm", {{"num_hidden_layers", 64}}}};
  ThreadPool pool(2);
  for (const auto& [golden, words] : kResized) {
    const TempFolder temp;
    Json config = Json::parse(read_file(goldens() + "/" + golden + "/config.json"));
    config.update(words);
    init_checkpoint(config, "config", temp / "model", DType::f32, 7, pool);
    const Checkpoint original = load_checkpoint(temp / "model");
    expect_same(through_gguf(original, DType::f32, temp / "model.gguf"), original);
  }
}

}  // namespace
}  // namespace vitrine::test
