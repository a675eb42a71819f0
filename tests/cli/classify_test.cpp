// classify and rerank: labels and orders of the models in tests/goldens/heads, with a tokenizer of letters.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "checkpoint/safetensors.h"
#include "cli/head_models.h"
#include "support/backward.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

class Classify : public testing::Test {
 protected:
  std::string model(const std::string& golden, const Json& more = Json::object()) const {
    return head_model(folder_ / golden, golden, more);
  }
  TempFolder folder_;
};

void write_tensors(const std::string& path, const Values& values) {
  SafetensorsWriter writer(path, 256 + 240 * static_cast<std::int64_t>(values.size()));
  for (const auto& [name, value] : values) {
    Value copy = value;
    writer.add(name, {copy.data.data(), copy.shape});
  }
  writer.commit();
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_F(Classify, ScoresAreThoseOfTheProblem) {
  const Values golden = tensors_of(goldens() + "/heads/bert_classes/golden.safetensors");
  const std::string folder = model("bert_classes", {{"id2label", {{"0", "bad"}, {"1", "so-so"}, {"2", "good"}}}});
  const Json one = json_of({"classify", folder, "--ids", "7", "--compute", "f32"});
  const std::vector<float>& outputs = golden.at("output.0").data;
  double sum = 0;
  for (const float x : outputs) sum += std::exp(x);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(one["logits"][i].get<double>(), outputs[i], 4e-6);
  ASSERT_EQ(one["scores"].size(), 3U);
  EXPECT_EQ(one["label"], one["scores"][0]["label"]);
  EXPECT_GE(one["scores"][0]["score"], one["scores"][1]["score"]);
  const auto best = std::max_element(outputs.begin(), outputs.end()) - outputs.begin();
  EXPECT_EQ(one["label"], Json({"bad", "so-so", "good"})[static_cast<std::size_t>(best)]);
  EXPECT_NEAR(one["score"].get<double>(), std::exp(outputs[static_cast<std::size_t>(best)]) / sum, 4e-6);

  const std::string several = model("bert_classes", {{"problem_type", "multi_label_classification"}});
  EXPECT_NEAR(json_of({"classify", several, "--ids", "7", "--compute", "f32"})["score"].get<double>(),
              sigmoid(outputs[static_cast<std::size_t>(best)]), 4e-6);
  const Json raw = json_of({"classify", several, "--ids", "7", "--raw", "--top", "1"});
  EXPECT_EQ(raw["scores"].size(), 1U);
  EXPECT_EQ(raw["score"], raw["logits"][static_cast<std::size_t>(best)]);
  expect_error({"classify", model("bert_classes", {{"problem_type", "other"}}), "--ids", "7"},
               {"problem_type", "other"});
}

TEST_F(Classify, LinesAreWhatTextsAreAlone) {
  const std::string folder = model("modernbert_mean");
  const std::string answers = output_of({"classify", folder, "--lines", "--json"},
                                        {.input = "\"a b c\"\n[\"a b\",\"x y z\"]\n{\"text\":\"q\"}\n[1,5,2]\n"
                                                  "{\"text\":\"a b\",\"text_pair\":\"x y z\"}\n"});
  std::vector<Json> lines;
  for (std::size_t at = 0; at < answers.size(); at = answers.find('\n', at) + 1) {
    lines.push_back(Json::parse(answers.substr(at, answers.find('\n', at) - at)));
  }
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], json_of({"classify", folder, "a b c"}));
  EXPECT_EQ(lines[1], json_of({"classify", folder, "a b", "--pair", "x y z"}));
  EXPECT_EQ(lines[2], json_of({"classify", folder, "q"}));
  EXPECT_EQ(lines[3], json_of({"classify", folder, "a"}));
  EXPECT_EQ(lines[4], lines[1]);
  expect_error({"classify", folder, "--lines"}, {"line 1", "JSON"}, {.input = "7\n"});
}

TEST_F(Classify, LongTextsAreCutOrRefused) {
  const auto words = [](int n) {
    std::string text = "a";
    for (int i = 1; i < n; ++i) text += " a";
    return text;
  };
  const std::string folder = model("bert_classes");
  const std::string text = words(100), cut = words(46);  // and [CLS], [SEP] of 48
  const auto cut_of = [&](Arguments arguments) {
    arguments.insert(arguments.begin(), {"classify", folder, "--json"});
    const Outcome o = run_program(arguments);
    EXPECT_EQ(o.err, "vitrine: 1 of the texts were cut to 48 tokens\n");
    return Json::parse(o.out);
  };
  EXPECT_EQ(cut_of({text}), json_of({"classify", folder, cut}));
  EXPECT_EQ(cut_of({words(60), "--pair", "b c d"}), json_of({"classify", folder, words(42), "--pair", "b c d"}));
  expect_error({"classify", folder, text, "--no-truncate"}, {"48", "102"});
  expect_error({"classify", folder, text, "--pair", "b", "--no-truncate"}, {"48", "104"});
}

