// How a folder of sentence-transformers prepares texts: lengths, prompts, lower case.
#include "checkpoint/hugging_face/sentence_transformers.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"

namespace vitrine {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Ids = std::vector<std::int32_t>;

constexpr const char* kWords = R"({"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"[C]":0,"[S]":1,"?":2}},
  "pre_tokenizer": {"type": "WhitespaceSplit"},
  "post_processor": {"type": "BertProcessing", "sep": ["[S]", 1], "cls": ["[C]", 0]}})";

class Sentences : public testing::Test {
 protected:
  Sentences() { write("tokenizer.json", kWords); }
  void write(const std::string& name, const std::string& content) const { test::write_file(folder_ / name, content); }
  SentenceConfig read() const { return read_sentence_config(folder_.path(), load_tokenizer(folder_.path()).get(), 64); }
  test::TempFolder folder_;
};

TEST_F(Sentences, Lengths) {
  EXPECT_EQ(read().max_tokens, 64) << "the model's context";
  write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 12})");
  EXPECT_EQ(read().max_tokens, 12);
  write("sentence_bert_config.json", R"({"max_seq_length": 20})");
  EXPECT_EQ(read().max_tokens, 20);
  write("sentence_bert_config.json", R"({"max_seq_length": null, "do_lower_case": true})");
  EXPECT_EQ(read().max_tokens, 12);
  EXPECT_EQ(read().prepared("A É"), "a é");
  write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 900})");
  EXPECT_EQ(read().max_tokens, 64);
}

TEST_F(Sentences, WhatTheTokenizerAddsIsKept) {
  SentenceConfig config = read();
  EXPECT_EQ(config.n_suffix, 1);
  config.max_tokens = 4;
  EXPECT_EQ(truncated({0, 5, 6, 7, 8, 1}, config), (Ids{0, 5, 6, 1}));
  EXPECT_EQ(truncated({0, 5, 6, 1}, config), (Ids{0, 5, 6, 1}));
  config.n_suffix = 0;
  EXPECT_EQ(truncated({0, 5, 6, 7, 8, 1}, config), (Ids{0, 5, 6, 7}));
}

TEST_F(Sentences, Prompts) {
  write("config_sentence_transformers.json",
        R"({"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"})");
  SentenceConfig config = read();
  EXPECT_EQ(config.prepared("a"), "query: a");
  config.use_prompt("document", "--prompt-name");
  EXPECT_EQ(config.prepared("a"), "a");
  EXPECT_THAT([&] { config.use_prompt("x", "--prompt-name"); },
              ThrowsMessage<BadInput>(HasSubstr("(document, query), got x")));
  write("config_sentence_transformers.json", R"({"prompts": {}, "default_prompt_name": null})");
  EXPECT_EQ(read().prepared("a"), "a");
  write("config_sentence_transformers.json", R"({"prompts": {"q": 1}})");
  EXPECT_THROW(read(), BadCheckpoint);
}

/// A copy of a golden whose files are changed.
class Modules : public testing::Test {
 protected:
  Modules() { std::filesystem::copy(source(), folder_ / "m", std::filesystem::copy_options::recursive); }
  static std::string source() { return std::string(VITRINE_SOURCE_DIR) + "/tests/goldens/sentences/dense"; }
  std::string path(const std::string& name) const { return folder_ / ("m/" + name); }

  /// Changes a file's JSON, reads the folder, and restores the file.
  void expect_refused(const std::string& name, const std::function<void(Json&)>& change,
                      const std::string& what) const {
    const std::string before = test::read_file(path(name));
    Json json = Json::parse(before);
    change(json);
    test::write_file(path(name), json.dump());
    try {
      read();
      ADD_FAILURE() << "expected an error with " << what;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(what));
    }
    test::write_file(path(name), before);
  }
  SentenceConfig read() const { return read_sentence_config(folder_ / "m", load_tokenizer(folder_ / "m").get(), 24); }

  test::TempFolder folder_;
};

TEST_F(Modules, AreStepsInTheirOrder) {
  const SentenceConfig config = read();
  ASSERT_EQ(config.steps.steps.size(), 4U) << "Dropout is of training alone";
  EXPECT_EQ(std::get<PoolStep>(config.steps.steps[0]).modes, (std::vector{PoolStep::Mode::cls, PoolStep::Mode::mean}));
  const auto& dense = std::get<DenseStep>(config.steps.steps[1]);
  EXPECT_EQ(dense.residual, DenseStep::Residual::map);
  EXPECT_EQ(dense.activation, Activation::tanh);
  EXPECT_EQ(dense.map.weight.shape, (Shape{10, 24}));
  EXPECT_EQ(config.dimensions, 7);
  EXPECT_EQ(config.similarity, Similarity::manhattan);
  EXPECT_FALSE(config.normalize);
}

TEST_F(Modules, WhatIsNotSupportedIsRefusedByName) {
  const auto type = [](const char* to) { return [to](Json& json) { json[2]["type"] = to; }; };
  const auto set = [](const char* key, const Json& to) { return [=](Json& json) { json[key] = to; }; };
  expect_refused("modules.json", type("custom.Dense"), "custom.Dense");
  expect_refused("modules.json", type("sentence_transformers.models.LSTM"), "LSTM");
  expect_refused("modules.json", type("sentence_transformers.models.CNN"), "CNN");
  expect_refused(
      "modules.json", [](Json& json) { json.erase(0); }, "Pooling is not supported first");
  expect_refused(
      "modules.json", [](Json& json) { std::swap(json[1], json[2]); }, "no module before it makes");
  expect_refused(
      "modules.json", [](Json& json) { json[1]["path"] = "../x"; }, "../x");
  expect_refused(
      "modules.json", [](Json& json) { json[1]["extra"] = 1; }, "extra");
  expect_refused("2_Dense/config.json", set("activation_function", "torch.nn.modules.activation.Mish"), "Mish");
  expect_refused("2_Dense/config.json", set("activation_function", "my.Tanh"), "my.Tanh");
  expect_refused("2_Dense/config.json", set("in_features", 23), "[10, 23]");
  expect_refused("2_Dense/config.json", set("bias", false), "linear.bias is not part");
  expect_refused("2_Dense/config.json", set("use_residual", false), "residual.weight is not part");
  expect_refused("2_Dense/config.json", set("module_input_name", "all_layer_embeddings"), "all_layer_embeddings");
  expect_refused("2_Dense/config.json", set("init_weight", 1), "init_weight");
  expect_refused("3_LayerNorm/config.json", set("dimension", 11), "norm.weight");
  expect_refused("1_Pooling/config.json", set("pooling_mode", "median"), "median");
  expect_refused("1_Pooling/config.json", set("attention", true), "attention");
  expect_refused("sentence_bert_config.json", set("transformer_task", "retrieval"), "retrieval");
  expect_refused("sentence_bert_config.json", set("module_output_name", "scores"), "module_output_name");
  expect_refused("sentence_bert_config.json", set("model_kwargs", {{"dtype", "float16"}}), "model_kwargs.dtype");
  expect_refused("config_sentence_transformers.json", set("model_type", "ColBERT"), "ColBERT");
  expect_refused("config_sentence_transformers.json", set("model_type", "CrossEncoder"), "scores");
  expect_refused("config_sentence_transformers.json", set("similarity_fn_name", "maxsim"), "maxsim");
  expect_refused("config_sentence_transformers.json", set("default_prompt_name", "x"), "got x");
}

}  // namespace
}  // namespace vitrine
