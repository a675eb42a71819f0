// Encoders and heads for labels in GGUF files: the bits of the folder, what has no place, and what a file's keys
// decide.
#include <gmock/gmock.h>

#include <algorithm>

#include "checkpoint/gguf/heads.h"
#include "checkpoint/gguf/sentences.h"
#include "checkpoint/gguf_support.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/safetensors.h"
#include "generate/classify.h"
#include "generate/encode.h"
#include "generate/text_vectors.h"
#include "support/backward.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

GenerateContext context_of(const Model& model, ThreadPool& pool) {
  GenerateContext context;
  context.model = &model;
  context.pool = &pool;
  context.kernels = &default_kernels();
  context.compute = Compute::f32;
  return context;
}

/// Texts without padding, at which positions do not count.
std::vector<Ids> some_texts(const Model& model) {
  std::vector<Ids> texts = {some_ids(model, 1, 2), some_ids(model, 13, 3)};
  for (Ids& text : texts) {
    for (std::int32_t& id : text) id = std::max(id, 5);
  }
  return texts;
}

/// Outputs of the head, or the mean of the rows.
std::vector<std::vector<float>> values_of(const Checkpoint& checkpoint) {
  const Model& model = *checkpoint.model;
  ThreadPool pool(1);
  const std::vector<Ids> texts = some_texts(model);
  std::vector<std::vector<float>> all(texts.size());
  if (model.config().task) {
    read_outputs(context_of(model, pool), {texts}, 64, [&](std::size_t i, const Tensor& outputs) {
      all[i].assign(outputs.data, outputs.data + outputs.count());
    });
  } else {
    encode(context_of(model, pool), texts, {},
           [&](std::size_t i, std::span<const float> vector) { all[i].assign(vector.begin(), vector.end()); });
  }
  return all;
}

constexpr std::int64_t kVocabulary = 61;

/// Random weights of a class of a family, with odd sizes.
Checkpoint random_model(const std::string& folder, const Json& changes) {
  Json config = {{"hidden_size", 36},        {"intermediate_size", 40},   {"num_hidden_layers", 4},
                 {"num_attention_heads", 3}, {"vocab_size", kVocabulary}, {"max_position_embeddings", 50},
                 {"initializer_range", 0.3}};
  config.update(changes);
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    if (config[key].is_null()) config.erase(key);
  }
  ThreadPool pool(1);
  init_checkpoint(config, "config", folder, DType::f32, 5, pool);
  return load_checkpoint(folder);
}

struct Case {
  const char* name;
  Json config;
};

std::vector<Case> stacks() {
  const Json gemma = {{"architectures", {"Gemma3TextModel"}},
                      {"model_type", "gemma3_text"},
                      {"use_bidirectional_attention", true},
                      {"sliding_window", 8},
                      {"head_dim", 12},
                      {"num_key_value_heads", 1},
                      {"query_pre_attn_scalar", 12},
                      {"pad_token_id", 0},
                      {"num_hidden_layers", 7}};
  return {
      {"bert", {{"architectures", {"BertModel"}}, {"model_type", "bert"}}},
      {"roberta",
       {{"architectures", {"RobertaModel"}}, {"model_type", "roberta"}, {"pad_token_id", 1}, {"type_vocab_size", 1}}},
      {"xlm_roberta",
       {{"architectures", {"XLMRobertaModel"}},
        {"model_type", "xlm-roberta"},
        {"pad_token_id", 3},
        {"type_vocab_size", 1}}},
      {"distilbert",
       {{"architectures", {"DistilBertModel"}},
        {"model_type", "distilbert"},
        {"dim", 36},
        {"hidden_dim", 40},
        {"n_heads", 3},
        {"n_layers", 2},
        {"hidden_size", nullptr},
        {"intermediate_size", nullptr},
        {"num_hidden_layers", nullptr},
        {"num_attention_heads", nullptr}}},
      {"jina_bert",
       {{"architectures", {"BertModel"}},
        {"model_type", "bert"},
        {"position_embedding_type", "alibi"},
        {"feed_forward_type", "geglu"}}},
      {"nomic_bert", {{"architectures", {"NomicBertModel"}}, {"model_type", "nomic_bert"}}},
      {"modernbert",
       {{"architectures", {"ModernBertModel"}},
        {"model_type", "modernbert"},
        {"local_attention", 10},
        {"pad_token_id", 0},
        {"num_hidden_layers", 7}}},
      {"gemma3_both_ways", gemma}};
}

