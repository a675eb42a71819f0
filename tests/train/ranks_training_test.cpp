// Runs on several ranks, as threads of this process: the bits of one rank, for every number of ranks.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "checkpoint/hugging_face/config_json.h"
#include "support/local_ranks.h"
#include "support/training.h"
#include "train/distributed/cluster_account.h"
#include "train/distributed/gradient_sum.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RanksOf : public testing::Test {
 protected:
  RanksOf() { write_corpus(folder_ / "tokens", 23, 2000); }

  TinyRun tiny(const std::string& name, const std::string& train, int micro_batches) const {
    TinyRun run;
    run.data = folder_ / "tokens";
    run.out = folder_ / name;
    run.train = train;
    run.micro_batches = micro_batches;
    run.batch = 2 * micro_batches;
    run.steps = 5;
    return run;
  }
  /// Returns what the run reports about its ranks.
  static Json train_on(int n_ranks, const TinyRun& tiny, Shard shard = Shard::none, bool resume = false,
                       int threads = 1, const std::atomic<bool>* enough = nullptr) {
    const TrainConfig config = parse_train_config(tiny.toml(), "test.toml");
    Json cluster;
    run_local_ranks(n_ranks, [&](Ranks& ranks) {
      TrainRun run;
      run.threads = threads;
      run.resume = resume;
      run.build = "test";
      run.ranks = &ranks;
      run.shard = shard;
      if (ranks.rank() == n_ranks - 1) run.enough = enough;
      const TrainResult result = train(config, run);
      if (ranks.is_first()) cluster = Json::parse(result.cluster);
    });
    EXPECT_EQ(cluster.at("bytes_sent").size(), static_cast<std::size_t>(n_ranks));
    return cluster;
  }
  void expect_same_on_three(const TinyRun& one, Shard shard) const {
    TinyRun several = one;
    several.out = folder_ / name_of(shard);
    train_on(3, several, shard);
    expect_same_run(one, several);
  }
  static void expect_same_run(const TinyRun& a, const TinyRun& b) {
    EXPECT_EQ(metrics_of(a.out), metrics_of(b.out));
    for (const char* const file : {"model.safetensors", "trainer_state.safetensors"}) {
      EXPECT_TRUE(bytes_of(a.out + "/last/" + file) == bytes_of(b.out + "/last/" + file)) << b.out << " " << file;
    }
  }

  const TempFolder folder_;
};

TEST(Leaves, AreDividedAmongRanksAndMakeUpTheTree) {
  for (std::int64_t n = 1; n <= 20; ++n) {
    for (int ranks = 1; ranks <= n; ++ranks) {
      std::int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        const TreeNode own = leaves_of(n, r, ranks);
        EXPECT_EQ(own.first, next);
        EXPECT_GT(own.size(), 0);
        for (const TreeNode& node : whole_nodes(n, own)) {
          EXPECT_EQ(node.first, next);
          next = node.end;
        }
        EXPECT_EQ(next, own.end);
      }
      EXPECT_EQ(next, n);
    }
  }
  EXPECT_EQ(gradient_buffers(1, 0, 1), 1);
  EXPECT_EQ(gradient_buffers(8, 0, 1), 4);
  EXPECT_EQ(gradient_buffers(8, 1, 2), 4);  // 3 for four leaves, and half of one from the other rank
  EXPECT_EQ(whole_nodes(8, {0, 8}), (std::vector<TreeNode>{{0, 8}}));
  EXPECT_EQ(whole_nodes(6, {1, 6}), (std::vector<TreeNode>{{1, 2}, {2, 4}, {4, 6}}));
  EXPECT_EQ((TreeNode{0, 7}).middle(), 4);
}

