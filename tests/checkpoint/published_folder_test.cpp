// Folders as people publish them: files that contradict each other a little, in ways that the reference accepts.
#include <gtest/gtest.h>

#include "checkpoint/adapters/places.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/safetensors.h"
#include "generate/encode.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

std::vector<float> logits_of_folder(const std::string& path, const LoadOptions& options = {}) {
  const std::int32_t ids[] = {0, 5, 9, 3};
  return logits_of(*load_checkpoint(path, options).model, ids);
}

std::span<const std::byte> bytes_of_values(const auto& values) { return std::as_bytes(std::span(values)); }

TEST(PublishedFolders, BuffersOfEarlyLibrariesAreLeftOut) {
  const HostileFolder folder("llama_mha");
  const std::vector<float> expected = logits_of_folder(folder.path());
  const std::vector<float> values(4, 1.0f);
  edit_tensors(folder, [&](auto& tensors) {
    for (const char* name :
         {"model.layers.0.self_attn.rotary_emb.cos_cached", "model.layers.0.self_attn.rotary_emb.sin_cached",
          "model.rotary_emb.inv_freq", "encoder.version"}) {
      tensors[name] = {"F32", DType::f32, {4}, bytes_of_values(values), ""};
    }
  });
  EXPECT_EQ(logits_of_folder(folder.path()), expected);
  edit_tensors(folder, [&](auto& tensors) {
    tensors["model.extra"] = {"F32", DType::f32, {4}, bytes_of_values(values), ""};
  });
  EXPECT_THAT(load_refusal(folder.path()), HasSubstr("model.extra is not part of this model (--allow-tensor"));
  EXPECT_EQ(logits_of_folder(folder.path(), {{}, {"model.extra"}}), expected);
}

TEST(PublishedFolders, DoublesAreRoundedToFloats) {
  const HostileFolder folder("llama_mha");
  const std::vector<float> expected = logits_of_folder(folder.path());
  std::vector<double> doubles;
  edit_tensors(folder, [&](auto& tensors) {
    StoredTensor& norm = tensors.at("model.norm.weight");
    std::vector<float> floats(norm.bytes.size() / sizeof(float));
    std::memcpy(floats.data(), norm.bytes.data(), norm.bytes.size());
    for (const float x : floats) doubles.push_back(static_cast<double>(x) * (1 + 1e-12));
    norm = {"F64", std::nullopt, norm.shape, bytes_of_values(doubles), ""};
  });
  EXPECT_EQ(logits_of_folder(folder.path()), expected);
}

std::vector<float> vector_of(const std::string& path, const LoadOptions& options = {}) {
  Checkpoint checkpoint = load_checkpoint(path, options);
  ThreadPool pool(1);
  GenerateContext context;
  context.model = checkpoint.model.get();
  context.pool = &pool;
  context.kernels = &default_kernels();
  const std::vector<std::vector<std::int32_t>> texts = {{1, 2, 3}};
  std::vector<float> vector;
  encode(context, texts, {}, [&](std::size_t, std::span<const float> v) { vector.assign(v.begin(), v.end()); });
  return vector;
}

/// Removes a prefix from the names of tensors; those that do not begin with it, or of which `keep` says no, are left
/// out.
void strip(const HostileFolder& folder, std::string_view prefix,
           const std::function<bool(const std::string&)>& keep = nullptr) {
  edit_tensors(folder, [&](auto& tensors) {
    std::map<std::string, StoredTensor> renamed;
    for (auto& [name, tensor] : tensors) {
      if (name.starts_with(prefix) && (!keep || keep(name))) renamed[name.substr(prefix.size())] = tensor;
    }
    tensors = renamed;
  });
}

TEST(PublishedFolders, EncoderDecodersWithoutAHeadHaveNoPrefix) {
  const std::pair<const char*, const char*> cases[] = {
      {"bart", "BartModel"},     {"mbart", "MBartModel"},       {"m2m_100", "M2M100Model"}, {"pegasus", "PegasusModel"},
      {"marian", "MarianModel"}, {"marian_two", "MarianModel"}, {"t5", "T5Model"},          {"mt5", "MT5Model"}};
  for (const auto& [golden, name] : cases) {
    const HostileFolder whole(std::string("pairs/") + golden), folder(std::string("pairs/") + golden);
    strip(folder, std::string(name).find("T5") != std::string::npos ? "" : "model.",
          [](const std::string& tensor) { return !tensor.starts_with("lm_head"); });
    folder.edit_json([&of = name](Json& config) { config["architectures"] = {of}; });
    EXPECT_EQ(load_refusal(folder.path()), "") << name;
    EXPECT_EQ(vector_of(folder.path()), vector_of(whole.path())) << name;
  }
}