TEST(GgufEncoders, HaveTheBitsOfTheFolder) {
  for (const Case& c : stacks()) {
    const TempFolder folder;
    const Checkpoint checkpoint = random_model(folder / "model", c.config);
    const Checkpoint read = through_gguf(checkpoint, DType::f32, folder / "model.gguf");
    EXPECT_FALSE(read.model->config().has_head) << c.name;
    const auto ours = values_of(read), theirs = values_of(checkpoint);
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(same_bits(ours[i], theirs[i])) << c.name << ", " << i;
    const Checkpoint again = through_gguf(read, DType::f32, folder / "again.gguf");
    EXPECT_EQ(read_file(folder / "model.gguf"), read_file(folder / "again.gguf")) << c.name;
  }
}

TEST(GgufEncoders, QuantizedMatricesAreNearTheFolder) {
  for (const Case& c : stacks()) {
    for (const DType dtype : {DType::f16, DType::q8_0}) {
      const TempFolder folder;
      Json config = c.config;
      config[c.config.contains("dim") ? "dim" : "hidden_size"] = 96;
      if (config.contains("head_dim")) config["head_dim"] = config["query_pre_attn_scalar"] = 32;
      const Checkpoint checkpoint = random_model(folder / "model", config);
      const auto ours = values_of(through_gguf(checkpoint, dtype, folder / "model.gguf"));
      const auto theirs = values_of(checkpoint);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        EXPECT_LT(difference(ours[i], theirs[i]), dtype == DType::f16 ? 2e-3 : 3e-2) << c.name << ", " << i;
      }
    }
  }
}

TEST(GgufEncoders, HeadsHaveTheBitsOfTheFolderOrNoPlace) {
  const std::pair<const char*, const char*> kCases[] = {
      {"heads/bert_classes", ""},
      {"heads/roberta_classes", ""},
      {"heads/modernbert_classes", ""},
      {"heads/modernbert_mean", "this dense layer before the labels, or its activation"},
      {"heads/bert_tags", "a head for tokens, answers or choices"},
      {"heads/bert_answers", "a head for tokens, answers or choices"},
      {"heads/bert_choices", "a head for tokens, answers or choices"},
      {"heads/distilbert_classes", "this dense layer before the labels, or its activation"},
      {"heads/nomic_bert_classes", "labels of texts"},
      {"heads/qwen3_reward", "llama.cpp takes their softmax"},
      {"heads/albert_classes", "GGUF files of the family albert cannot be written yet"},
      {"heads/mpnet_classes", "GGUF files of the family mpnet cannot be written yet"},
      {"heads/electra_tags", "GGUF files of the family electra cannot be written yet"},
      {"heads/deberta_v2_classes", "GGUF files of the family deberta-v2 cannot be written yet"},
      {"heads/gte_classes", "GGUF files of the family gte cannot be written yet"}};
  for (const auto& [name, refusal] : kCases) {
    const TempFolder folder;
    const Checkpoint checkpoint = golden_checkpoint(name);
    if (*refusal != '\0') {
      const std::string message =
          message_of<Unsupported>([&] { through_gguf(checkpoint, DType::f32, folder / "model.gguf"); });
      EXPECT_THAT(message, testing::HasSubstr(refusal)) << name;
      continue;
    }
    const Checkpoint read = through_gguf(checkpoint, DType::f32, folder / "model.gguf");
    EXPECT_EQ(read.model->config().task->labels, checkpoint.model->config().task->labels) << name;
    EXPECT_EQ(read.model->config().task->problem, checkpoint.model->config().task->problem) << name;
    const auto ours = values_of(read), theirs = values_of(checkpoint);
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(same_bits(ours[i], theirs[i])) << name << ", " << i;
  }
}

TEST(GgufEncoders, LabelsOfQwen3AreReadFromTheLastRow) {
  const TempFolder folder;
  const Checkpoint checkpoint = random_model(folder / "model", {{"architectures", {"Qwen3ForSequenceClassification"}},
                                                                {"model_type", "qwen3"},
                                                                {"head_dim", 12},
                                                                {"num_key_value_heads", 1},
                                                                {"pad_token_id", 0},
                                                                {"id2label", {{"0", "yes"}, {"1", "no"}}}});
  const Checkpoint read = through_gguf(checkpoint, DType::f32, folder / "model.gguf");
  EXPECT_EQ(read.model->config().task->labels, (std::vector<std::string>{"yes", "no"}));
  EXPECT_TRUE(same_bits(values_of(read)[1], values_of(checkpoint)[1]));
}

