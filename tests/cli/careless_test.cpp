// Common mistakes and accidents: arguments in the wrong order, unusual texts, full disks, concurrent programs, Ctrl-C
// at any stage, `| head`.
#include "cli/program.h"

namespace vitrine::test {
namespace {

class Careless : public testing::Test {
 protected:
  /// A model of a few million parameters, slow enough to be interrupted while it is written or run.
  Arguments init(const std::string& out) const {
    return {"init",  "gpt2",           out,      "--set", "n_layers=6", "--set", "vocab_size=300",
            "--set", "bos_token_id=1", "--seed", "1"};
  }
  /// Files and folders, at any depth.
  std::set<std::string> everything() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "")) {
      names.insert(entry.path().string());
    }
    return names;
  }
  void expect_stopped(Program& program, int number, const std::set<std::string>& before) const {
    program.send(number);
    const Outcome o = program.finish();
    EXPECT_EQ(o.status, 128 + number) << o.signal << o.err;
    EXPECT_EQ(o.err, "vitrine: interrupted\n");
    EXPECT_EQ(everything(), before);
  }
  const TempFolder folder_;
  /// A model whose vocabulary covers the small tokenizer.
  std::string model_of_texts() const {
    output_of({"init", "gpt2", folder_ / "texts", "--set", "n_layers=1", "--set", "d_model=24", "--set", "n_heads=2",
               "--set", "vocab_size=300", "--set", "bos_token_id=1", "--set", "max_seq_len=4000", "--seed", "1"});
    return folder_ / "texts";
  }
  const std::string model_ = endless_model(folder_);
  const std::string tokenizer_ = small_tokenizer(folder_);
};

TEST_F(Careless, AWrongOrderOfArgumentsIsExplained) {
  expect_error({"init", "mine", "gpt2"}, {"mine", "PRESET comes first"});
  for (const std::string command : {"predict", "generate"}) {
    expect_error({command, "Once upon a time", model_}, {"Once upon a time", "MODEL comes first"});
  }
  EXPECT_FALSE(std::filesystem::exists("gpt2"));
}

TEST_F(Careless, AnyTextIsAccepted) {
  const std::string model = model_of_texts();
  std::string words;
  for (int i = 0; i < 100'000; ++i) words += "a ";
  const std::vector<std::string> texts = {
      "", " ", "[INST] a, b [/INST]", "\xF0\x9F\x99\x82", "a\xFF\xFE b", "- a", std::string(2000, ' ')};
  for (const std::string& text : texts) {
    for (const std::string command : {"predict", "generate"}) {
      Arguments all = {command, model, text, "--tokenizer", tokenizer_};
      if (command == "generate") all.insert(all.end(), {"--max-tokens", "3", "--greedy"});
      const Json json = json_of(all);
      EXPECT_FALSE(json[command == "generate" ? "prompt_ids" : "tokens"].empty()) << text;
      output_of(all);
    }
  }
  expect_usage_error({"predict", model, "-a", "--tokenizer", tokenizer_}, {"-a", "put -- before"});
  EXPECT_NE(output_of({"predict", model, "--tokenizer", tokenizer_, "--", "-a"}), "");

  for (const std::string command : {"predict", "generate"}) {
    expect_error({command, model, "-", "--tokenizer", tokenizer_}, {"tokens", "context"}, {.input = words});
  }
  EXPECT_GT(json_of({"tokenize", tokenizer_, "-"}, {.input = words})["ids"].size(), 100'000U);
}

TEST_F(Careless, AFolderIsRefusedWhereAFileIsExpected) {
  expect_error({"eval", model_, folder_ / "endless", "--tokenizer", tokenizer_}, {"endless", "got a folder"});
  expect_error({"generate", model_, "a", "--tokenizer", folder_ / "endless"}, {"endless", "tokenizer"});
  expect_error({"init", "gpt2", folder_ / "endless"}, {"endless", "empty folder"});
}

TEST_F(Careless, AFileThatGrowsTooLargeIsRemoved) {
  const auto before = everything();
  const Launch small = {.largest_file = 100'000};
  expect_error({"logits", model_, "--ids", many_ids(2000), "--out", folder_ / "l.npy"}, {"l.npy", "too large"}, small);
  expect_error({"trace", model_, "--ids", many_ids(500), "--out", folder_ / "t.st"}, {"t.st", "too large"}, small);
  expect_error(init(folder_ / "m"), {"m/model.safetensors", "too large"}, small);
  EXPECT_EQ(everything(), before);
}

TEST_F(Careless, ConcurrentWritersLeaveOneCompleteFile) {
  const auto logits = [&](const std::string& first, const std::string& out) {
    return Arguments{"logits", model_, "--ids", first + many_ids(3000), "--out", folder_ / out};
  };
  output_of(logits("5,", "a"));
  output_of(logits("7,", "b"));
  {
    Program a(logits("5,", "both")), b(logits("7,", "both"));
    EXPECT_EQ(a.finish().status, 0);
    EXPECT_EQ(b.finish().status, 0);
  }
  const std::string both = read_file(folder_ / "both");
  EXPECT_TRUE(both == read_file(folder_ / "a") || both == read_file(folder_ / "b"));
  EXPECT_EQ(folder_.files(), (std::set<std::string>{"a", "b", "both", "tokenizer.bin"}));

  // A second process that creates the same model is refused and does not disturb the first.
  Program first(init(folder_ / "m"));
  first.wait_until([&] { return std::filesystem::exists(folder_ / "m") && !std::filesystem::is_empty(folder_ / "m"); });
  expect_error(init(folder_ / "m"), {"m", "expected a new or an empty folder"});
  EXPECT_EQ(first.finish().status, 0);
  output_of({"generate", folder_ / "m", "--ids", "1,2", "--max-tokens", "2"});
}

TEST_F(Careless, CtrlCStopsEveryStage) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "a b ";
  write_file(folder_ / "text", text);
  const std::string model = folder_ / "m";
  output_of(init(model));
  const auto before = everything();
  const std::string ids = many_ids(1000);
  for (const Arguments& all :
       {Arguments{"eval", model, folder_ / "text", "--tokenizer", tokenizer_},
        Arguments{"predict", model, "--ids", ids}, Arguments{"generate", model, "--ids", ids},
        Arguments{"logits", model, "--ids", ids, "--out", folder_ / "l"},
        Arguments{"trace", model, "--ids", ids, "--out", folder_ / "t"}, init(folder_ / "new")}) {
    SCOPED_TRACE(all[0]);
    int n_stopped = 0;
    for (const int wait_ms : {8, 15, 30, 60, 120}) {
      Program program(all);
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms * kSlowdown));
      program.send(SIGINT);
      const Outcome o = program.finish();
      if (o.status == 0 || o.signal == SIGINT) {  // it had finished or not yet started
        for (const char* made : {"l", "t", "new"}) std::filesystem::remove_all(folder_ / made);
        continue;
      }
      ++n_stopped;
      EXPECT_EQ(o.status, 130) << o.err;
      EXPECT_EQ(o.err, "vitrine: interrupted\n");
      EXPECT_EQ(everything(), before);
    }
    EXPECT_GT(n_stopped, 0) << "it always finished first";
  }
}

