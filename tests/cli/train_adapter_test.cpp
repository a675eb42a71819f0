// vitrine train with [lora] as a program: killed and resumed, and what the other commands do with the result.
#include "cli/program.h"
#include "support/training.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

class TrainAdapter : public testing::Test {
 protected:
  TrainAdapter() {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "the " + std::to_string(i * 37 % 101) + " cat sat on the mat, and so on.\n";
    write_file(text_, text);
    output_of({"tokenizer", "train", text_, "--model", "char", "--out", tokenizer_});
    output_of({"data", "pack", text_, "--tokenizer", tokenizer_, "--out", folder_ / "tokens"});
    const auto vocab_size = std::to_string(std::set<char>(text.begin(), text.end()).size());
    output_of({"init", "gpt2", base_, "--seed", "1", "--set", "d_model=32", "--set", "n_layers=2", "--set", "n_heads=2",
               "--set", "max_seq_len=16", "--set", "vocab_size=" + vocab_size});
  }
  std::string config(const std::string& name, const std::string& lora = "rank = 4\n") const {
    const std::string path = folder_ / (name + ".toml");
    write_file(path, "[model]\nfrom = \"" + base_ + "\"\n[data]\ntrain = \"" + folder_ / "tokens" +
                         "\"\ntokenizer = \"" + tokenizer_ +
                         "\"\n[train]\nsteps = 300\nbatch = 4\nseq_len = 12\n[lora]\n" + lora +
                         "[schedule]\nlr = 1e-2\n[log]\nsave_every = 5\n[out]\nfolder = \"" + folder_ / name + "\"\n");
    return path;
  }
  double loss_of(const Arguments& more = {}) const {
    Arguments all = {"eval", base_, text_, "--tokenizer", tokenizer_};
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all)["loss"];
  }

  const TempFolder folder_;
  const std::string text_ = folder_ / "text.txt", tokenizer_ = folder_ / "char.json", base_ = folder_ / "base";
};

TEST_F(TrainAdapter, KilledItResumesWithTheSameBytes) {
  output_of({"train", config("whole"), "--threads", "1"});
  const std::string path = config("killed"), last = folder_ / "killed/last";
  for (const char* const step : {"step-000020", "step-000150"}) {
    Arguments all = {"train", path, "--threads", "2"};
    if (fs::exists(last)) all.emplace_back("--resume");
    Program program(all);
    program.wait_until([&] { return fs::exists(folder_ / (std::string("killed/checkpoints/") + step)); });
    program.send(SIGKILL);
    EXPECT_EQ(program.finish().signal, SIGKILL);
  }
  output_of({"train", path, "--resume", "--threads", "1"});
  for (const std::string file : {"adapter_model.safetensors", "adapter_config.json", "trainer_state.safetensors"}) {
    EXPECT_TRUE(read_file(folder_ / ("whole/last/" + file)) == read_file(last + "/" + file)) << file;
  }
}

TEST_F(TrainAdapter, OtherCommandsReadTheResult) {
  output_of({"train", config("run"), "--threads", "2"});
  const std::string adapter = folder_ / "run/last", merged = folder_ / "merged";
  const double before = loss_of(), after = loss_of({"--adapter", adapter});
  EXPECT_LT(after, before - 0.5);
  EXPECT_EQ(json_of({"lora", "info", adapter})["modules"].size(), 8U);
  output_of({"lora", "merge", base_, adapter, merged});
  EXPECT_NEAR(json_of({"eval", merged, text_, "--tokenizer", tokenizer_})["loss"].get<double>(), after, 1e-5);
  const Json speed =
      json_of({"bench", base_, "--train", "--adapter", adapter, "--prompt", "4", "--generate", "2", "--seq", "8"});
  EXPECT_GT(speed["train_tokens_per_s"].get<double>(), 0);
}

TEST_F(TrainAdapter, ErrorsAreOneLineThatNamesTheKey) {
  expect_error({"train", config("a", "targets = [\"c_atn\"]\n")}, {"lora.targets", "did you mean c_attn?"});
  expect_error({"train", config("a", "targets = [\"gate\"]\n")}, {"lora.targets", "no linear map \"gate\""});
  expect_error({"train", config("a", "rank = 33\n")}, {"lora.rank", "expected at most 32", "got 33"});
  expect_error({"train", config("a", "from = \"none\"\n")}, {"none", "no such file or folder"});
}

}  // namespace
}  // namespace vitrine::test