/// The refusal of a changed file.
struct Changed {
  explicit Changed(const std::string& golden) : file(golden_checkpoint(golden), temp / "model.gguf") {}
  std::string refusal() const {
    return message_of<Error>([&] { file.load(temp / "other.gguf"); });
  }

  const TempFolder temp;
  Published file;
};

TEST(GgufEncoders, KeysThatChangeAreRefusedOrCount) {
  using testing::HasSubstr;
  const auto refusal = [](const std::function<void(Published&)>& change, const char* golden = "heads/roberta_classes") {
    Changed changed(golden);
    change(changed.file);
    return changed.refusal();
  };
  EXPECT_EQ(refusal([](Published&) {}), "");
  EXPECT_THAT(refusal([](Published& f) { f.set("bert.pooling_type", 7U); }), HasSubstr("bert.pooling_type"));
  EXPECT_THAT(refusal([](Published& f) { f.set("bert.pooling_type", 1U); }), HasSubstr("expected 4 (rank)"));
  EXPECT_THAT(refusal([](Published& f) { f.set("bert.attention.causal", true); }),
              HasSubstr("expected false, got true"));
  EXPECT_THAT(refusal([](Published& f) { f.keys.erase("bert.attention.causal"); }), HasSubstr("got none"));
  EXPECT_THAT(refusal([](Published& f) { f.keys.erase("bert.classifier.output_labels"); }), HasSubstr("labels"));
  EXPECT_THAT(refusal([](Published& f) {
                f.set("bert.classifier.output_labels", std::vector<std::string>{"a", "b", "c", "d", "e", "f"});
              }),
              HasSubstr("got 6"));
  EXPECT_THAT(refusal([](Published& f) { f.set("bert.classifier.pooling_type", 3U); }),
              HasSubstr("1 (mean) or 2 (cls)"));
  EXPECT_THAT(refusal([](Published& f) { f.set("bert.classifier.threshold", 3U); }), HasSubstr("unknown key"));
  EXPECT_THAT(refusal([](Published& f) { f.set(kProblemType, "other"); }), HasSubstr(kProblemType));
  EXPECT_THAT(refusal([](Published& f) { f.set("tokenizer.ggml.token_type_count", 5U); }),
              HasSubstr("token_type_count"));
  EXPECT_THAT(refusal([](Published& f) { f.tensors["cls.gate.weight"] = f.tensors["cls.weight"]; }),
              HasSubstr("cls.gate.weight"));
  EXPECT_THAT(refusal([](Published& f) { f.tensors["cls.norm.weight"] = f.tensors["token_embd_norm.weight"]; }),
              HasSubstr("cls.norm.weight"));
  EXPECT_THAT(refusal([](Published& f) { f.tensors.erase("cls.output.weight"); }), HasSubstr("cls.output.weight"));
  EXPECT_THAT(
      refusal([](Published& f) { f.set("modern-bert.hidden_activation", "swish_2"); }, "heads/modernbert_classes"),
      HasSubstr("hidden_activation"));
  EXPECT_THAT(refusal([](Published& f) { f.set("bert.pooling_type", 4U); }, "heads/roberta_classes"), "");

  const TempFolder temp;
  Published mean(random_model(temp / "model", {{"architectures", {"ModernBertForSequenceClassification"}},
                                               {"model_type", "modernbert"},
                                               {"classifier_pooling", "mean"},
                                               {"pad_token_id", 0}}),
                 temp / "model.gguf");
  const auto before = values_of(mean.load(temp / "a.gguf"));
  EXPECT_TRUE(same_bits(before[1], values_of(load_checkpoint(temp / "model"))[1]));
  mean.set("modern-bert.classifier.pooling_type", 2U);
  const auto after = values_of(mean.load(temp / "b.gguf"));
  EXPECT_FALSE(same_bits(before[1], after[1]));
}

