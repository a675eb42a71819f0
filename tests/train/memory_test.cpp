// Compares the estimate of training memory with the peak memory of a process that trains.
#include "train/memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/temp_folder.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/init.h"
#include "support/training.h"

namespace vitrine::test {
namespace {

/// The peak resident memory (VmHWM) in bytes.
double peak_of_this_process() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    double kilobytes = 0;
    if (word == "VmHWM:" && in >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

/// The peak memory of a child process that only trains; 0 if it failed.
double peak_of(const TinyRun& run) {
  int ends[2];
  if (::pipe(ends) != 0) return 0;
  const pid_t child = ::fork();
  if (child == 0) {
    double peak = 0;
    try {
      std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
      train_tiny(run, false, 2);
      peak = peak_of_this_process();
    } catch (...) {
      peak = 0;
    }
    const bool is_written = ::write(ends[1], &peak, sizeof peak) == sizeof peak;
    ::_exit(is_written ? 0 : 1);
  }
  double peak = 0;
  const bool is_read = ::read(ends[0], &peak, sizeof peak) == sizeof peak;
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  return is_read ? peak : 0;
}

struct ModelShape {
  const char* name;
  const char* words;
};

class MemoryOf : public testing::TestWithParam<ModelShape> {};

TEST_P(MemoryOf, PeakIsAtMostTenPercentAboveTheEstimate) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers use additional memory";
#endif
  const TempFolder folder;
  write_corpus(folder / "tokens", 2048, 20'000);
  for (const std::string train : {"", "recompute = true\n", "dropout = 0.1\ndtype = \"bf16\"\n"}) {
    SCOPED_TRACE(train);
    TinyRun run;
    run.model = std::string("[model.config]\nmodel_type = \"vitrine\"\nd_model = 256\nvocab_size = 2048\n") +
                "max_seq_len = 256\nn_layers = 4\n" + GetParam().words;
    run.data = folder / "tokens";
    run.out = folder / ("run" + std::to_string(train.size()));
    run.steps = 2;
    run.schedule = "";
    run.seq_len = 256;
    run.train = train;
    run.log = "";
    const TrainConfig config = parse_train_config(run.toml(), "test.toml");
    const ModelConfig model = read_model_config(family_of(config.model.config, "test"), config.model.config, "test");
    ThreadPool pool(1);
    TrainWorkload workload{run.batch, run.seq_len, config.train.dtype, config.optimizer.kind};
    workload.recompute = config.train.recompute;
    workload.dropout = config.train.dropout > 0;
    const double estimate = total_bytes(training_memory(model, workload, pool)), peak = peak_of(run);
    ASSERT_GT(peak, 0);
    EXPECT_LE(peak, 1.1 * estimate) << peak / 1e6 << " MB of " << estimate / 1e6;
    EXPECT_GE(peak, 0.6 * estimate) << peak / 1e6 << " MB of " << estimate / 1e6;
    RecordProperty("peak", static_cast<int>(peak / 1e6));
    std::printf("%s %s peak %.0f MB of %.0f, %.2f\n", GetParam().name, train.c_str(), peak / 1e6, estimate / 1e6,
                peak / estimate);
  }
}

/// The base is mapped: its pages count, but have no gradients and no moments.
TEST(AdapterMemory, PeakIsAtMostTenPercentAboveTheEstimate) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers use additional memory";
#endif
  const TempFolder folder;
  write_corpus(folder / "tokens", 2048, 20'000);
  const Json json = {{"model_type", "llama"},      {"vocab_size", 2048},     {"hidden_size", 256},
                     {"intermediate_size", 768},   {"num_hidden_layers", 6}, {"num_attention_heads", 4},
                     {"num_key_value_heads", 4},   {"rms_norm_eps", 1e-5},   {"max_position_embeddings", 256},
                     {"tie_word_embeddings", true}};
  ThreadPool pool(1);
  init_checkpoint(json, "test", folder / "base", DType::bf16, 1, pool);
  const Checkpoint base = load_checkpoint(folder / "base");
  for (const std::string lora : {"rank = 16\n", "rank = 4\nlayers = [4, 5]\n", "rank = 16\ndropout = 0.1\n"}) {
    SCOPED_TRACE(lora);
    TinyRun run;
    run.model = "[model]\nfrom = \"" + (folder / "base") + "\"\n";
    run.data = folder / "tokens";
    run.out = folder / ("run" + std::to_string(lora.size()));
    run.steps = 2;
    run.schedule = "";
    run.seq_len = 256;
    run.more = "[lora]\n" + lora;
    run.log = "";
    const TrainConfig config = parse_train_config(run.toml(), "test.toml");
    const Trainable trainable(base, new_adapter(base, config.lora->adapter, 1));
    TrainWorkload workload{run.batch, run.seq_len};
    workload.trainable = &trainable;
    workload.adapter_dropout = config.lora->dropout > 0;
    const double estimate = total_bytes(training_memory(base.model->config(), workload, pool)), peak = peak_of(run);
    ASSERT_GT(peak, 0);
    EXPECT_LE(peak, 1.1 * estimate) << peak / 1e6 << " MB of " << estimate / 1e6;
    EXPECT_GE(peak, 0.6 * estimate) << peak / 1e6 << " MB of " << estimate / 1e6;
    std::printf("%s peak %.0f MB of %.0f, %.2f\n", lora.c_str(), peak / 1e6, estimate / 1e6, peak / estimate);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MemoryOf,
    testing::Values(ModelShape{"Gpt2",
                               "n_heads = 4\nd_ff = 1024\npositions = \"learned\"\nnorm = \"layer\"\nnorm_bias = "
                               "true\nqkv_bias = true\nactivation = \"gelu\"\ngated = false\ntied = true\n"},
                    ModelShape{"Gemma2",
                               "n_heads = 8\nn_kv_heads = 4\nhead_dim = 64\nd_ff = 1024\nnorm_place = "
                               "\"both\"\nnorm_weight_offset = 1.0\nactivation = \"gelu_pytorch_tanh\"\ntied = "
                               "true\nembedding_scale = 16.0\nscore_softcap = 50.0\nlogit_softcap = "
                               "30.0\nwindow = 128\nfull_every = 2\n"},
                    ModelShape{"Experts", "n_heads = 4\nn_kv_heads = 2\nd_ff = 512\nn_experts = 8\ntop_k = 2\n"}),
    [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace vitrine::test
