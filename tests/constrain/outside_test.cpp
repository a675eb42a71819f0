// The examples of VITRINE_DATA: texts that schemas permit or not, and masks by brute force over real vocabularies.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/exceptions.h"
#include "constrain/request.h"
#include "constrain/schema/ordered_json.h"
#include "constrain/small_vocabulary.h"
#include "support/data.h"

namespace vitrine {
namespace {

using constrain::OrderedJson;

TEST(ConstrainOutside, SchemasPermitTheirTexts) {
  const std::string path = test::outside_data("agents/schemas.jsonl");
  if (path.empty()) GTEST_SKIP() << "no agents/schemas.jsonl under VITRINE_DATA";
  const auto vocabulary = test::byte_vocabulary();
  std::ifstream file(path);
  int n_texts = 0;
  for (std::string line; std::getline(file, line);) {
    const OrderedJson c = constrain::parse_ordered_json(line, "schemas.jsonl");
    const std::string schema = constrain::json_text(*c.find("schema"));
    const OrderedJson* refused = c.find("refused");
    std::optional<constrain::Matcher> start;
    try {
      start = test::matcher_of(test::schema(schema), vocabulary);
    } catch (const Error& e) {
      ASSERT_NE(refused, nullptr) << schema << ": " << e.what();
      EXPECT_NE(std::string(e.what()).find(refused->text), std::string::npos) << e.what();
      continue;
    }
    ASSERT_EQ(refused, nullptr) << schema;
    for (const OrderedJson& text : c.find("permitted")->items)
      EXPECT_TRUE(test::permits(*start, text.text)) << schema << text.text;
    for (const OrderedJson& text : c.find("not_permitted")->items) {
      EXPECT_FALSE(test::permits(*start, text.text)) << schema << text.text;
    }
    n_texts += static_cast<int>(c.find("permitted")->items.size() + c.find("not_permitted")->items.size());
  }
  EXPECT_GT(n_texts, 500);
}

TEST(ConstrainOutside, MasksEqualBruteForce) {
  const std::string path = test::outside_data("agents/masks.jsonl"), folder = test::outside_data("tokenizers");
  if (path.empty() || folder.empty()) GTEST_SKIP() << "no agents/masks.jsonl or tokenizers under VITRINE_DATA";
  struct Opened {
    std::unique_ptr<const Tokenizer> tokenizer;
    std::shared_ptr<const constrain::Vocabulary> vocabulary;
  };
  std::map<std::string, Opened> opened;
  std::ifstream file(path);
  int n_masks = 0;
  for (std::string line; std::getline(file, line); ++n_masks) {
    OrderedJson c = constrain::parse_ordered_json(line, "masks.jsonl");
    Opened& o = opened[c.find("tokenizer")->text];
    if (o.tokenizer == nullptr) {
      o.tokenizer = load_tokenizer(folder + "/" + c.find("tokenizer")->text);
      o.vocabulary = std::make_shared<const constrain::Vocabulary>(*o.tokenizer);
    }
    const Json want = Json::parse(constrain::json_text(*c.find("want")));
    std::erase_if(c.members, [](const auto& m) { return m.first == "want" || m.first == "tokenizer"; });
    const constrain::Request request = constrain::parse_request(constrain::json_text(c), "masks.jsonl");
    const Json got = constrain::answer(request, *o.tokenizer, o.vocabulary).json;
    for (const auto& [key, value] : want.items()) EXPECT_EQ(got.at(key), value) << key << " of " << line;
  }
  EXPECT_GT(n_masks, 100);
}

}  // namespace
}  // namespace vitrine