TEST(PublishedFolders, TheEncoderOfT5IsAModelAlone) {
  for (const char* golden : {"pairs/t5", "pairs/t5_11", "pairs/mt5"}) {
    const HostileFolder whole(golden), folder(golden);
    strip(folder, "", [](const std::string& name) { return name == "shared.weight" || name.starts_with("encoder."); });
    const bool is_multilingual = std::string(golden).ends_with("mt5");
    folder.edit_json([&](Json& config) {
      config["architectures"] = {is_multilingual ? "MT5EncoderModel" : "T5EncoderModel"};
      config["is_encoder_decoder"] = false;
    });
    const Checkpoint checkpoint = load_checkpoint(folder.path());
    EXPECT_FALSE(checkpoint.model->config().encoder);
    EXPECT_FALSE(checkpoint.model->config().has_head);
    EXPECT_EQ(vector_of(folder.path()), vector_of(whole.path()));
    const auto modules = [](const std::vector<AdapterPlace>& places) {
      std::set<std::string> names;
      for (const AdapterPlace& place : places) names.insert(place.module);
      return names;
    };
    for (const auto& names : {modules(usual_places(checkpoint, AdapterFormat::peft)),
                              modules(all_places(checkpoint, AdapterFormat::peft))}) {
      EXPECT_TRUE(names.contains("encoder.block.0.layer.0.SelfAttention.q"));
      EXPECT_FALSE(names.contains("decoder.block.0.layer.0.SelfAttention.q"));
    }
  }
}

TEST(PublishedFolders, WithoutAHeadThereAreVectorsAlone) {
  const HostileFolder whole("llama_mha"), folder("llama_mha");
  edit_tensors(folder, [](auto& tensors) { tensors.erase("lm_head.weight"); });
  EXPECT_EQ(vector_of(folder.path()), vector_of(whole.path()));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("the model has no head"));

  // A base model, whose tensors have no prefix.
  strip(folder, "model.");
  folder.edit_json([](Json& config) { config["architectures"] = {"LlamaModel"}; });
  EXPECT_EQ(vector_of(folder.path()), vector_of(whole.path()));
}

TEST(PublishedFolders, NamesOfEarlyConversionsAndOfWrappersAreTheFamilys) {
  const HostileFolder folder("llama_mha");
  for (const char* name : {"LLaMAForCausalLM", "FSDPLlamaForCausalLM", "LlamaForCausalLM"}) {
    folder.edit_json([&](Json& config) { config["architectures"] = {name}; });
    EXPECT_EQ(refusal(folder.path()), "") << name;
  }
}

TEST(PublishedFolders, AModelWithAnotherHeadIsReadWithoutItIfTheCallerAllows) {
  struct Case {
    const char *golden, *name, *head, *base;
  };
  for (const Case& c :
       {Case{"llama_mha", "LlamaForMultipleChoice", "score.weight", "LlamaModel"},
        Case{"masked/bert", "BertForNextSentencePrediction", "ranker.weight", "BertModel"},
        Case{"masked/distilbert", "DistilBertForRanking", "ranker.weight", "DistilBertModel"},
        Case{"pairs/bart", "BartForSequenceClassification", "classification_head.dense.weight", "BartModel"}}) {
    const HostileFolder whole(c.golden), folder(c.golden);
    const std::vector<float> values(4, 1.0f);
    edit_tensors(folder, [&](auto& tensors) {
      std::erase_if(tensors, [](const auto& tensor) {
        return tensor.first.starts_with("lm_head") || tensor.first.starts_with("cls.") ||
               tensor.first.starts_with("vocab_") || tensor.first == "final_logits_bias";
      });
      tensors[c.head] = {"F32", DType::f32, {4}, bytes_of_values(values), ""};
    });
    folder.edit_json([&](Json& config) { config["architectures"] = {c.name}; });
    EXPECT_THAT(load_refusal(folder.path()),
                testing::AllOf(HasSubstr("architectures: expected"), HasSubstr(c.name), HasSubstr(c.base),
                               HasSubstr("--allow-config-key architectures")));
    LoadOptions options{{"architectures"}};
    EXPECT_THAT(load_refusal(folder.path(), options),
                testing::AllOf(HasSubstr(c.head), HasSubstr("--allow-tensor ignores it")));
    options.allowed_tensors = {c.head};
    EXPECT_EQ(vector_of(folder.path(), options), vector_of(whole.path())) << c.name;
  }
}

