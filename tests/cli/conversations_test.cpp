// vitrine data inspect, and eval on conversations and pairs.
#include <cmath>

#include "cli/program.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class Conversations : public testing::Test {
 protected:
  void SetUp() override {
    if (data_.empty()) GTEST_SKIP() << "VITRINE_DATA has no tuning/curves";
  }
  const std::string data_ = outside_data("tuning/curves");
  const std::string model_ = data_ + "/base", sft_ = data_ + "/sft.jsonl", pairs_ = data_ + "/preferences.jsonl";
  const TempFolder folder_;
};

TEST_F(Conversations, InspectPrintsTheSamples) {
  const Json expected = Json::parse(read_file(data_ + "/expected.json"))["samples"];
  std::istringstream lines(output_of({"data", "inspect", sft_, "--model", model_, "--json"}));
  std::size_t n = 0;
  for (std::string line; std::getline(lines, line); ++n) {
    const Json sample = Json::parse(line);
    EXPECT_EQ(sample["conversation"], n);
    EXPECT_TRUE(sample["ids"] == expected[n]["ids"] && sample["learned"] == expected[n]["learned"]) << n;
  }
  EXPECT_EQ(n, expected.size());
  const std::string text = output_of({"data", "inspect", sft_, "--tokenizer", model_});
  EXPECT_THAT(text, HasSubstr("<|im_start|>assistant\n«"));
  EXPECT_THAT(text, HasSubstr("<|im_end|>»"));
  EXPECT_THAT(text, HasSubstr("18 conversations, 18 samples"));
}

TEST_F(Conversations, InspectWarnsWhereNoEndIsLearned) {
  const std::string file = folder_ / "f.jsonl", chat_template = folder_ / "t.jinja";
  write_file(file, R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  write_file(chat_template, "{% for m in messages %}{{ m.content }}\n{% endfor %}");
  const Outcome o = run_program({"data", "inspect", file, "--model", model_, "--template", chat_template});
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.err, HasSubstr("no end of a turn is learned"));
}

TEST_F(Conversations, ErrorsNameTheLine) {
  const std::string file = folder_ / "f.jsonl";
  write_file(file, "\n{}\n");
  expect_error({"data", "inspect", file, "--model", model_}, {"f.jsonl, line 2", "none of these keys"});
  expect_error({"data", "inspect", sft_, "--model", model_, "--mask", "marks"}, {"{% generation %}"});
  expect_usage_error({"data", "inspect", sft_}, {"--model or --tokenizer"});
}

TEST_F(Conversations, EvalScoresWhatIsLearned) {
  const Json full = Json::parse(read_file(data_ + "/expected.json"));
  const Json found = Json::parse(output_of({"eval", model_, sft_, "--json"}));
  std::int64_t n = 0;
  for (const Json& sample : full["samples"]) {
    for (const Json& learned : sample["learned"]) n += learned.get<int>();
  }
  EXPECT_EQ(found["tokens"], n);
  EXPECT_EQ(found["conversations"], 18);
  EXPECT_NEAR(std::log(found["perplexity"].get<double>()), found["loss"].get<double>(), 1e-9);
  EXPECT_NEAR(found["loss"].get<double>(), 6.4, 0.3);
}

TEST_F(Conversations, EvalComparesPairs) {
  const Json plain = Json::parse(output_of({"eval", model_, "--pairs", pairs_, "--json"}));
  EXPECT_EQ(plain["pairs"], 12);
  EXPECT_TRUE(plain["reference"].is_null());
  const Json adapted =
      Json::parse(output_of({"eval", model_, "--pairs", pairs_, "--adapter", data_ + "/start", "--json"}));
  EXPECT_EQ(adapted["reference"], "base");
  EXPECT_NEAR(adapted["loss"].get<double>(), std::log(2.0), 0.3);
  // With a scale of 0 the model is its reference.
  const Json same =
      Json::parse(output_of({"eval", model_, "--pairs", pairs_, "--adapter", data_ + "/start=0", "--json"}));
  EXPECT_NEAR(same["loss"].get<double>(), std::log(2.0), 1e-12);
  EXPECT_EQ(same["margin"], 0.0);
  expect_error({"eval", model_, "--pairs", sft_}, {"line 1", "a pair"});
}

}  // namespace
}  // namespace vitrine::test
