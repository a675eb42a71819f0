// Training of dictionaries: losses against values computed in float64, gradients against differences, and bits that
// depend neither on threads nor on interruptions.
#include "train/dictionary/dictionary_trainer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/rng.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"
#include "features/load_dictionary.h"
#include "support/data.h"
#include "support/training.h"
#include "train/dictionary/mixing_order.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A config without a model.
struct FileRun {
  std::string activations, out, sae;
  int steps = 20, batch = 64;

  std::string toml() const {
    return fmt::format("data.activations = '{}'\ntrain.steps = {}\ntrain.batch = {}\nout.folder = '{}'\n[sae]\n{}",
                       activations, steps, batch, out, sae);
  }
};

TrainResult train_text(const std::string& toml, bool resume = false, int threads = 1) {
  TrainRun run;
  run.threads = threads;
  run.resume = resume;
  run.build = "test";
  return train(parse_train_config(toml, "test.toml"), run);
}

/// Random rows, and targets that follow from them: y_j = relu(x_j) − x_{j + 2}.
void write_rows(const std::string& path, std::int64_t n, std::int64_t d_in, std::int64_t d_out) {
  SafetensorsWriter file(path, header_bytes_for(2));
  std::vector<float> x(static_cast<std::size_t>(n * d_in)), y;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(2 * uniform(7, 0, i) - 1);
  for (std::int64_t t = 0; t < n; ++t) {
    for (std::int64_t j = 0; j < d_out; ++j) {
      const auto at = static_cast<std::size_t>(t * d_in + j);
      y.push_back(std::max(x[at], 0.0f) - x[at + 2]);
    }
  }
  file.add("activations", {x.data(), {n, d_in}});
  file.add("targets", {y.data(), {n, d_out}});
  file.commit();
}

std::set<std::string> files_of(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), folder).string());
  }
  return names;
}

/// All files of the last checkpoints, and the metrics, are equal.
void expect_same_run(const std::string& a, const std::string& b) {
  EXPECT_EQ(metrics_of(a), metrics_of(b));
  const std::set<std::string> files = files_of(a + "/last/");
  EXPECT_EQ(files, files_of(b + "/last/"));
  for (const std::string& file : files) {
    EXPECT_TRUE(bytes_of(a + "/last/" + file) == bytes_of(b + "/last/" + file)) << file;
  }
}

TEST(DictionaryTraining, HasTheExpectedLosses) {
  const std::string folder = outside_data("features");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no features";
  const Json cases = parse_json(MappedFile::open(folder + "/expected.json")->text(), "expected.json");
  const TempFolder temporary;
  ASSERT_FALSE(cases["training"].empty());
  for (const Json& own : cases["training"]) {
    SCOPED_TRACE(own["start"].get<std::string>());
    FileRun run{folder + "/activations.safetensors", temporary / own["start"].get<std::string>(), ""};
    run.steps = static_cast<int>(own["steps"].size());
    run.batch = own["batch"];
    run.sae = fmt::format("architecture = '{}'\nstart = '{}'\nshuffle = false\nlr = {}\n",
                          own["architecture"].get<std::string>(), folder + "/" + own["start"].get<std::string>(),
                          own["lr"].get<double>());
    for (const auto& [key, value] : own["sae"].items()) run.sae += key + " = " + value.dump() + "\n";
    train_text(run.toml());
    const std::vector<Json> lines = metrics_of(run.out);
    ASSERT_EQ(lines.size(), own["steps"].size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const auto& [key, value] : own["steps"][i].items()) {
        // A count of active features changes by one where an activation is at its threshold.
        const bool is_count = key == "l0" || key == "l0_loss";
        const double expected = value.get<double>();
        EXPECT_NEAR(lines[i].at(key).get<double>(), expected, (is_count ? 5e-3 : 1e-4) * (1e-9 + std::abs(expected)))
            << key << " of step " << i;
      }
    }
  }
}