TEST(GgufEncoders, AStepOfTheFolderHasAKey) {
  const TempFolder folder;
  const Checkpoint checkpoint = random_model(folder / "model", stacks()[0].config);
  write_file(folder / "model/modules.json",
             R"([{"name": "0", "type": "sentence_transformers.models.Transformer", "path": ""},
                 {"name": "1", "type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
  std::filesystem::create_directory(folder / "model/1_Pooling");
  write_file(folder / "model/1_Pooling/config.json",
             R"({"word_embedding_dimension": 36, "pooling_mode_cls_token": true})");
  write_file(folder / "model/config_sentence_transformers.json",
             R"({"prompts": {"query": "q: ", "document": ""}, "default_prompt_name": "query",
                 "similarity_fn_name": "dot"})");
  write_file(folder / "model/sentence_bert_config.json", R"({"max_seq_length": 17})");
  ThreadPool pool(1);
  write_gguf(folder / "a.gguf", checkpoint, DType::f32, gguf_sentences(folder / "model", checkpoint).keys, pool);
  const SentenceConfig config = read_sentence_config(folder / "a.gguf", nullptr, 50);
  EXPECT_EQ(config.plain_mode(), PoolStep::Mode::cls);
  EXPECT_FALSE(config.normalize);
  EXPECT_EQ(config.max_tokens, 17);
  EXPECT_EQ(config.prompt, "q: ");
  EXPECT_EQ(config.prompts.at("document"), "");
  EXPECT_EQ(config.similarity, Similarity::dot);
  load_checkpoint(folder / "a.gguf");

  write_file(folder / "model/1_Pooling/config.json",
             R"({"word_embedding_dimension": 36, "pooling_mode_max_tokens": true})");
  EXPECT_THAT(message_of<Unsupported>([&] { gguf_sentences(folder / "model", checkpoint); }),
              testing::HasSubstr("the pooling \"max\""));
}

TEST(GgufEncoders, AHeadForMaskedWordsIsLeftOut) {
  const std::pair<const char*, Json> kCases[] = {
      {"bert", {{"architectures", {"BertForMaskedLM"}}, {"model_type", "bert"}}},
      {"roberta", {{"architectures", {"RobertaForMaskedLM"}}, {"model_type", "roberta"}, {"pad_token_id", 1}}},
      {"modernbert",
       {{"architectures", {"ModernBertForMaskedLM"}}, {"model_type", "modernbert"}, {"pad_token_id", 0}}}};
  for (const auto& [name, config] : kCases) {
    const TempFolder folder;
    const Checkpoint checkpoint = random_model(folder / "model", config);
    ThreadPool pool(1);
    const GgufExport written = write_gguf(folder / "model.gguf", checkpoint, DType::f32, {}, pool);
    EXPECT_THAT(written.notes, testing::Contains(testing::HasSubstr("no head for masked words"))) << name;
    const Checkpoint read = load_checkpoint(folder / "model.gguf");
    EXPECT_FALSE(read.model->config().has_head) << name;
    EXPECT_TRUE(same_bits(values_of(read)[1], values_of(checkpoint)[1])) << name;
  }
}

/// Modules of a folder of sentence-transformers, and their configs.
void write_modules(const std::string& folder, const Json& modules) {
  Json rows =
      Json::array({{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", "sentence_transformers.models.Transformer"}}});
  for (const Json& module : modules) {
    const std::string i = std::to_string(rows.size());
    rows.push_back({{"idx", rows.size()},
                    {"name", i},
                    {"path", i + "_M"},
                    {"type", "sentence_transformers.models." + module[0].get<std::string>()}});
    std::filesystem::create_directory(folder + "/" + i + "_M");
    write_file(folder + "/" + i + "_M/config.json", module[1].dump());
  }
  write_file(folder + "/modules.json", rows.dump());
}

TEST(GgufEncoders, StepsWithoutAPlaceAreNamed) {
  const Json mean = Json::array({"Pooling", Json({{"word_embedding_dimension", 36}, {"pooling_mode", "mean"}})});
  const auto pooling = [](const Json& changes) {
    Json config = {{"word_embedding_dimension", 36}};
    config.update(changes);
    return Json::array({"Pooling", config});
  };
  const Json normalize = Json::array({"Normalize", Json::object()});
  const std::pair<Json, const char*> kCases[] = {
      {Json::array({mean, normalize}), ""},
      {Json::array({pooling({{"pooling_mode", "weightedmean"}})}), "the pooling \"weightedmean\""},
      {Json::array({pooling({{"pooling_mode", Json::array({"mean", "max"})}})}), "several modes"},
      {Json::array({pooling({{"pooling_mode", "mean"}, {"include_prompt", false}})}), "include_prompt"},
      {Json::array({Json::array({"MultiVectorMask", Json::object()})}), "the module MultiVectorMask number 2"},
      {Json::array({mean, normalize, normalize}), "the module Normalize number 3"}};
  for (const auto& [modules, refusal] : kCases) {
    const TempFolder folder;
    const Checkpoint checkpoint = random_model(folder / "model", stacks()[0].config);
    write_modules(folder / "model", modules);
    if (modules[0][0] == "MultiVectorMask") {
      write_file(folder / "model/config_sentence_transformers.json", R"({"model_type": "MultiVectorEncoder"})");
    }
    const std::string message = message_of<Error>([&] { gguf_sentences(folder / "model", checkpoint); });
    if (*refusal == '\0') {
      EXPECT_EQ(message, "");
    } else {
      EXPECT_THAT(message, testing::HasSubstr(refusal)) << modules;
    }
  }
}

/// EmbeddingGemma: a file has its two Dense, and no others.
TEST(GgufEncoders, DenseOfEmbeddingGemma) {
  const TempFolder folder;
  const Checkpoint checkpoint = random_model(folder / "model", stacks().back().config);
  const auto dense = [](int in, int out, const Json& changes = Json::object()) {
    Json config = {{"in_features", in},
                   {"out_features", out},
                   {"bias", false},
                   {"activation_function", "torch.nn.modules.linear.Identity"}};
    config.update(changes);
    return Json::array({"Dense", config});
  };
  const auto write = [&](const Json& first, const Json& second) {
    const Json pooling = Json({{"word_embedding_dimension", 36}, {"pooling_mode", "mean"}});
    write_modules(folder / "model", Json::array({Json::array({"Pooling", pooling}), first, second}));
    for (const auto& [path, module] : {std::pair("2_M", first), std::pair("3_M", second)}) {
      const std::int64_t out = module[1]["out_features"], in = module[1]["in_features"];
      SafetensorsWriter writer(folder / ("model/" + std::string(path) + "/model.safetensors"), header_bytes_for(1));
      std::vector<float> values;
      for (std::int64_t i = 0; i < out * in; ++i) values.push_back(static_cast<float>((i * 7 + 3) % 11) / 8 - 0.6F);
      writer.begin("linear.weight", DType::f32, {out, in});
      writer.append(std::as_bytes(std::span(values)));
      writer.commit();
    }
  };
  const auto vectors = [&](const SentenceConfig& config, const Checkpoint& model) {
    ThreadPool pool(1);
    std::vector<float> all;
    const std::vector<Ids> texts = some_texts(*model.model);
    read_vectors(context_of(*model.model, pool), config, {texts}, {},
                 [&](std::size_t, const TextVectors& v) { all.insert(all.end(), v.values.begin(), v.values.end()); });
    return all;
  };
  write(dense(36, 50), dense(50, 36));
  const GgufSentences sentences = gguf_sentences(folder / "model", checkpoint);
  GgufExtras extras(sentences.keys);
  extras.dense = sentences.dense;
  ThreadPool pool(1);
  write_gguf(folder / "a.gguf", checkpoint, DType::f32, extras, pool);
  const Checkpoint read = load_checkpoint(folder / "a.gguf");
  const SentenceConfig of_folder = read_sentence_config(folder / "model", nullptr, 50);
  const std::vector<float> ours = vectors(read_sentence_config(folder / "a.gguf", nullptr, 50), read);
  EXPECT_TRUE(same_bits(ours, vectors(of_folder, checkpoint)));
  SentenceConfig without = of_folder;
  without.steps.steps.resize(1);
  EXPECT_FALSE(same_bits(ours, vectors(without, checkpoint)));

  const auto refusal = [&](const Json& first, const Json& second) {
    write(first, second);
    return message_of<Unsupported>([&] { gguf_sentences(folder / "model", checkpoint); });
  };
  EXPECT_THAT(refusal(dense(36, 50, {{"activation_function", "torch.nn.modules.activation.Tanh"}}), dense(50, 36)),
              testing::HasSubstr("the activation"));
  EXPECT_THAT(refusal(dense(36, 50), dense(50, 12)), testing::HasSubstr("the model's width"));
}

TEST(GgufEncoders, ADecoderThatAttendsBothWays) {
  const TempFolder temp;
  Published file(golden_checkpoint("qwen3"), temp / "model.gguf");
  const auto one_way = values_of(load_checkpoint(temp / "model.gguf"));
  file.set("qwen3.attention.causal", false);
  const Checkpoint both = file.load(temp / "other.gguf");
  EXPECT_TRUE(is_bidirectional(both.model->config()));
  EXPECT_FALSE(same_bits(values_of(both)[1], one_way[1]));
}

}  // namespace
}  // namespace vitrine::test