TEST_F(Classify, OtherModelsAreRefused) {
  expect_error({"classify", (goldens() + "/masked/bert"), "--ids", "5"}, {"no classifier"});
  expect_error({"classify", model("bert_tags"), "--ids", "5"}, {"no classifier"});
  expect_error({"generate", model("qwen3_reward"), "--ids", "5"}, {"no head"});
  expect_usage_error({"classify", model("bert_classes"), "a", "--ids", "5"});
  const std::string folder = model("bert_tags");
  expect_error({"classify", folder, "a"}, {"no classifier"});
  expect_error({"classify", model("bert_classes", {{"architectures", {"BertForNextSentencePrediction"}}}), "a"},
               {"BertForSequenceClassification", "BertForNextSentencePrediction"});
  expect_error({"classify", model("bert_classes", {{"id2label", {{"0", "a"}, {"2", "b"}}}}), "a"}, {"id2label", "1"});
  expect_error({"classify", model("modernbert_classes", {{"classifier_pooling", "max"}}), "a"},
               {"classifier_pooling", "max"});
}

TEST_F(Classify, WhatTheClassDoesNotUseIsLeftOut) {
  const std::string folder = model("bert_tags");
  const std::string words = goldens() + "/masked/bert_pretraining/model.safetensors";
  Values stored = tensors_of(folder + "/model.safetensors");
  for (const auto& [name, value] : tensors_of(words)) {
    if (name.starts_with("cls.predictions.transform")) stored[name] = value;
  }
  write_tensors(folder + "/model.safetensors", stored);
  json_of({"trace", folder, "--ids", "5", "--sites", "head.hook_out", "--out", folder_ / "t"});
  EXPECT_EQ(json_of({"info", folder})["unread"][1]["what"], "cls.predictions.transform.dense");
  stored["other.weight"] = stored.begin()->second;
  write_tensors(folder + "/model.safetensors", stored);
  expect_error({"info", folder}, {"other.weight"});
}

TEST_F(Classify, TraceGivesGradientsOfALabel) {
  const std::string folder = model("bert_classes", {{"id2label", {{"0", "a-b"}, {"1", "b"}, {"2", "c"}}}});
  const auto gradient_of = [&](const std::string& label) {
    const std::string out = folder_ / "t";
    json_of({"trace", folder, "--ids", "5,6", "--sites", "head.hook_out", "--of", label, "--out", out});
    return tensors_of(out).at("head.hook_out_grad").data;
  };
  EXPECT_EQ(gradient_of("a-b"), (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(gradient_of("b-c"), (std::vector<float>{0, 1, -1}));
  expect_error({"trace", folder, "--ids", "5", "--of", "d", "--out", folder_ / "t"}, {"--of", "a-b, b, c", "got d"});
}

TEST_F(Classify, RerankOrdersByThePairsScores) {
  const std::string folder = model("distilbert_classes");
  const Json found = json_of({"rerank", folder, "q", "a b c", "x", "w x y z"});
  ASSERT_EQ(found["results"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& result = found["results"][i];
    const std::string document = std::vector<std::string>{"a b c", "x", "w x y z"}[result["index"].get<std::size_t>()];
    const Json alone = json_of({"classify", folder, "q", "--pair", document});
    EXPECT_EQ(result["logits"], alone["logits"]);
    EXPECT_EQ(result["score"], alone["score"]) << "sigmoid, as for one label";
    if (i > 0) {
      EXPECT_LE(result["score"], found["results"][i - 1]["score"]);
    }
  }
  write_file(folder_ / "documents", "a b c\nx\nw x y z");
  EXPECT_EQ(json_of({"rerank", folder, "q", "--documents", folder_ / "documents"}), found);
  EXPECT_EQ(Json::parse(output_of({"rerank", folder, "--lines", "--json"},
                                  {.input = R"({"query":"q","documents":["a b c","x","w x y z"]})"
                                            "\n"})),
            found);
  EXPECT_EQ(json_of({"rerank", folder, "q", "a b c", "x", "--top", "1"})["results"].size(), 1U);
  const std::string identity =
      model("distilbert_classes", {{"sentence_transformers", {{"activation_fn", "torch.nn.modules.linear.Identity"}}}});
  const Json best = json_of({"rerank", identity, "q", "a b c", "x", "w x y z"})["results"][0];
  EXPECT_EQ(best["score"], best["logits"][0]);
  expect_error({"rerank", model("distilbert_classes", {{"sbert_ce_default_activation_function", "a.B"}}), "q", "a"},
               {"a.B", "not supported"});
  expect_error({"rerank", model("bert_classes"), "q", "a"}, {"3 labels"});
  expect_usage_error({"rerank", folder, "q"}, {"DOCUMENT"});
}

TEST_F(Classify, RerankBySimilarityUsesTheFoldersPrompts) {
  const std::string folder = folder_ / "bert";
  std::filesystem::copy((goldens() + "/masked/bert"), folder);
  write_file(folder + "/tokenizer.json", letter_words());
  write_file(folder + "/config_sentence_transformers.json",
             R"({"prompts": {"query": "x y ", "document": "z "}, "similarity_fn_name": "dot"})");
  const auto vector_of = [&](const std::string& text) {
    return json_of({"encode", folder, text})["embedding"].get<std::vector<double>>();
  };
  const std::vector<double> query = vector_of("x y a b"), document = vector_of("z c d");
  double dot = 0;
  for (std::size_t i = 0; i < query.size(); ++i) dot += query[i] * document[i];
  const Json result = json_of({"rerank", folder, "a b", "c d"})["results"][0];
  EXPECT_NEAR(result["score"].get<double>(), dot, 1e-6);
  write_file(folder + "/config_sentence_transformers.json", R"({"similarity_fn_name": "other"})");
  expect_error({"rerank", folder, "a b", "c d"}, {"similarity_fn_name", "other"});
}

}  // namespace
}  // namespace vitrine::test