/// Each architecture, also as a transcoder, learns: its error on the same rows falls.
TEST(DictionaryTraining, LearnsInEveryArchitecture) {
  const TempFolder folder;
  write_rows(folder / "rows.safetensors", 256, 12, 10);
  const std::pair<const char*, const char*> cases[] = {
      {"standard", "l1_coefficient = 0.01\nl1_warm_up_steps = 5\n"},
      {"standard", "l1_coefficient = 0.01\nlp_norm = 0.5\n"},
      {"topk", "k = 4\ndead_feature_window = 3\n"},
      {"topk", "k = 4\nrescale_acts_by_decoder_norm = false\napply_b_dec_to_input = false\n"},
      {"batchtopk", "k = 3.5\nnormalize_activations = 'expected_average_only_in'\n"},
      {"jumprelu", "l0_coefficient = 0.01\njumprelu_ste_to_input = true\n"},
      {"jumprelu",
       "l0_coefficient = 0.01\njumprelu_sparsity_loss_mode = 'tanh'\npre_act_loss_coefficient = 1e-3\n"
       "dead_feature_window = 2\n"},
      {"jumprelu", "l0_coefficient = 0.01\njumprelu_sparsity_loss_mode = 'quadratic'\ntarget_l0 = 4\n"},
      {"standard", "l1_coefficient = 0.01\nnormalize_activations = 'layer_norm'\n"},
      {"standard", "l1_coefficient = 0.01\nnormalize_activations = 'constant_norm_rescale'\n"},
  };
  int number = 0;
  for (const auto& [architecture, more] : cases) {
    for (const bool is_transcoder : {false, true}) {
      if (is_transcoder && std::string(more).find("apply_b_dec") != std::string::npos) continue;
      SCOPED_TRACE(fmt::format("{} {} {}", architecture, more, is_transcoder));
      FileRun run{folder / "rows.safetensors", folder / std::to_string(number++), ""};
      run.steps = 100;
      run.sae = fmt::format("architecture = '{}'\nd_sae = 32\nlr = 1e-2\n{}{}", architecture, more,
                            is_transcoder ? "site = 'in'\nsite_out = 'out'\n" : "");
      train_text(run.toml(), false, 2);
      const std::vector<Json> lines = metrics_of(run.out);
      EXPECT_LT(lines.back().at("mse_loss").get<double>(), 0.8 * lines.front().at("mse_loss").get<double>());
      const auto dictionary = read_dictionary(run.out + "/last");
      EXPECT_EQ(dictionary->d_in(), 12);
      EXPECT_EQ(dictionary->d_out(), is_transcoder ? 10 : 12);
      EXPECT_EQ(dictionary->d_sae(), 32);
    }
  }
}

TEST(DictionaryTraining, RowsOfAFileAreInOrderAndBeginAgain) {
  const TempFolder folder;
  write_rows(folder / "rows.safetensors", 96, 8, 6);
  // With a rate of 0 the loss of a step is that of its rows.
  FileRun run{folder / "rows.safetensors", folder / "run", "d_sae = 16\nshuffle = false\nlr = 0\n"};
  run.steps = 6;
  run.batch = 32;
  train_text(run.toml());
  std::vector<double> losses = losses_of(run.out);
  EXPECT_EQ(losses[0], losses[3]);
  EXPECT_EQ(losses[2], losses[5]);
  EXPECT_NE(losses[0], losses[1]);
}

/// A model and a corpus.
class DictionaryRuns : public testing::Test {
 protected:
  DictionaryRuns() {
    write_corpus(folder_ / "tokens", 23, 2000);
    TinyRun model;
    model.data = folder_ / "tokens";
    model.out = folder_ / "model";
    model.log = "";
    train_tiny(model);
  }
  /// Two dictionaries of one forward.
  std::string toml(const std::string& out, int steps = 24, const std::string& more = "") const {
    const std::string stream = "context = 10\nstore_batch_size_prompts = 3\nbuffer = 100\n" + more;
    return fmt::format(
        "model.from = '{0}/last'\ndata.train = '{1}'\ntrain.steps = {2}\ntrain.batch = 16\nout.folder = '{3}'\n"
        "log.save_every = 5\n[[sae]]\nsite = 'blocks.0.hook_resid_post'\narchitecture = 'batchtopk'\nk = 3\nd_sae = "
        "40\n"
        "dead_feature_window = 3\nnormalize_activations = 'expected_average_only_in'\nn_batches_for_norm_estimate = 4\n"
        "{4}[[sae]]\nsite = 'blocks.1.ln2.hook_out'\nsite_out = 'blocks.1.hook_mlp_out'\narchitecture = 'jumprelu'\n"
        "d_sae = 24\n{4}",
        folder_ / "model", folder_ / "tokens", steps, folder_ / out, stream);
  }

  const TempFolder folder_;
};