TEST_F(RanksOf, AnyNumberOfRanksComputesTheBitsOfOne) {
  int number = 0;
  for (const std::string train : {"dropout = 0.1\nz_loss = 1e-3\n", "dtype = \"bf16\"\nrecompute = true\n"}) {
    for (const int parts : {6, 8}) {
      const TinyRun one = tiny("one" + std::to_string(number), train, parts);
      train_tiny(one);
      for (int n = 2; n <= parts; ++n) {
        for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters}) {
          if (n > 4 && n % 4 != static_cast<int>(shard)) continue;
          SCOPED_TRACE(fmt::format("{} {} micro-batches, {} ranks, {}", train, parts, n, name_of(shard)));
          const TinyRun several = tiny("several" + std::to_string(++number), train, parts);
          train_on(n, several, shard, false, n == 2 ? 2 : 1);
          expect_same_run(one, several);
        }
      }
    }
  }
}

TEST_F(RanksOf, ExpertsAndMaskedDocumentsHaveTheSameBits) {
  TinyRun one = tiny("one", "balance_loss = 1e-2\nrouter_z_loss = 1e-3\n", 5);
  one.model += "n_experts = 4\ntop_k = 2\n";
  one.data_more += "mask_documents = true\n";
  train_tiny(one);
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::parameters}) {
    expect_same_on_three(one, shard);
  }
}

constexpr const char* kCorrections = "n_experts = 4\ntop_k = 2\nrouter_score = \"sigmoid\"\nrouter_correction = true\n";

TEST_F(RanksOf, CorrectionsMoveByTheChoicesOfAllRanks) {
  TinyRun one = tiny("one", "dtype = \"bf16\"\nrouter_bias_rate = 1e-3\n", 5);
  one.model += kCorrections;
  train_tiny(one, false, 2);
  for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters}) {
    expect_same_on_three(one, shard);
  }
  TinyRun parts = one;
  parts.out = folder_ / "parts";
  std::atomic<bool> enough = true;
  train_on(2, parts, Shard::none, false, 1, &enough);
  train_on(3, parts, Shard::gradients, true);
  expect_same_run(one, parts);
}

TEST_F(RanksOf, ARunContinuesOnAnotherNumberOfRanks) {
  const TinyRun whole = tiny("whole", "dtype = \"bf16\"\n", 4), parts = tiny("parts", whole.train, 4);
  train_tiny(whole);
  std::atomic<bool> enough = true;
  int n_runs = 0;
  for (const auto& [ranks, shard] :
       {std::pair(2, Shard::parameters), {3, Shard::none}, {4, Shard::gradients}, {3, Shard::parameters}}) {
    train_on(ranks, parts, shard, n_runs++ > 0, 1, &enough);  // one step each
    EXPECT_TRUE(fs::exists(fmt::format("{}/checkpoints/step-{:06}", parts.out, n_runs)));
  }
  train_on(4, parts, Shard::optimizer, true);
  expect_same_run(whole, parts);
}

/// Only rank 0 reads the checkpoint, buffers included.
TEST_F(RanksOf, ARunStartsFromACheckpoint) {
  TinyRun first = tiny("first", "router_bias_rate = 0.1\n", 2), one = tiny("one", "", 4);
  first.model += kCorrections;
  train_tiny(first);
  one.model = "[model]\nfrom = \"" + first.out + "/last\"\n";
  train_tiny(one);
  for (const Shard shard : {Shard::none, Shard::gradients, Shard::parameters}) {
    expect_same_on_three(one, shard);
  }
}

/// The embedding of one id is infinite, and only one micro-batch of a step has that id.
/// Overwrites an element of a float32 tensor in a file.
void set_element(const std::filesystem::path& path, const std::string& tensor, std::size_t index, float value) {
  std::string bytes = read_file(path.string());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const Json header = Json::parse(bytes.substr(sizeof length, length));
  const auto begin = header[tensor]["data_offsets"][0].get<std::size_t>();
  std::memcpy(bytes.data() + sizeof length + length + begin + index * sizeof value, &value, sizeof value);
  write_file(path.string(), bytes);
}

