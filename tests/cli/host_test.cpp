// The stack size and libm of the host do not change results.
#include "cli/program.h"
#include "support/training.h"

namespace vitrine::test {
namespace {

/// The files and the output of commands that compute.
class Host : public testing::Test {
 protected:
  Host() {
    write_corpus(folder_ / "tokens", 23, 400);
    write_file(folder_ / "config.json", R"({"model_type": "vitrine", "d_model": 24, "n_layers": 2, "n_heads": 2,
      "d_ff": 32, "vocab_size": 23, "max_seq_len": 64, "positions": "rope", "rope_theta": 10000.0})");
    write_file(folder_ / "text", "Once upon a time there was a cat.\nIt sat on the mat.\n");
  }

  /// Runs every command with output files in the folder `name`; returns what the commands print and write.
  std::vector<std::string> results(const std::string& name, const Launch& launch, const Arguments& before = {}) {
    const std::string out = folder_ / name;
    std::filesystem::create_directory(out);
    TinyRun run;
    run.data = folder_ / "tokens";
    run.out = out + "/run";
    run.steps = 4;
    write_file(out + ".toml", run.toml());
    const std::string tokenizer = out + "/tokenizer.json";
    std::vector<std::string> all;
    for (const Arguments& command : {
             Arguments{"predict", "Once upon a time"},
             {"generate", "Once upon a time", "--seed", "3", "--max-tokens", "20"},
             {"logits", "Once upon a time", "--out", out + "/logits.npy"},
             {"trace", "Once upon a time", "--out", out + "/trace.safetensors"},
             {"grad", "Once upon a time", "--out", out + "/grad.safetensors"},
             {"eval", folder_ / "text"},
             {"tokenize", "Once upon a time"},
             {"detokenize", "5", "6", "7"},
             {"info"},
             {"example"},
             {"embed", source_dir() + "/models/default", "#5", "#6"},
             {"init", folder_ / "config.json", out + "/init", "--seed", "3"},
             {"quantize", golden("gpt2"), out + "/model.gguf", "--type", "f16"},
             {"tokenizer", "train", folder_ / "text", "--vocab-size", "270", "--out", tokenizer},
             {"data", "pack", folder_ / "text", "--tokenizer", tokenizer, "--out", out + "/packed"},
             {"train", out + ".toml", "--threads", "2"},
             {"data", "baselines", folder_ / "tokens"},
             {"plot", out + "/run", "--out", out + "/curves.svg"},
         }) {
      Arguments line = before;
      line.insert(line.end(), command.begin(), command.end());
      const Outcome o = run_program(line, launch);
      EXPECT_EQ(o.status, 0) << testing::PrintToString(line) << " signal " << o.signal << "\n" << o.err;
      if (command[0] != "logits" && command[0] != "init" && command[0] != "train") all.push_back(o.out);
    }
    for (const char* file : {"/logits.npy", "/trace.safetensors", "/grad.safetensors", "/init/model.safetensors",
                             "/model.gguf", "/run/last/model.safetensors"}) {
      all.push_back(read_file(out + file));
    }
    return all;
  }

  const TempFolder folder_;
};

TEST_F(Host, AStackOf256KiBSuffices) {
  if (kSlowdown > 1) GTEST_SKIP() << "sanitizers enlarge stack frames";
  const Arguments small = {"-c", "ulimit -s 256 && exec \"$0\" \"$@\"", VITRINE_PROGRAM};
  results("small", {.program = "/bin/sh"}, small);
  Arguments bench = small;
  bench.insert(bench.end(), {"bench", golden("gpt2"), "--prompt", "4", "--generate", "2"});
  EXPECT_EQ(run_program(bench, {.program = "/bin/sh"}).status, 0);
}

/// Without FMA, exp, log, pow and other functions of glibc return other bits.
TEST_F(Host, LibmDoesNotMatter) {
  const std::vector<std::string> with = results("run", {});
  std::filesystem::rename(folder_ / "run", folder_ / "with");  // so that both runs see the same paths
  EXPECT_EQ(results("run", {.environment = {"GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"}}), with);
}

}  // namespace
}  // namespace vitrine::test