TEST_F(DictionaryRuns, HaveTheSameBytesOnAnyThreadsAndAfterInterruptions) {
  train_text(toml("whole"));
  train_text(toml("threads"), false, 3);
  expect_same_run(folder_ / "whole", folder_ / "threads");
  const TrainConfig config = parse_train_config(toml("parts"), "test.toml");
  std::atomic<bool> stop = false;
  int stops = 0;
  for (bool is_done = false; !is_done && stops < 100;) {
    stop = false;
    int shown = 0;
    TrainRun run;
    run.resume = stops > 0;
    run.build = "test";
    run.interrupt = &stop;
    run.show = [&](const TrainProgress&) { stop = ++shown == 1 + stops % 3; };
    try {
      train(config, run);
      is_done = true;
    } catch (const Interrupted&) {
      ++stops;
    }
  }
  EXPECT_GE(stops, 5);
  expect_same_run(folder_ / "whole", folder_ / "parts");
  // A process that is killed leaves the checkpoints that it had.
  train_text(toml("killed", 13));
  for (const char* const name : {"step-000013"}) fs::remove_all((folder_ / "killed") + "/checkpoints/" + name);
  train_text(toml("killed"), true);
  expect_same_run(folder_ / "whole", folder_ / "killed");
}

TEST_F(DictionaryRuns, WriteFoldersThatTheModelReads) {
  train_text(toml("run"));
  const Checkpoint checkpoint = load_checkpoint((folder_ / "model") + "/last");
  ThreadPool pool(1);
  for (const char* const site : {"blocks.0.hook_resid_post", "blocks.1.hook_mlp_out"}) {
    const auto all = load_dictionaries({"", (folder_ / "run") + "/last/" + site, ""}, *checkpoint.model, pool);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(name_of(all.front()->output), site);
    EXPECT_EQ(all.front()->architecture, std::string(site).ends_with("out") ? "jumprelu_transcoder" : "jumprelu");
  }
  const Json last = metrics_of(folder_ / "run").back();
  EXPECT_TRUE(last.contains("blocks.0.hook_resid_post/topk_threshold"));
  EXPECT_TRUE(last.contains("blocks.1.hook_mlp_out/l0_loss"));
}

TEST_F(DictionaryRuns, RefuseWhatHasNoEffect) {
  const auto message = [&](const std::string& text) -> std::string {
    try {
      train_text(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(message(toml("a", 8, "frequency = 1\n")), HasSubstr("frequency"));
  EXPECT_THAT(message(toml("a", 8, "l1_coefficient = 1\n")), HasSubstr("it applies to standard only"));
  EXPECT_THAT(message(toml("a", 8) + "[lora]\nrank = 2\n"), HasSubstr("[lora]"));
  EXPECT_THAT(message(toml("a", 8) + "[schedule]\nlr = 1\n[sae2]\n"), HasSubstr("[sae2]"));
  const std::string one = fmt::format(
      "model.from = '{}/last'\ndata.train = '{}'\ntrain.steps = 2\ntrain.batch = 4\nout.folder = '{}'\n[sae]\nd_sae = "
      "8\n",
      folder_ / "model", folder_ / "tokens", folder_ / "b");
  EXPECT_THAT(message(one), HasSubstr("sae.site: the key is missing"));
  EXPECT_THAT(message(one + "site = 'blocks.7.hook_resid_post'\ncontext = 8\n"), HasSubstr("blocks.7.hook_resid_post"));
  EXPECT_THAT(message(one + "site = 'hook_embed'\ncontext = 999\n"), HasSubstr("sae.context"));
  EXPECT_THAT(message(one + "site = 'hook_embed'\ncontext = 8\nlr = 1\n[schedule]\nlr = 1\n"), HasSubstr("[schedule]"));
}

TEST(MixingOrder, ServesEveryRowOnceAndMixesThem) {
  const MixingOptions options{16, 30, 100, 0.5, true, 3};
  MixingOrder order(options), again(options);
  std::set<std::int64_t> seen;
  std::int64_t largest = 0, falls = 0, before = 0;
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::int64_t> batch = order.next();
    EXPECT_EQ(batch, again.next());
    ASSERT_EQ(batch.size(), 16U);
    for (const std::int64_t row : batch) {
      EXPECT_TRUE(seen.insert(row).second) << row;
      largest = std::max(largest, row);
      falls += row < before ? 1 : 0;
      before = row;
    }
  }
  EXPECT_LT(largest, order.passes() * 30);
  EXPECT_LE(order.passes() * 30, 50 * 16 + 130);
  EXPECT_GT(falls, 300);
  EXPECT_EQ(std::ssize(order.waiting()) + 50 * 16, order.passes() * 30);
  MixingOrder plain({16, 30, 100, 0.5, false, 3});
  for (std::int64_t i = 0; i < 9; ++i) {
    const std::vector<std::int64_t> batch = plain.next();
    for (std::size_t j = 0; j < batch.size(); ++j) EXPECT_EQ(batch[j], i * 16 + static_cast<std::int64_t>(j));
  }
}

}  // namespace
}  // namespace vitrine::test
