// Training of lenses: losses and gradients against the lens itself, means of Jacobians, and bits that depend neither on
// threads nor on interruptions.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"
#include "data/dataset.h"
#include "inspect/lens.h"
#include "inspect/stream_jacobian.h"
#include "support/data.h"
#include "support/run.h"
#include "support/training.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kTuned = "kind = 'tuned'\n";
constexpr const char* kJacobian = "kind = 'jacobian'\nskip_first_positions = 3\n";

class LensRuns : public testing::Test {
 protected:
  LensRuns() : checkpoint_(golden_checkpoint("gemma2")) {
    std::ofstream file(ids());
    for (std::int64_t i = 0; i < 7; ++i) {
      lists_.push_back(some_ids(*checkpoint_.model, 4 + i % 5, static_cast<std::uint64_t>(i) + 1));
      file << (i == 3 ? Json::object({{"ids", lists_.back()}}) : Json(lists_.back())).dump() << "\n"
           << (i == 2 ? "\n" : "");
    }
  }
  std::string ids() const { return folder_ / "ids.jsonl"; }
  std::string toml(const std::string& out, const std::string& lens, const std::string& more = "") const {
    return fmt::format(
        "model.from = '{}/gemma2'\ndata.ids = '{}'\nout.folder = '{}'\nlog.save_every = 3\n{}\n[lens]\n{}", goldens(),
        ids(), folder_ / out, more, lens);
  }
  TrainResult train_text(const std::string& text, int threads = 1, bool resume = false) const {
    TrainRun run;
    run.threads = threads;
    run.resume = resume;
    run.build = "test";
    return train(parse_train_config(text, "test.toml"), run);
  }
  std::string message(const std::string& text) const {
    try {
      train_text(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  std::vector<float> stored(const std::string& out, const std::string& name) const {
    const SafetensorsFile file = SafetensorsFile::open((folder_ / out) + "/last/lens.safetensors");
    const std::span<const std::byte> bytes = file.tensors().at(name).bytes;
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  void expect_same_run(const std::string& a, const std::string& b) const {
    EXPECT_EQ(metrics_of(folder_ / a), metrics_of(folder_ / b));
    for (const char* const file : {"lens.safetensors", "trainer_state.safetensors", "trainer_state.json"}) {
      EXPECT_TRUE(bytes_of((folder_ / a) + "/last/" + file) == bytes_of((folder_ / b) + "/last/" + file)) << file;
    }
  }
  GenerateContext context() {
    GenerateContext context{checkpoint_.model.get(), &pool_, &default_kernels()};
    context.compute = Compute::f32;
    return context;
  }
  /// The mean KL of the states before each layer over the tokens of some lists.
  std::vector<double> divergences(std::span<const std::vector<std::int32_t>> lists, const TrainedLens* trained) {
    std::vector<double> sums;
    double n = 0;
    for (const std::vector<std::int32_t>& list : lists) {
      LensOptions options{1};
      options.trained = trained;
      const Lens found = lens(context(), list, options);
      sums.resize(found.cells.size() - 1);
      for (std::size_t state = 0; state < sums.size(); ++state) {
        for (const LensCell& cell : found.cells[state]) sums[state] += cell.kl;
      }
      n += static_cast<double>(list.size());
    }
    for (double& sum : sums) sum /= n;
    return sums;
  }

  const TempFolder folder_;
  const Checkpoint checkpoint_;
  ThreadPool pool_{2};
  std::vector<std::vector<std::int32_t>> lists_;
};

/// With SGD and a rate of 1, one step from 0 is minus the gradient of the loss.
TEST_F(LensRuns, TunedLensesFollowTheGradientOfTheirDivergence) {
  const std::string sgd =
      "train.steps = 1\ntrain.batch = 3\ndata.order = 'file'\noptimizer.name = 'sgd'\n"
      "optimizer.momentum = 0\nclip.off = true\nschedule.lr = 1\nschedule.name = 'constant'\n";
  train_text(toml("run", kTuned, sgd));
  const std::span lists(lists_.data(), 3);
  const std::vector<double> before = divergences(lists, nullptr);
  const Json line = metrics_of(folder_ / "run").front();
  double sum = 0;
  for (std::size_t layer = 0; layer < before.size(); ++layer) {
    EXPECT_NEAR(line.at(fmt::format("layers.{}", layer)).get<double>(), before[layer], 1e-9);
    sum += before[layer];
  }
  EXPECT_NEAR(line.at("loss").get<double>(), sum, 1e-9);

  const auto d = static_cast<std::int64_t>(checkpoint_.model->config().d_model);
  for (std::size_t layer = 0; layer < before.size(); ++layer) {
    std::vector<float> weight(static_cast<std::size_t>(d * d)), bias(static_cast<std::size_t>(d)), zeros = weight;
    TrainedLens trained;
    for (std::size_t i = 0; i < before.size(); ++i) {
      LinearParams& map = trained.layers.emplace_back();
      map.weight = {"w", "w", {d, d}, view_of(i == layer ? weight.data() : zeros.data(), d, d, d)};
      map.bias = {"b", "b", {d}, view_of(i == layer ? bias.data() : zeros.data(), 1, d, d)};
    }
    const std::string name = fmt::format("layers.{}", layer);
    const std::vector<float> dw = stored("run", name), db = stored("run", name + ".bias");
    const auto expect_slope = [&](float& value, float stepped) {
      constexpr float kStep = 1e-2f;
      value = kStep;
      const double above = divergences(lists, &trained)[layer];
      value = -kStep;
      const double below = divergences(lists, &trained)[layer];
      value = 0;
      const double slope = (above - below) / (2.0 * static_cast<double>(kStep));
      EXPECT_NEAR(-static_cast<double>(stepped), slope, 2e-4 + 1e-2 * std::abs(slope)) << name;
    };
    for (std::size_t i = 0; i < weight.size(); i += 101) expect_slope(weight[i], dw[i]);
    for (std::size_t i = 0; i < bias.size(); i += 5) expect_slope(bias[i], db[i]);
  }
}

TEST_F(LensRuns, TunedLensesLearnAndStartFromOthers) {
  train_text(toml("run", kTuned, "train.steps = 60\ntrain.batch = 7\nschedule.lr = 1e-2\n"), 2);
  const std::vector<double> losses = losses_of(folder_ / "run");
  EXPECT_LT(losses.back(), 0.3 * losses.front());
  const TrainedLens trained =
      read_trained_lens((folder_ / "run") + "/last", LensKind::tuned, checkpoint_.model->config());
  double sum = 0;
  for (const double own : divergences(lists_, &trained)) sum += own;
  EXPECT_LT(sum, losses.back());
  const std::string start = fmt::format("{}start = '{}/last'\n", kTuned, folder_ / "run");
  train_text(toml("next", start, "train.steps = 1\ntrain.batch = 7\n"));
  EXPECT_NEAR(losses_of(folder_ / "next").front(), sum, 1e-9);
}

TEST_F(LensRuns, JacobianLensesAreMeans) {
  train_text(toml("run", kJacobian), 2);
  std::vector<std::vector<double>> sums;
  double n = 0;
  const std::int64_t d = checkpoint_.model->config().d_model;
  for (const std::vector<std::int32_t>& list : lists_) {
    if (list.size() < 5) continue;
    std::vector<std::vector<float>> own(2, std::vector<float>(static_cast<std::size_t>(d * d)));
    const std::vector<Tensor> to = {{own[0].data(), {d, d}}, {own[1].data(), {d, d}}};
    add_jacobians(context(), list, {3, 4}, to);
    sums.resize(2, std::vector<double>(own[0].size()));
    for (std::size_t layer = 0; layer < 2; ++layer) {
      for (std::size_t i = 0; i < own[layer].size(); ++i) sums[layer][i] += static_cast<double>(own[layer][i]);
    }
    ++n;
  }
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const std::vector<float> mean = stored("run", fmt::format("layers.{}", layer));
    for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], sums[layer][i] / n, 1e-6);
  }
  const std::vector<Json> lines = metrics_of(folder_ / "run");
  EXPECT_EQ(static_cast<double>(lines.size()), n);
  EXPECT_EQ(lines.back().at("lists").get<double>(), n);
  EXPECT_EQ(lines.front().at("change").get<double>(), 1);
  EXPECT_LT(lines.back().at("change").get<double>(), 1);
  read_trained_lens((folder_ / "run") + "/last", LensKind::jacobian, checkpoint_.model->config());
  // Some lists a step, and the first lists only.
  const TrainResult some = train_text(toml("some", kJacobian, "train.batch = 2\ntrain.steps = 2\n"));
  EXPECT_EQ(some.step, 2);
  EXPECT_EQ(metrics_of(folder_ / "some").back().at("lists").get<double>(), 4);
}

TEST_F(LensRuns, HaveTheSameBytesOnAnyThreadsAndAfterInterruptions) {
  const std::pair<std::string, std::string> cases[] = {{kTuned, "train.steps = 9\ntrain.batch = 2\n"}, {kJacobian, ""}};
  int number = 0;
  for (const auto& [lens, more] : cases) {
    SCOPED_TRACE(lens);
    const auto named = [&](const char* name) { return name + std::to_string(number); };
    train_text(toml(named("whole"), lens, more));
    train_text(toml(named("threads"), lens, more), 3);
    expect_same_run(named("whole"), named("threads"));
    const TrainConfig config = parse_train_config(toml(named("parts"), lens, more), "test.toml");
    std::atomic<bool> stop = false;
    int stops = 0;
    for (bool is_done = false; !is_done && stops < 100;) {
      stop = false;
      int shown = 0;
      TrainRun run;
      run.resume = stops > 0;
      run.build = "test";
      run.interrupt = &stop;
      run.show = [&](const TrainProgress&) { stop = ++shown == 1 + stops % 2; };
      try {
        train(config, run);
        is_done = true;
      } catch (const Interrupted&) {
        ++stops;
      }
    }
    EXPECT_GE(stops, 3);
    expect_same_run(named("whole"), named("parts"));
    // A process that is killed leaves the checkpoints that it had.
    train_text(toml(named("killed"), lens, more));
    const std::string last = fs::canonical((folder_ / named("killed")) + "/last");
    fs::remove_all(last);
    train_text(toml(named("killed"), lens, more), 1, true);
    expect_same_run(named("whole"), named("killed"));
    ++number;
  }
}

TEST_F(LensRuns, RefuseWhatHasNoEffect) {
  const std::string counts = "train.steps = 1\ntrain.batch = 1\n";
  EXPECT_THAT(message(toml("a", "")), HasSubstr("lens.kind: the key is missing"));
  EXPECT_THAT(message(toml("a", "kind = 'logit'\n", counts)), HasSubstr("lens.kind"));
  EXPECT_THAT(message(toml("a", kTuned)), HasSubstr("train.steps: the key is missing"));
  EXPECT_THAT(message(toml("a", "kind = 'tuned'\ndim_batch = 2\n", counts)),
              HasSubstr("lens.dim_batch: it applies to"));
  EXPECT_THAT(message(toml("a", "kind = 'jacobian'\nstart = 'x'\n")), HasSubstr("lens.start: it applies to"));
  EXPECT_THAT(message(toml("a", kJacobian, "optimizer.name = 'sgd'\n")), HasSubstr("[optimizer] has no effect"));
  EXPECT_THAT(message(toml("a", kJacobian, "data.order = 'file'\n")), HasSubstr("data.order has no effect"));
  EXPECT_THAT(message(toml("a", kTuned, counts + "train.dtype = 'bf16'\n")), HasSubstr("it has no effect on [lens]"));
  EXPECT_THAT(message(toml("a", kTuned, counts + "lora.rank = 2\n")), HasSubstr("[lora] has no effect on [lens]"));
  EXPECT_THAT(message(toml("a", kTuned, counts + "data.train = 't'\n")), HasSubstr("ids already gives the data"));
  EXPECT_THAT(message("model.from = 'm'\ndata.ids = 'x'\nout.folder = 'o'\n" + counts),
              HasSubstr("data.ids: it applies to [lens] only"));
  EXPECT_THAT(message("model.from = 'm'\ndata.train = 'x'\nout.folder = 'o'\nlens.kind = 'tuned'\n" + counts),
              HasSubstr("data.ids: the key is missing"));
  EXPECT_THAT(message(toml("a", "kind = 'jacobian'\n")), HasSubstr("expected a list of at least 18 ids"));
}

TEST_F(LensRuns, RefuseListsThatTheModelCannotRead) {
  const auto message_of = [&](const std::string& lines) {
    std::ofstream(ids()) << lines;
    return message(toml("a", kJacobian));
  };
  EXPECT_THAT(message_of(""), HasSubstr("got an empty file"));
  EXPECT_THAT(message_of("[1,2,3]\n{\"id\":[1]}\n"), HasSubstr("line 2] expected a list of ids as in [464, 3139]"));
  EXPECT_THAT(message_of("[]\n"), HasSubstr("line 1] expected a list of ids"));
  EXPECT_THAT(message_of("[1,41]\n"), HasSubstr("line 1] expected ids from 0 to 40, got 41"));
  EXPECT_THAT(message_of("[1,-1]\n"), HasSubstr("got -1"));
  EXPECT_THAT(message_of("[1,1.5]\n"), HasSubstr("got 1.5"));
  EXPECT_THAT(message_of("[1,18446744073709551615]\n"), HasSubstr("expected ids"));
  EXPECT_THAT(message_of("[1,2\n"), HasSubstr("line 1"));
  std::string list = "[1";
  for (int i = 0; i < 64; ++i) list += ",2";
  EXPECT_THAT(message_of(list + "]\n"), HasSubstr("the list has 65 ids, the model's context is 64"));
}

}  // namespace
}  // namespace vitrine::test
