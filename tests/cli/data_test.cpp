// vitrine data: its files and counts, and errors.
#include <cmath>

#include "cli/program.h"
#include "data/shards.h"

namespace vitrine::test {
namespace {

class DataPack : public testing::Test {
 protected:
  DataPack() {
    write_file(text_, "One day.\n<|endoftext|>\nTwo days.\n");
    output_of({"tokenizer", "train", "--model", "bytes", "--special", "<|endoftext|>", "--out", tokenizer_});
  }
  Arguments pack(Arguments more) const {
    Arguments all = {"data", "pack", text_, "--tokenizer", tokenizer_, "--out", out_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  const TempFolder folder_;
  const std::string text_ = folder_ / "text.txt", tokenizer_ = folder_ / "tokenizer.json", out_ = folder_ / "tokens";
};

TEST_F(DataPack, ReportsCounts) {
  const Json json = Json::parse(output_of(pack({"--document-separator", "<|endoftext|>", "--json"})));
  EXPECT_EQ(json["tokens"], 20);
  EXPECT_EQ(json["documents"], 2);
  EXPECT_EQ(json["bytes"], 18);
  EXPECT_EQ(json["document_token"], 256);
  const TokenShards shards = TokenShards::open(out_);
  EXPECT_EQ(shards.document_starts(0, 20), (std::vector<std::int64_t>{0, 9}));
  expect_error(pack({}), {out_, "new or empty folder"});
  std::filesystem::remove_all(out_);
  EXPECT_THAT(output_of(pack({"--document-token", ""})),
              testing::HasSubstr("33 tokens of 33 bytes of text, 1 document, without a first token"));
}

TEST_F(DataPack, LostCharactersAreReported) {
  write_file(folder_ / "few.txt", "One day");
  output_of({"tokenizer", "train", folder_ / "few.txt", "--model", "char", "--out", tokenizer_});
  const Outcome o = run_program(pack({}));
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.err, testing::HasSubstr("bytes of the text were dropped"));
}

TEST_F(DataPack, BaselinesAreEvaluatedOnHeldOutText) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += i % 2 == 0 ? "ab" : "ba";
  write_file(text_, text);
  output_of(pack({"--document-token", ""}));
  const Json half = Json::parse(output_of({"data", "baselines", out_, "--validation-fraction", "0.5", "--json"}));
  EXPECT_EQ(half["counted_tokens"].get<int>() + half["held_out_tokens"].get<int>(), 4000);
  EXPECT_NEAR(half["held_out_tokens"].get<int>(), 2000, 10);
  EXPECT_NEAR(half["unigram"].get<double>(), std::log(2.0), 0.02);
  EXPECT_LT(half["fivegram"].get<double>(), half["bigram"].get<double>());
  EXPECT_THAT(output_of({"data", "baselines", out_, "--validation", out_, "--most-tokens", "100"}),
              testing::HasSubstr("counted in 100 tokens, measured on 100"));
  expect_usage_error({"data", "baselines", out_, "--validation-fraction", "1"}, {"--validation-fraction"});
  expect_error({"data", "baselines", text_}, {"vitrine data pack makes one"});
}

TEST_F(DataPack, BadInputLeavesNothing) {
  expect_usage_error({"data", "pack", text_, "--out", out_}, {"--tokenizer"});
  expect_usage_error({"data", "pack", "--tokenizer", tokenizer_, "--out", out_}, {"FILE"});
  expect_usage_error(pack({"--shard-tokens", "0"}), {"--shard-tokens"});
  expect_usage_error({"data"}, {});
  expect_error(pack({"--document-token", "<none>"}), {"[--document-token] the tokenizer has no special token"});
  expect_error(pack({}), {out_, "cannot write"}, {.largest_file = 60});
  expect_error({"data", "pack", folder_ / "none", "--tokenizer", tokenizer_, "--out", out_}, {"none] no such"});
  write_file(folder_ / "empty.jsonl", "\n");
  expect_error({"data", "pack", folder_ / "empty.jsonl", "--tokenizer", tokenizer_, "--out", out_}, {"has none"});
  write_file(folder_ / "bad.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n");
  expect_error({"data", "pack", folder_ / "bad.jsonl", "--tokenizer", tokenizer_, "--out", out_},
               {"bad.jsonl, line 2] expected an object with a \"text\""});
  EXPECT_FALSE(std::filesystem::exists(out_));
}

}  // namespace
}  // namespace vitrine::test
