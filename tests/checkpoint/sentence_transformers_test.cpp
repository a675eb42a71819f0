// How a folder of sentence-transformers prepares texts: lengths, prompts, lower case.
#include "checkpoint/hugging_face/sentence_transformers.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
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

TEST_F(Sentences, PoolingWithoutThePromptIsRefused) {
  write("modules.json", R"([{"path": "1_Pooling", "type": "a.Pooling"}])");
  std::filesystem::create_directory(folder_ / "1_Pooling");
  write("1_Pooling/config.json", R"({"pooling_mode": "mean", "include_prompt": false})");
  EXPECT_FALSE(read().normalize);
  write("config_sentence_transformers.json", R"({"prompts": {"q": "q: "}, "default_prompt_name": "q"})");
  EXPECT_THAT([&] { read(); }, ThrowsMessage<Unsupported>(HasSubstr("the prompt q")));
}

}  // namespace
}  // namespace vitrine