TEST_F(RanksOf, AMicroBatchThatIsNotFiniteSkipsTheStepOfAllRanks) {
  std::vector<std::int32_t> ids(2000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i == 300 ? 22 : static_cast<std::int32_t>(i % 22);
  write_corpus(folder_ / "rare", 23, ids);
  TinyRun one = tiny("one", "", 5);
  one.data = folder_ / "rare";
  one.steps = 14;
  one.model.replace(one.model.find("tied = true"), 11, "tied = false\nembedding_scale = 4");
  const TrainConfig config = parse_train_config(one.toml(), "test.toml");
  ThreadPool pool(1);
  const Trainable start =
      draw_trainable(config.model.read(), DType::f32, config.model.init, 1, pool, default_kernels());
  fs::create_directories(folder_ / "start");
  save_model(start, {family_of(config.model.config, "test"), config.model.config, ""}, folder_ / "start", pool);
  // Times the scale it is infinite.
  set_element(folder_ / "start/model.safetensors", "embed.weight", 22 * 16, std::numeric_limits<float>::max());
  one.model = "[model]\nfrom = \"" + (folder_ / "start") + "\"\n";
  train_tiny(one);
  const std::vector<double> losses = losses_of(one.out);
  const auto n_skipped = std::count_if(losses.begin(), losses.end(), [](double loss) { return std::isnan(loss); });
  EXPECT_GT(n_skipped, 0);
  EXPECT_LT(n_skipped, 14);
  for (const Shard shard : {Shard::none, Shard::gradients, Shard::parameters}) {
    expect_same_on_three(one, shard);
  }
}

TEST_F(RanksOf, TheAccountOnPaperHasTheBytesThatRanksSend) {
  for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters}) {
    for (const auto& [n_ranks, parts] : {std::pair(2, 4), {3, 7}}) {
      SCOPED_TRACE(fmt::format("{} {}", n_ranks, name_of(shard)));
      const TinyRun run = tiny(fmt::format("{}{}", name_of(shard), n_ranks), "dtype = \"bf16\"\n", parts);
      const Json cluster = train_on(n_ranks, run, shard);
      const TrainConfig config = parse_train_config(run.toml(), "test.toml");
      TrainWorkload workload{2, run.seq_len, DType::bf16};
      workload.share = {0, n_ranks, parts, shard};
      ThreadPool pool(1);
      const ClusterAccount account = account_cluster(config.model.read(), workload, {}, pool);
      EXPECT_EQ(Json(account.bytes_sent), cluster.at("bytes_sent"));
      EXPECT_GT(account.exposed_s, 0);
    }
  }
}

TEST_F(RanksOf, RanksReportWhatTheyDo) {
  const TinyRun run = tiny("run", "", 4);
  train_on(2, run);
  std::ifstream in(run.out + "/ranks.jsonl");
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    const Json report = Json::parse(line);
    EXPECT_EQ(report.at("rank"), lines % 2);
    EXPECT_EQ(report.at("step"), lines / 2 + 1);
    EXPECT_GT(report.at("bytes_sent").get<std::int64_t>(), 0);
  }
  EXPECT_EQ(lines, 10);
}

TEST_F(RanksOf, TooFewMicroBatchesAreRefusedBeforeAnythingIsWritten) {
  const TinyRun run = tiny("run", "", 2);
  try {
    train_on(3, run);
    ADD_FAILURE();
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), HasSubstr("[train.micro_batches] expected at least as many as ranks (3), got 2"));
  }
  EXPECT_FALSE(fs::exists(run.out));
}

TEST_F(RanksOf, TokensThatDifferAreRefused) {
  const std::vector<std::int32_t> ids(2000, 3);
  write_corpus(folder_ / "other", 23, ids);
  const TinyRun run = tiny("run", "", 2);
  try {
    run_local_ranks(2, [&](Ranks& ranks) {
      TinyRun own = run;
      if (!ranks.is_first()) own.data = folder_ / "other";
      TrainRun options;
      options.ranks = &ranks;
      train(parse_train_config(own.toml(), "test.toml"), options);
    });
    ADD_FAILURE();
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), HasSubstr("[rank 1 on "));
    EXPECT_THAT(e.what(), HasSubstr("shard-00000.tokens] expected the file that rank 0 has, got another"));
  }
  EXPECT_FALSE(fs::exists(run.out));
}

}  // namespace
}  // namespace vitrine::test