TEST_F(Careless, AClosedTerminalLeavesNothing) {
  const auto before = everything();
  Program program({"logits", model_, "--ids", many_ids(20'000), "--out", folder_ / "out"});
  program.wait_until([&] { return everything() != before; });
  expect_stopped(program, SIGHUP, before);
}

TEST_F(Careless, HeadClosesThePipe) {
  for (const Arguments& all : {Arguments{"predict", model_, "--ids", many_ids(3000)},
                               Arguments{"tokenize", tokenizer_, std::string(100'000, 'a')}}) {
    Program program(all);
    program.wait_for_output(1);
    program.close_output();
    const Outcome o = program.finish();
    EXPECT_EQ(o.signal, SIGPIPE) << o.status;
    EXPECT_THAT(o.err, testing::Not(testing::HasSubstr("error")));
  }
}

TEST_F(Careless, EveryCommandEndsSilentlyOnAClosedPipe) {
  const auto made = [&](const char* name) { return folder_ / name; };
  write_file(made("text"), "a b a b a b a b");
  const std::string text = made("text");
  const std::string tiny = golden("llama_mha") + "/config.json";
  const std::vector<Arguments> commands = {
      {"--help"},
      {"--version"},
      {"info", "--help"},
      {"predict", model_, "--ids", "1,2"},
      {"generate", model_, "--ids", "1,2"},
      {"logits", model_, "--ids", "1,2", "--out", made("out")},
      {"trace", model_, "--ids", "1,2", "--out", made("out")},
      {"grad", model_, "--ids", "1,2", "--out", made("out")},
      {"eval", model_of_texts(), text, "--tokenizer", tokenizer_},
      {"info", model_},
      {"info", model_, "--json"},
      {"init", tiny, made("new")},
      {"quantize", model_, made("out"), "--type", "f16"},
      {"embed", model_, "#1", "#2"},
      {"tokenize", tokenizer_, "a"},
      {"detokenize", tokenizer_, "259"},
      {"tokenizer", "train", text, "--vocab-size", "260", "--out", made("out")},
      {"data", "pack", text, "--tokenizer", tokenizer_, "--out", made("tokens")},
      {"plot", source_dir() + "/tests/metrics/metrics.jsonl", "--out", made("out")},
      {"score", text, text},
      {"example", "--ids", "1", "--target", "2"},
      {"completion", "bash"},
      {"man"},
      {"page", "sites"},
  };
  for (const Arguments& all : commands) {
    SCOPED_TRACE(testing::PrintToString(all));
    const Outcome o = run_program(all, {.no_reader = true});
    EXPECT_EQ(o.signal, SIGPIPE) << o.status;
    EXPECT_THAT(o.err, testing::Not(testing::HasSubstr("error")));
    for (const std::string& file : folder_.files()) EXPECT_FALSE(file.ends_with(".tmp")) << file;
  }
  const Outcome lines = run_program({"tokenize", tokenizer_, "--lines"}, {.input = "\"a\"\n", .no_reader = true});
  EXPECT_EQ(lines.signal, SIGPIPE) << lines.status;
}

}  // namespace
}  // namespace vitrine::test
