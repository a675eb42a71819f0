// vitrine tokenizer train: the files that it writes, and errors.
#include "cli/program.h"

namespace vitrine::test {
namespace {

class TrainTokenizer : public testing::Test {
 protected:
  TrainTokenizer() { write_file(text_, "To be, or not to be, that is the question:\nTo be <|endoftext|>\n"); }
  Arguments train(Arguments more) const {
    Arguments all = {"tokenizer", "train", text_, "--out", out_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  const TempFolder folder_;
  const std::string text_ = folder_ / "text.txt", out_ = folder_ / "tokenizer.json";
};

TEST_F(TrainTokenizer, TokenizeReadsEveryModel) {
  output_of(train({"--vocab-size", "270"}));
  EXPECT_EQ(json_of({"tokenize", out_, "<|endoftext|>"})["ids"], Json({0}));
  EXPECT_LE(json_of({"tokenize", out_, "To be"})["ids"].size(), 4U);
  const Json bpe = Json::parse(output_of(train({"--vocab-size", "270", "--ties", "smaller-id", "--json"})));
  EXPECT_EQ(bpe["vocab_size"], 270);
  EXPECT_EQ(bpe["merges"], 14);
  EXPECT_GT(json_of({"tokenize", out_, "<|endoftext|>"})["ids"].size(), 3U);

  output_of(train({"--model", "char", "--special", "<|endoftext|>"}));
  EXPECT_EQ(json_of({"tokenize", out_, "\n "})["ids"], Json({0, 1}));
  output_of({"tokenizer", "train", "--model", "bytes", "--out", out_});
  EXPECT_EQ(json_of({"tokenize", out_, "A\n"})["ids"], Json({65, 10}));
  EXPECT_EQ(json_of({"detokenize", out_, "65,10,32"})["text"], "A\n ");
}

TEST_F(TrainTokenizer, WordsWordPiecesAndFrequentCharacters) {
  output_of(train({"--model", "word", "--eos", "</s>", "--special", "<pad>", "--unk", "<u>", "--special", "<s>"}));
  EXPECT_EQ(json_of({"tokenize", out_, "To x</s><pad><u><s>"})["ids"], Json({4, 2, 0, 1, 2, 3, 0}));
  EXPECT_EQ(Json::parse(output_of(train({"--model", "word", "--vocab-size", "3", "--json"})))["vocab_size"], 3);
  EXPECT_EQ(json_of({"tokenize", out_, "To be, never"})["ids"], Json({1, 2, 0})) << "the default is <unk>";
  output_of(train({"--model", "wordpiece", "--vocab-size", "60", "--special", "[PAD]", "--eos", "[SEP]"}));
  EXPECT_EQ(json_of({"tokenize", out_, "[PAD]7"})["ids"], Json({0, 2, 1}));
  EXPECT_EQ(json_of({"tokenize", out_, "question", "--no-special"})["pieces"], Json({"ques", "##tio", "##n"}));
  output_of(train({"--model", "char", "--order", "frequency", "--unk", "?", "--vocab-size", "3"}));
  EXPECT_EQ(json_of({"tokenize", out_, "t Tz"})["ids"], Json({2, 1, 0, 0}));
  expect_usage_error(train({"--model", "wordpiece"}), {"--vocab-size"});
  expect_usage_error(train({"--model", "word", "--order", "frequency"}), {"--order", "requires --model char"});
  expect_usage_error(train({"--model", "char", "--min-frequency", "2"}), {"--min-frequency"});
  expect_error(train({"--model", "word", "--vocab-size", "1"}), {"--vocab-size", "more than the 1 special tokens"});
  expect_error(train({"--model", "wordpiece", "--vocab-size", "9"}), {"[vocabulary] expected a size from"});
}

TEST_F(TrainTokenizer, SpecialTokensAndPatternAreUsed) {
  output_of(train({"--vocab-size", "270", "--special", "<a>", "--special", "<b>", "--pattern", "\\w+|\\W+"}));
  EXPECT_EQ(json_of({"tokenize", out_, "<b><a>"})["ids"], Json({1, 0}));
  EXPECT_THAT(read_file(out_), testing::HasSubstr("\"Regex\": \"\\\\w+|\\\\W+\""));
  const Outcome small = run_program(train({"--vocab-size", "5000", "--special", "", "--min-frequency", "2", "--json"}));
  EXPECT_EQ(small.status, 0);
  EXPECT_THAT(small.err, testing::HasSubstr("has pairs for"));
  EXPECT_LT(Json::parse(small.out)["vocab_size"], 290);
}

TEST_F(TrainTokenizer, BadInputLeavesTheOldFile) {
  write_file(out_, "old");
  expect_error(train({"--vocab-size", "256"}), {"expected a size from 257 (256 bytes and 1 special tokens)"});
  expect_error(train({"--vocab-size", "300", "--pattern", "("}), {"regex"});
  expect_error({"tokenizer", "train", folder_ / "none", "--vocab-size", "300", "--out", out_}, {"none] no such"});
  write_file(folder_ / "empty.txt", "");
  for (const Arguments& more : {Arguments{"--vocab-size", "300"}, Arguments{"--model", "char"}}) {
    Arguments all = {"tokenizer", "train", folder_ / "empty.txt", "--out", out_};
    all.insert(all.end(), more.begin(), more.end());
    expect_error(all, {"the files contain none"});
  }
  write_file(folder_ / "broken.txt", "abc \xFF");
  expect_error({"tokenizer", "train", folder_ / "broken.txt", "--vocab-size", "300", "--out", out_},
               {"broken.txt] expected UTF-8, got the byte 0xFF at byte 4"});
  expect_error(train({"--vocab-size", "300"}), {out_, "cannot write"}, {.largest_file = 100});
  expect_usage_error(train({}), {"--vocab-size"});
  expect_usage_error({"tokenizer", "train", "--vocab-size", "300", "--out", out_}, {"FILE"});
  expect_usage_error(train({"--model", "bytes"}), {"takes no text"});
  expect_usage_error(train({"--model", "char", "--ties", "greater"}), {"--ties"});
  expect_usage_error(train({"--vocab-size", "-1"}), {"--vocab-size"});
  expect_usage_error({"tokenizer"}, {});
  EXPECT_EQ(read_file(out_), "old");
  EXPECT_EQ(folder_.files(), (std::set<std::string>{"text.txt", "tokenizer.json", "empty.txt", "broken.txt"}));
}

TEST_F(TrainTokenizer, CtrlCStopsIt) {
  std::string text;
  for (int i = 0; text.size() < 30'000'000; ++i) text += std::to_string(i * 7919) + " words, ";
  write_file(text_, text);
  Program program(train({"--vocab-size", "60000"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  program.send(SIGINT);
  const Outcome o = program.finish();
  EXPECT_TRUE(o.status == 130 || o.signal == SIGINT) << o.err;  // SIGINT ends it before its handler is installed
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(folder_.files(), std::set<std::string>{"text.txt"});
}

/// A tokenizer that appends its end to every text can be that of targets: the end is there once.
TEST(TargetTokenizer, MayAppendItsEnd) {
  const TempFolder folder;
  const std::string words = folder / "words", sounds = folder / "sounds", target = folder / "sounds.json";
  write_file(words, "ab\nba\n");
  write_file(sounds, "A B\nB A\n");
  output_of({"tokenizer", "train", words, "--model", "char", "--special", "<pad>", "--out", folder / "words.json"});
  output_of({"tokenizer", "train", sounds, "--model", "word", "--special", "<pad>", "--special", "</s>", "--eos",
             "</s>", "--out", target});
  EXPECT_THAT(output_of({"data", "pack", words, "--target", sounds, "--tokenizer", folder / "words.json",
                         "--target-tokenizer", target, "--out", folder / "pairs"}),
              testing::HasSubstr("2 pairs, 4 source tokens, 6 target tokens"));
}

}  // namespace
}  // namespace vitrine::test
