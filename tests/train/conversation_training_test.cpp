// Training on conversations and pairs: every step against PyTorch, and resuming.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "support/data.h"
#include "support/training.h"
#include "train/trainer.h"

namespace vitrine::test {
namespace {

/// The objectives of the goldens, as [preference] has them; "" for conversations.
const std::map<std::string, std::string>& preferences() {
  static const std::map<std::string, std::string> all = {
      {"sft", ""},
      {"sft_full", ""},
      {"dpo", "objective = 'dpo'\nbeta = 0.1\n"},
      {"cdpo", "objective = 'dpo'\nbeta = 0.2\nlabel_smoothing = 0.15\n"},
      {"ipo", "objective = 'ipo'\nbeta = 0.1\n"},
      {"hinge", "objective = 'hinge'\nbeta = 0.05\n"},
      {"simpo", "objective = 'simpo'\nbeta = 2.0\ngamma = 0.5\n"},
      {"orpo", "objective = 'orpo'\nbeta = 0.1\n"}};
  return all;
}

class CurvesOf : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (data_.empty()) GTEST_SKIP() << "VITRINE_DATA has no tuning/curves";
  }
  std::string config(const std::string& name, const std::string& out, std::int64_t steps, int micro_batches,
                     const std::string& data = "", const std::string& log = "") const {
    const std::string preference = preferences().at(name);
    std::string text = "[model]\nfrom = '" + data_ + "/base'\n[data]\n";
    text += preference.empty() ? "conversations = '" + data_ + "/sft.jsonl'\n"
                               : "pairs = '" + data_ + "/preferences.jsonl'\n";
    text += data.empty() ? "order = 'file'\nnow = '2026-01-02T03:04:05'\n" : data;
    text += "[train]\nbatch = 3\nseq_len = 512\nsteps = " + std::to_string(steps) +
            "\nmicro_batches = " + std::to_string(micro_batches) + "\n";
    text += "[optimizer]\nbeta1 = 0.9\nbeta2 = 0.999\nweight_decay = 0.0\n[schedule]\nname = 'constant'\nlr = 2e-3\n";
    if (name != "sft_full") text += "[lora]\nfrom = '" + data_ + "/start'\n";
    if (!preference.empty()) text += "[preference]\n" + preference;
    return text + "[log]\nsave_every = 2\n" + log + "[out]\nfolder = '" + out + "'\n";
  }
  static TrainResult run(const std::string& text, bool resume = false) {
    TrainRun run;
    run.threads = 2;
    run.resume = resume;
    run.build = "test";
    return train(parse_train_config(text, "config"), run);
  }
  Json expected(const std::string& name) const {
    return Json::parse(read_file(data_ + "/expected.json"))["curves"][name];
  }
  static std::vector<Json> lines_of(const std::string& out) {
    std::vector<Json> lines;
    std::istringstream file(read_file(out + "/metrics.jsonl"));
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  const std::string data_ = outside_data("tuning/curves");
  const TempFolder folder_;
};

TEST_P(CurvesOf, EqualPyTorchInEveryStep) {
  const Json golden = expected(GetParam());
  for (const int micro_batches : {1, 3}) {
    SCOPED_TRACE(micro_batches);
    const std::string out = folder_ / std::to_string(micro_batches);
    run(config(GetParam(), out, static_cast<std::int64_t>(golden.size()), micro_batches));
    const std::vector<Json> found = lines_of(out);
    ASSERT_EQ(found.size(), golden.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(i);
      for (const auto& [key, value] : golden[i].items()) {
        const double tolerance = key == "grad_norm" ? 1e-3 * value.get<double>() : 3e-5;
        EXPECT_NEAR(found[i].at(key).get<double>(), value.get<double>(), tolerance) << key;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CurvesOf,
                         testing::Values("sft", "sft_full", "dpo", "cdpo", "ipo", "hinge", "simpo", "orpo"),
                         [](const auto& param) { return std::string(param.param); });

class Talk : public CurvesOf {};

TEST_P(Talk, AResumedRunHasTheBytesOfAnUninterruptedOne) {
  const std::string shuffled = "order = 'shuffled'\n";  // and the time of the start
  const std::string whole = folder_ / "whole", parts = folder_ / "parts";
  const std::string now = "now = '2026-01-02T03:04:05'\n";
  run(config(GetParam(), whole, 7, 1, now + shuffled));
  run(config(GetParam(), parts, 3, 1, now + shuffled));
  run(config(GetParam(), parts, 7, 1, shuffled), true);
  for (const char* const file : {"adapter_model.safetensors", "trainer_state.safetensors"}) {
    EXPECT_TRUE(bytes_of(whole + "/last/" + file) == bytes_of(parts + "/last/" + file)) << file;
  }
}
INSTANTIATE_TEST_SUITE_P(All, Talk, testing::Values("sft", "dpo"),
                         [](const auto& param) { return std::string(param.param); });

class TalkErrors : public CurvesOf {};

TEST_P(TalkErrors, NothingIsWrittenForALineThatCannotBeLearnedFrom) {
  const std::string out = folder_ / "run", file = folder_ / "f.jsonl";
  write_file(file, read_file(data_ + "/sft.jsonl") + R"({"messages": [{"role": "user", "content": "Hi"}]})");
  std::string text = config("sft", out, 2, 1);
  const std::string given = data_ + "/sft.jsonl";
  text.replace(text.find(given), given.size(), file);
  try {
    run(text);
    ADD_FAILURE() << "no error";
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("line 19"));
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_P(TalkErrors, EpochsBecomeSteps) {
  std::string text = config("sft", folder_ / "run", 2, 1, "validation_fraction = 0.1\n");
  text.replace(text.find("steps = 2"), 9, "epochs = 1.5");
  const TrainResult result = run(text);
  EXPECT_EQ(result.step, 8);  // 16 conversations
  ASSERT_TRUE(result.val_loss.has_value());
  EXPECT_LT(*result.val_loss, 7);
}
INSTANTIATE_TEST_SUITE_P(All, TalkErrors, testing::Values("sft"),
                         [](const auto& param) { return std::string(param.param); });

/// A model is used with the template that it was trained with, so its folder has it.
TEST(TalkTemplate, IsWrittenWithTheModelAndWithTheAdapter) {
  const TempFolder folder;
  const std::string source = "{% for m in messages %}{{ m.role }}:{{ m.content }}<|endoftext|>{% endfor %}";
  write_file(folder / "t.jinja", source);
  write_file(folder / "f.jsonl", R"({"prompt": "Hi", "completion": "Hello."})");
  const std::string model = source_dir() + "/models/default";
  const auto last = [&](const std::string& out, const std::string& more) {
    TrainRun run;
    run.threads = 1;
    train(parse_train_config("[model]\nfrom = '" + model + "'\n[data]\nconversations = '" + folder / "f.jsonl" + "'\n" +
                                 more + "[train]\nsteps = 1\nbatch = 1\nseq_len = 64\n[schedule]\nlr = 1e-4\n" +
                                 "warmup = 0\n[out]\nfolder = '" + folder / out + "'\n",
                             "config"),
          run);
    return folder / out + "/last/chat_template.jinja";
  };
  const std::string given = "template = '" + folder / "t.jinja" + "'\n";
  EXPECT_EQ(read_file(last("whole", given)), source);
  EXPECT_EQ(read_file(last("adapter", given + "[lora]\nrank = 2\n")), source);
  EXPECT_FALSE(std::filesystem::exists(last("text", "")));
}

}  // namespace
}  // namespace vitrine::test