TEST(PublishedFolders, KeysThatSayThatSomethingIsAbsentAreNoError) {
  const HostileFolder folder("llama_mha");
  const Json good = folder.json();
  const auto with = [&](const char* key, const Json& value) {
    folder.write(good.dump(), "config.json");
    folder.edit_json([&](Json& config) { config[key] = value; });
    return refusal(folder.path());
  };
  for (const Json& value : {Json(nullptr), Json(false), Json(0), Json(0.0), Json(""), Json::array()}) {
    EXPECT_EQ(with("use_new_thing", value), "") << value;
    EXPECT_EQ(with("no_new_thing", value).empty(), value.is_null()) << value;
  }
  EXPECT_EQ(with("residual_multiplier_of_tomorrow", 1.0), "");
  EXPECT_EQ(with("_attn_implementation_internal", "sdpa"), "");
  for (const Json& value : {Json(true), Json(1), Json(0.5), Json("x")}) {
    EXPECT_THAT(with("use_new_thing", value), HasSubstr("unknown key use_new_thing")) << value;
  }
  EXPECT_EQ(with("max_position_embeddings", 64.0), "");
  EXPECT_THAT(with("max_position_embeddings", 64.5), HasSubstr("expected a whole number"));
}

TEST(PublishedFolders, KeysThatTheFamilyDoesNotHaveAreReadAsOffIfTheCallerAllows) {
  const std::tuple<const char*, const char*, Json> cases[] = {
      {"llama_mha", "add_cross_attention", true}, {"llama_mha", "pruned_heads", Json{{"0", {1}}}},
      {"llama_mha", "rope_interleaved", true},    {"falcon", "alibi", true},
      {"falcon", "num_ln_in_parallel_attn", 2},   {"falcon_new", "parallel_attn", false},
      {"phi3_short", "interpolate_factor", 2},    {"starcoder2", "scale_attn_weights", false},
      {"cohere2", "use_parallel_block", false},   {"gemma3", "attn_logit_softcapping", 50.0},
  };
  for (const auto& [golden, key, value] : cases) {
    const HostileFolder folder(golden);
    folder.edit_json([&name = key](Json& config) { config.erase(name); });
    const std::vector<float> expected = logits_of_folder(folder.path());
    folder.edit_json([&name = key, &set = value](Json& config) { config[name] = set; });
    EXPECT_THAT(load_refusal(folder.path()),
                testing::AllOf(HasSubstr(std::string(key) + ": expected"),
                               HasSubstr("(--allow-config-key " + std::string(key) + " computes as if it were so)")));
    EXPECT_EQ(logits_of_folder(folder.path(), {{key}}), expected) << key;
  }
}

TEST(PublishedFolders, EqualCopiesOfABiasMayHaveAnotherType) {
  const HostileFolder folder("masked/bert");
  const std::vector<float> expected = logits_of_folder(folder.path());
  std::vector<float> floats;
  edit_tensors(folder, [&](auto& tensors) {
    const StoredTensor& bias = tensors.at("cls.predictions.bias");
    tensors["cls.predictions.decoder.bias"] = bias;
    tensors["cls.predictions.decoder.weight"] = tensors.at("bert.embeddings.word_embeddings.weight");
  });
  EXPECT_EQ(logits_of_folder(folder.path()), expected);
  folder.poke("cls.predictions.decoder.bias", 0, "\x01\x02");
  EXPECT_THAT(load_refusal(folder.path()), HasSubstr("cls.predictions.decoder.bias differs from cls.predictions.bias"));
}

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
  const char* const mixes = R"({"assistant_ensemble_weight": 0.5, "assistant_early_exit": 1})";
  EXPECT_EQ(search(mixes).refused, "assistant_ensemble_weight") << "the assistant's logits count";
  EXPECT_EQ(search(R"({"assistant_ensemble_weight": 0.5})").refused, "");
  const auto stop_ids = [&](const char* json) {
    folder.write(json, "generation_config.json");
    return load_checkpoint(folder.path()).stop_ids;
  };
  EXPECT_THAT(stop_ids(R"({"top_k": 1})"), testing::ElementsAre(2)) << "that of config.json";
  EXPECT_TRUE(stop_ids(R"({"eos_token_id": null})").empty()) << "nothing ends a text";
}

}  // namespace
}  // namespace vitrine::test
