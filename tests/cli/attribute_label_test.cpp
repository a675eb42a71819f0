// attribute --class and --document, and pages of models with labels: the same numbers by every way to them.
#include <cmath>

#include "cli/head_models.h"
#include "cli/look_page.h"

namespace vitrine::test {
namespace {

class AttributeLabel : public testing::Test {
 protected:
  std::string model(const std::string& golden) const { return head_model(folder_ / golden, golden); }
  TempFolder folder_;
};

double sum_of(const Json& list) {
  double sum = 0;
  for (const Json& one : list) sum += one.is_number() ? one.get<double>() : one["value"].get<double>();
  return sum;
}

TEST_F(AttributeLabel, PartsAddUpToWhatClassifyPrints) {
  const std::string folder = model("bert_classes");
  const Json logits = json_of({"classify", folder, "a b c d", "--compute", "f32"})["logits"];
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string label = "LABEL_" + std::to_string(i);
    const Json found = json_of({"attribute", folder, "a b c d", "--class", label, "--compute", "f32"});
    EXPECT_EQ(found["output"].get<float>(), logits[i].get<float>());
    EXPECT_EQ(found["label"], label);
    EXPECT_EQ(found["ids"], Json({1, 5, 6, 7, 8, 2}));
    EXPECT_NEAR(sum_of(found["terms"]), logits[i].get<double>(), 1e-5);
    EXPECT_EQ(found["remainder"].get<double>(), found["output"].get<double>() - found["sum"].get<double>());
  }
  const Json difference = json_of({"attribute", folder, "a b", "--class", "LABEL_2", "--against", "LABEL_0"});
  const Json both = json_of({"classify", folder, "a b"})["logits"];
  EXPECT_NEAR(difference["output"].get<double>(), both[2].get<double>() - both[0].get<double>(), 1e-6);
  EXPECT_EQ(json_of({"attribute", folder, "-", "--class", "LABEL_2", "--against", "LABEL_0"}, {.input = "a b"}),
            difference);
  const std::string text = output_of({"attribute", folder, "a b", "--class", "LABEL_2", "--by", "component"});
  EXPECT_THAT(text, testing::HasSubstr("blocks.1.attn"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr(".head.")));
  EXPECT_THAT(text, testing::HasSubstr("remainder"));
}

TEST_F(AttributeLabel, WordsOfADocumentHavePlaces) {
  const std::string folder = model("distilbert_classes");
  const Arguments texts = {"attribute", folder, "q r", "a  b c", "x y"};
  const auto found = [&](Arguments more) {
    more.insert(more.begin(), texts.begin(), texts.end());
    return json_of(more);
  };
  const Json scores = json_of({"rerank", folder, "q r", "a  b c", "x y"})["results"];
  for (const Json& score : scores) {
    const Json parts = found({"--document", score["index"].dump()});
    EXPECT_EQ(parts["output"].get<float>(), score["logits"][0].get<float>());
  }
  const Json words = found({"--document", "0", "--method", "ig"});
  ASSERT_EQ(words["words"].size(), 8U) << words;  // [CLS] q r [SEP] a b c [SEP]
  EXPECT_EQ(words["words"][0], Json({{"word", "[CLS]"}, {"value", 0.0}}));
  Json b = words["words"][5];
  EXPECT_NE(b["value"].get<double>(), 0);
  b.erase("value");
  EXPECT_EQ(b, Json({{"word", "b"}, {"text", 1}, {"start", 3}, {"end", 4}}));
  EXPECT_EQ(words["words"][2]["text"], 0);
  const double difference = words["output"].get<double>() - words["baseline_output"].get<double>();
  EXPECT_NEAR(sum_of(words["words"]), difference, 0.01 * std::abs(difference));
  EXPECT_EQ(words["baseline"], 0) << "the padding";
  EXPECT_EQ(found({"--document", "0", "--method", "ig", "--baseline", "mask"})["baseline"], 4);
  write_file(folder_ / "documents", "a  b c\nx y\n");
  EXPECT_EQ(
      json_of({"attribute", folder, "q r", "--documents", folder_ / "documents", "--document", "0", "--method", "ig"}),
      words);
}

TEST_F(AttributeLabel, WordsInAChatTemplateHavePlaces) {
  const std::string judge = goldens() + "/sentences/judge";  // the logit of yes minus that of no
  const Arguments texts = {judge, "what do cats eat ?", "cats eat  fish .", "the sea is deep"};
  const auto of = [&](const char* command, Arguments more) {
    more.insert(more.begin(), texts.begin(), texts.end());
    more.insert(more.begin(), command);
    return json_of(more);
  };
  const Json ranked = of("rerank", {});
  for (const Json& score : ranked["results"]) {
    const Json parts = of("attribute", {"--document", score["index"].dump()});
    EXPECT_EQ(parts["output"].get<float>(), score["logits"][0].get<float>());
    EXPECT_NEAR(sum_of(parts["terms"]), parts["output"].get<double>(), 1e-5 * std::abs(sum_of(parts["terms"])));
    EXPECT_EQ(parts["label"], "yes");
    EXPECT_EQ(parts["against"], "no");
  }
  const Json found = of("attribute", {"--document", "0", "--method", "ig"});
  ASSERT_EQ(found["words"].size(), 19U) << "[CLS] what is a fish [Q] what … ? [D] cats … . judge : [SEP]";
  const auto word = [&](std::size_t i) {
    Json own = found["words"][i];
    EXPECT_EQ(own["value"].get<double>() != 0, own.contains("text")) << own;
    own.erase("value");
    return own;
  };
  EXPECT_EQ(word(1), Json({{"word", "what"}})) << "of the prompt";
  EXPECT_EQ(word(6), Json({{"word", "what"}, {"text", 0}, {"start", 0}, {"end", 4}}));
  EXPECT_EQ(word(14), Json({{"word", "fish"}, {"text", 1}, {"start", 10}, {"end", 14}}));
  EXPECT_EQ(word(18), Json({{"word", "[SEP]"}}));
  const double difference = found["output"].get<double>() - found["baseline_output"].get<double>();
  EXPECT_NEAR(sum_of(found["words"]), difference, 0.01 * std::abs(difference));
}

TEST_F(AttributeLabel, TokensOfAScoreAreLabels) {
  const std::string judge = goldens() + "/sentences/judge", query = "what do cats eat ?", document = "fish";
  const auto found = [&](Arguments more) {
    const Arguments first = {"attribute", judge, query, "--pair", document};
    more.insert(more.begin(), first.begin(), first.end());
    return json_of(more);
  };
  const Json score = json_of({"attribute", judge, query, document, "--document", "0"});
  EXPECT_EQ(found({"--class", "yes", "--against", "no"}), score);
  const double yes = found({"--class", "yes"})["output"], no = found({"--class", "no"})["output"];
  EXPECT_NEAR(yes - no, score["output"].get<double>(), 1e-6);
  expect_error({"attribute", judge, query, "--pair", document, "--class", "maybe"}, {"--class", "yes, no", "maybe"});

  const std::string many = "the sea is deep and blue and the fish is deep and the sea is blue";
  const Outcome outcome = run_program({"attribute", judge, query, many, "--document", "0", "--method", "ig", "--json"});
  EXPECT_THAT(outcome.err, testing::HasSubstr("cut to 20 tokens"));
  const Json cut = Json::parse(outcome.out);
  ASSERT_EQ(cut["words"].size(), 20U);
  EXPECT_EQ(cut["words"][17]["word"], "judge") << "what ends every text is kept";
  EXPECT_EQ(cut["words"][15]["text"], 1);
  EXPECT_FALSE(json_of({"attribute", judge, query, "a [SEP]", "--document", "0"})["terms"].empty());
  expect_error({"attribute", judge, query, "a [SEP]", "--document", "0", "--method", "ig"}, {"special token"});
}

TEST_F(AttributeLabel, ClassifiersReadPairsInAChatTemplate) {
  const std::string model = chat_reranker(folder_ / "reward");
  const Arguments texts = {"attribute", model, "a b", " c  e ", "f", "--document", "0"};
  const Json parts = json_of(texts);
  EXPECT_EQ(parts["ids"], Json({21, 5, 6, 8, 7, 9, 23}));
  const Json ranked = json_of({"rerank", model, "a b", " c  e ", "f"});
  for (const Json& score : ranked["results"]) {
    if (score["index"] == 0) {
      EXPECT_EQ(parts["output"].get<float>(), score["logits"][0].get<float>());
    }
  }
  EXPECT_NEAR(sum_of(parts["terms"]), parts["output"].get<double>(), 1e-5 * std::abs(sum_of(parts["terms"])));
  Arguments path = texts;
  path.insert(path.end(), {"--method", "ig"});
  const Json words = json_of(path);
  EXPECT_EQ(words["baseline"], 4) << "the padding";
  Json e = words["words"][5];
  EXPECT_NE(e["value"].get<double>(), 0);
  e.erase("value");
  EXPECT_EQ(e, Json({{"word", "e"}, {"text", 1}, {"start", 4}, {"end", 5}})) << "in the text before trim";
  const double difference = words["output"].get<double>() - words["baseline_output"].get<double>();
  EXPECT_NEAR(sum_of(words["words"]), difference, 0.01 * std::abs(difference));
}

TEST_F(AttributeLabel, OtherRequestsAreRefused) {
  const std::string folder = model("bert_classes"), reranker = model("distilbert_classes");
  expect_error({"attribute", folder, "a", "--class", "other"}, {"--class", "LABEL_0, LABEL_1, LABEL_2", "other"});
  expect_error({"attribute", golden("gpt2"), "--ids", "5", "--class", "a"}, {"no labels"});
  expect_error({"attribute", folder, "q", "a", "--document", "0"}, {"3 labels"});
  expect_error({"attribute", reranker, "q", "a", "--document", "1"}, {"--document", "below 1"});
  expect_usage_error({"attribute", reranker, "q", "a", "--class", "LABEL_0"}, {"--document"});
  expect_usage_error({"attribute", folder, "a"}, {"--token"});
  expect_usage_error({"attribute", folder, "a", "--class", "LABEL_0", "--ablate"}, {"--ablate"});
  expect_usage_error({"attribute", golden("gpt2"), "--ids", "5", "--token", "#3", "--method", "ig"}, {"--method"});
}

TEST_F(AttributeLabel, ThePageHasTheNumbersOfTheCommands) {
  const std::string folder = model("distilbert_classes");
  const WrittenPage page = look({folder, "q r", "--pair", "a b c"});
  EXPECT_EQ(page.index["label"]["name"], "LABEL_0");
  EXPECT_EQ(page.index["label"]["texts"], Json({-1, 0, 0, -1, 1, 1, 1, -1}));
  EXPECT_EQ(values_of<float>(page, "label.output"),
            json_of({"classify", folder, "q r", "--pair", "a b c"})["logits"].get<std::vector<float>>());
  const Json parts = json_of({"attribute", folder, "q r", "--pair", "a b c", "--class", "LABEL_0"});
  const Json components =
      json_of({"attribute", folder, "q r", "--pair", "a b c", "--class", "LABEL_0", "--by", "component"});
  const auto shares = values_of<double>(page, "attribution.component");
  ASSERT_EQ(shares.size(), components["terms"].size());
  for (std::size_t i = 0; i < shares.size(); ++i) EXPECT_EQ(shares[i], components["terms"][i]["value"].get<double>());
  const auto heads = values_of<double>(page, "attribution.head");
  ASSERT_EQ(heads.size(), 6U);
  for (const Json& term : parts["terms"]) {
    if (term["name"] == "blocks.1.attn.head.2") {
      EXPECT_EQ(heads[5], term["value"].get<double>());
    }
  }
  const Json words = json_of({"attribute", folder, "q r", "--pair", "a b c", "--class", "LABEL_0", "--method", "ig"});
  EXPECT_EQ(values_of<double>(page, "attribution.token"), words["tokens"].get<std::vector<double>>());

  const auto pattern = values_of<float>(page, "blocks.1.attn.hook_pattern");
  double sum = 0;
  for (const std::size_t t : {1U, 2U}) {
    for (const std::size_t s : {4U, 5U, 6U}) sum += static_cast<double>(pattern[2 * 64 + 8 * t + s]);
  }
  EXPECT_NEAR(values_of<double>(page, "heads.to_second")[5], sum / 2, 1e-6);
  EXPECT_TRUE(std::isnan(values_of<double>(look({folder, "q r"}), "heads.to_first")[0]));
}

TEST_F(AttributeLabel, PagesOfOtherModelsAreRefused) {
  const std::string out = folder_ / "page.html";
  expect_error({"look", model("bert_tags"), "a b", "--out", out}, {"classifier"});
  expect_error({"look", model("bert_classes"), "a b", "--set", "hook_embed=0", "--out", out}, {"--set"});
  expect_error({"look", model("bert_classes"), "a b", "--class", "x", "--out", out}, {"--class", "LABEL_0"});
  expect_error({"look", golden("gpt2"), "--ids", "5", "--class", "x", "--out", out}, {"labels"});
}

}  // namespace
}  // namespace vitrine::test
