// Signals, and standard files that are closed, full or broken.
#include <chrono>
#include <thread>

#include "cli/program.h"

namespace vitrine::test {
namespace {

class Interrupt : public testing::Test {
 protected:
  Arguments generate(int max_tokens) const {
    return {"generate", model_,         "--ids",
            "1",        "--tokenizer",  tokenizer_,
            "--greedy", "--max-tokens", std::to_string(max_tokens)};
  }
  /// Sends SIGINT while a file is being written, twice at once, as `timeout` does. No new file may remain, and the old
  /// file must be unchanged.
  void expect_clean_stop(const Arguments& arguments) {
    write_file(folder_ / "out", "old");
    const std::set<std::string> before = folder_.files();
    Program program(arguments);
    program.wait_until([&] { return folder_.files() != before; });
    program.send(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // pending signals of the same number are delivered once
    program.send(SIGINT);
    const Outcome o = program.finish();
    EXPECT_EQ(o.status, 130) << o.err;
    EXPECT_EQ(o.err, "vitrine: interrupted\n");
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(folder_.files(), before);
    EXPECT_EQ(read_file(folder_ / "out"), "old");
  }
  const TempFolder folder_;
  const std::string model_ = endless_model(folder_);
  const std::string tokenizer_ = small_tokenizer(folder_);
};

TEST_F(Interrupt, GenerationStopsOnASignal) {
  const std::string expected = output_of(generate(1000));
  for (const int number : {SIGINT, SIGTERM}) {
    Program program(generate(500'000));
    program.wait_for_output(10);
    program.send(number);
    const Outcome o = program.finish();
    EXPECT_EQ(o.status, 128 + number) << o.err;
    EXPECT_EQ(o.err, "vitrine: interrupted\n");
    const std::size_t common = std::min(expected.size(), o.out.size());
    EXPECT_EQ(o.out.substr(0, common), expected.substr(0, common));
  }
}

TEST_F(Interrupt, FilesAreWrittenWholeOrNotAtAll) {
  expect_clean_stop({"logits", model_, "--ids", many_ids(20'000), "--out", folder_ / "out"});
  expect_clean_stop({"trace", model_, "--ids", many_ids(4000), "--sites", "hook_logits", "--out", folder_ / "out"});
}

TEST_F(Interrupt, StopsWhileReading) {
  Program text({"tokenize", tokenizer_, "-"}, {.input = "abc", .hold_input = true});
  text.wait_until_it_reads();
  text.send(SIGINT);
  text.wait_until_it_ends();
  const Outcome o = text.finish();
  EXPECT_EQ(o.status, 130) << o.err;
  EXPECT_EQ(o.out, "");

  Program lines({"tokenize", tokenizer_, "--lines"}, {.input = "\"a\"\n", .hold_input = true});
  lines.wait_for_output(10);
  lines.wait_until_it_reads();
  lines.send(SIGTERM);
  lines.wait_until_it_ends();
  const Outcome l = lines.finish();
  EXPECT_EQ(l.status, 143) << l.err;
  EXPECT_EQ(l.out.find('\n'), l.out.size() - 1);
}

TEST_F(Interrupt, StopsWhileComputing) {
  std::string text;
  for (int i = 0; i < 3'000'000; ++i) text += "a b ";
  write_file(folder_ / "text", text);
  for (const Arguments& all :
       {Arguments{"tokenize", tokenizer_, "-"}, Arguments{"generate", model_, "-", "--tokenizer", tokenizer_},
        Arguments{"eval", model_, folder_ / "text", "--tokenizer", tokenizer_},
        Arguments{"tokenizer", "train", folder_ / "text", "--vocab-size", "300", "--out", folder_ / "out"},
        Arguments{"patch", model_, "--clean-ids", many_ids(3000), "--corrupted-ids", many_ids(3000), "--token", "#3"},
        Arguments{"look", model_, "--ids", many_ids(3000), "--out", folder_ / "out", "--json"},
        Arguments{"bench", model_, "--prompt", "8"}, Arguments{"example"}}) {
    Program program(all, {.input_path = folder_ / "text"});
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    program.send(SIGINT);
    const auto sent = std::chrono::steady_clock::now();
    const Outcome o = program.finish();
    EXPECT_LT(std::chrono::steady_clock::now() - sent, std::chrono::seconds(kSlowdown)) << all[0];
    if (o.signal == SIGINT) continue;  // it had not yet started
    EXPECT_EQ(o.status, 130) << all[0] << o.err;
    EXPECT_EQ(o.err, "vitrine: interrupted\n");
    EXPECT_EQ(o.out, "");
  }
}

TEST_F(Interrupt, ATraceThatTheDiskCannotHoldIsRefused) {
  const std::string ids = many_ids(60'000);  // maps of over 10^11 bytes
  if (std::filesystem::space(folder_ / "").available > 100'000'000'000) GTEST_SKIP() << "the disk can hold the trace";
  expect_error({"trace", model_, "--ids", ids, "--out", folder_ / "out"}, {"out", "bytes free on the disk", "--sites"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(Interrupt, StopsWhileItsOutputIsBlocked) {
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "\"a\"\n";
  write_file(folder_ / "lines", lines);
  Program program({"tokenize", tokenizer_, "--lines"}, {.input_path = folder_ / "lines"});
  program.wait_until_its_output_is_stuck();
  program.send(SIGINT);
  program.wait_until_it_ends();
  const Outcome o = program.finish();
  EXPECT_EQ(o.status, 130) << o.err;
  EXPECT_LT(o.out.size(), 40 * 5000U);
  EXPECT_EQ(o.out.back(), '\n') << "the last line is incomplete";
}

TEST_F(Interrupt, BrokenPipe) {
  Program program(generate(500'000));
  program.wait_for_output(1);
  program.close_output();
  const Outcome o = program.finish();
  EXPECT_EQ(o.signal, SIGPIPE) << o.status;
  EXPECT_EQ(o.err, "");
}

TEST_F(Interrupt, StdoutClosedOrFull) {
  for (const Arguments& all : {generate(20), Arguments{"--help"}, Arguments{"--version"}, Arguments{"trace", "--help"},
                               Arguments{"tokenize", tokenizer_, "a"}, Arguments{"detokenize", tokenizer_, "259"}}) {
    expect_error(all, {"[stdout]"}, {.closed = {1}});
    expect_error(all, {"[stdout]", "No space left"}, {.output_path = "/dev/full"});
    const Outcome silent = run_program(all, {.closed = {1, 2}});
    EXPECT_EQ(silent.status, 1) << silent.signal;
  }
  const Outcome quiet = run_program(generate(20), {.closed = {2}});
  EXPECT_EQ(quiet.status, 0);
  EXPECT_NE(quiet.out, "");
}

TEST_F(Interrupt, StdinClosedOrUnreadable) {
  for (const Arguments& all : {Arguments{"tokenize", tokenizer_, "-"}, Arguments{"tokenize", tokenizer_, "--lines"},
                               Arguments{"generate", model_, "-", "--tokenizer", tokenizer_}}) {
    expect_error(all, {"[stdin] cannot read"}, {.closed = {0}});
    expect_error(all, {"[stdin] cannot read"}, {.input_path = "/"});
  }
  EXPECT_NE(run_program(generate(20), {.closed = {0}}).out, "");
}

}  // namespace
}  // namespace vitrine::test
