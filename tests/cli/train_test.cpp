// vitrine train as a program: killed, stopped, resumed, and with bad input.
#include <algorithm>
#include <map>
#include <random>

#include "cli/program.h"
#include "support/training.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Train : public testing::Test {
 protected:
  Train() {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "the " + std::to_string(i * 37 % 101) + " cat sat on the mat, and so on.\n";
    write_file(folder_ / "text.txt", text);
    output_of({"tokenizer", "train", folder_ / "text.txt", "--model", "char", "--out", tokenizer_});
    output_of({"data", "pack", folder_ / "text.txt", "--tokenizer", tokenizer_, "--out", tokens_});
    vocab_size_ = static_cast<int>(std::set<char>(text.begin(), text.end()).size());
  }
  /// A config in which the first occurrence of each `from` is replaced by `to`.
  std::string config(const std::string& name,
                     const std::vector<std::pair<std::string, std::string>>& changes = {}) const {
    std::string toml = TinyRun().model + R"([data]
train = "TOKENS"
validation_fraction = 0.1
tokenizer = "TOKENIZER"
[train]
steps = 40
batch = 4
micro_batches = 2
seq_len = 12
dropout = 0.1
[schedule]
lr = 1e-2
[log]
validate_every = 10
validate_batches = 3
save_every = 5
sample_every = 15
sample_tokens = 5
[out]
folder = "OUT"
)";
    const auto replace = [&toml](const std::string& from, const std::string& to) {
      const std::size_t at = toml.find(from);
      if (at == std::string::npos) return false;
      toml.replace(at, from.size(), to);
      return true;
    };
    for (const auto& [from, to] : changes) EXPECT_TRUE(replace(from, to)) << from;
    replace("vocab_size = 23", "vocab_size = " + std::to_string(vocab_size_));
    replace("TOKENS", tokens_);
    replace("TOKENIZER", tokenizer_);
    replace("OUT", folder_ / name);
    write_file(folder_ / (name + ".toml"), toml);
    return folder_ / (name + ".toml");
  }
  Arguments train(const std::string& config, bool resume = false) const {
    Arguments all = {"train", config, "--threads", "1"};
    if (resume) all.emplace_back("--resume");
    return all;
  }
  /// Runs the command to its end and returns the time that it takes.
  static std::chrono::microseconds time_of(const Arguments& all) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(run_program(all).status, 0);
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  }
  std::vector<Json> metrics(const std::string& name) const { return metrics_of(folder_ / name); }
  std::int64_t metrics_lines(const std::string& name) const {
    std::ifstream in(folder_ / (name + "/metrics.jsonl"), std::ios::binary);
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  }
  void expect_same_run(const std::string& a, const std::string& b) const {
    EXPECT_EQ(metrics(a), metrics(b));
    for (const std::string file : {"model.safetensors", "trainer_state.safetensors"}) {
      EXPECT_TRUE(read_file(folder_ / (a + "/last/" + file)) == read_file(folder_ / (b + "/last/" + file))) << file;
    }
  }
  void expect_loads_and_generates(const std::string& checkpoint) const {
    EXPECT_NE(output_of({"generate", checkpoint, "the", "--greedy", "--max-tokens", "3", "--threads", "1"}), "");
  }
  /// All files of the run's checkpoints, by path.
  std::map<std::string, std::string> checkpoints(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / (name + "/checkpoints"))) {
      if (entry.is_regular_file()) files[entry.path().string()] = read_file(entry.path().string());
    }
    return files;
  }

  const TempFolder folder_;
  const std::string tokenizer_ = folder_ / "char.json", tokens_ = folder_ / "tokens";
  int vocab_size_ = 0;
};

TEST_F(Train, KilledAtAnyMomentItResumesWithTheSameBits) {
  const std::vector<std::pair<std::string, std::string>> longer = {{"steps = 40", "steps = 400"},
                                                                   {"sample_every = 15", "sample_every = 50"}};
  const std::chrono::microseconds whole = time_of(train(config("whole", longer)));
  const std::string path = config("killed", longer);
  const std::string last = folder_ / "killed/last";
  // The run is killed 20 times, each time after a random step plus a random delay of up to 1/80 of the whole run's
  // time. If a resumed run is already past that step, it is killed within the first 1/16 of that time.
  std::mt19937 random(3);
  std::vector<std::int64_t> moments(20);
  for (std::int64_t& moment : moments) moment = random() % 340;
  std::sort(moments.begin(), moments.end());
  int killed = 0;
  for (const std::int64_t moment : moments) {
    Program program(train(path, fs::exists(folder_ / "killed/metrics.jsonl")));
    const bool is_past = metrics_lines("killed") > moment;
    program.wait_until([&] { return metrics_lines("killed") > moment; });
    std::this_thread::sleep_for(whole * (random() % 1000) / (is_past ? 16'000 : 80'000));
    program.send(SIGKILL);
    const Outcome o = program.finish();
    if (o.signal == 0) {  // the run may end before the last kills
      ASSERT_EQ(o.status, 0) << o.err;
      break;
    }
    ASSERT_EQ(o.signal, SIGKILL) << o.err;
    ++killed;
    if (fs::exists(last)) expect_loads_and_generates(last);
  }
  EXPECT_GE(killed, 10);
  const Outcome o = run_program(train(path, true));
  EXPECT_EQ(o.status, 0) << o.err;
  expect_same_run("whole", "killed");
  std::set<std::int64_t> steps;
  for (const Json& line : metrics("killed")) EXPECT_TRUE(steps.insert(line["step"].get<std::int64_t>()).second);
  EXPECT_EQ(steps.size(), 400U);
  for (const auto& entry : fs::directory_iterator(folder_ / "killed/checkpoints")) {
    EXPECT_NE(entry.path().extension(), ".tmp") << "a temporary file remains";
  }
}

TEST_F(Train, SignalsSaveFirst) {
  const std::vector<std::pair<std::string, std::string>> rarely = {{"save_every = 5", "save_every = 0"},
                                                                   {"steps = 40", "steps = 1500"},
                                                                   {"validate_batches = 3\n", ""},
                                                                   {"validate_every = 10", "validate_every = 50"}};
  const std::chrono::microseconds whole = time_of(train(config("whole", rarely)));
  const std::string path = config("stopped", rarely);
  std::mt19937 random(5);
  std::int64_t before = 0;
  for (int i = 0; i < 6; ++i) {
    Program program(train(path, i > 0));
    const auto lines = [&] { return metrics_lines("stopped"); };
    program.wait_until([&] { return lines() > before + 3; });
    std::this_thread::sleep_for(whole * (random() % 1000) / 20'000);
    program.send(i % 2 == 0 ? SIGINT : SIGTERM);
    const Outcome o = program.finish();
    ASSERT_EQ(o.status, i % 2 == 0 ? 130 : 143) << o.err;
    EXPECT_THAT(o.err, HasSubstr("vitrine: interrupted\n"));
    before = lines();
    const Json state = Json::parse(read_file(folder_ / "stopped/last/trainer_state.json"));
    EXPECT_EQ(state["step"].get<std::int64_t>() - (state["unfinished"].is_null() ? 0 : 1), before);
    expect_loads_and_generates(folder_ / "stopped/last");
  }
  ASSERT_EQ(run_program(train(path, true)).status, 0);
  expect_same_run("whole", "stopped");
}

TEST_F(Train, RefusesDataThatDoesNotFitTheModel) {
  expect_error(train(config("a", {{"TOKENS", folder_ / "none"}})), {"none]", "vitrine data pack"});
  expect_error(train(config("b", {{"TOKENS", folder_ / "text.txt"}})), {"text.txt]", "vitrine data pack"});
  fs::create_directory(folder_ / "empty");
  expect_error(train(config("c", {{"TOKENS", folder_ / "empty"}})), {"vitrine data pack"});
  expect_error(train(config("d", {{"vocab_size = 23", "vocab_size = 20"}})), {"ids up to", "only 20 tokens"});
  expect_error(train(config("e", {{"seq_len = 12", "seq_len = 17"}})), {"train.seq_len", "16"});

  write_file(folder_ / "short.txt", "the");
  output_of({"data", "pack", folder_ / "short.txt", "--tokenizer", tokenizer_, "--out", folder_ / "short"});
  expect_error(train(config("f", {{"TOKENS", folder_ / "short"}})), {"[data]", "tokens to train on"});

  write_file(folder_ / "other.txt", "abc");
  output_of({"tokenizer", "train", folder_ / "other.txt", "--model", "char", "--out", folder_ / "other.json"});
  expect_error(train(config("g", {{"TOKENIZER", folder_ / "other.json"}})), {"other.json]", "a different tokenizer"});
  output_of(
      {"data", "pack", folder_ / "other.txt", "--tokenizer", folder_ / "other.json", "--out", folder_ / "others"});
  expect_error(train(config("h", {{"validation_fraction = 0.1", "validation = \"" + (folder_ / "others") + "\""}})),
               {"a different tokenizer"});
  expect_error(train(config("i", {{"sample_tokens = 5", "sample_prompt = \"the cat sat on the mat\""}})),
               {"sample_prompt", "16"});
  for (const char* const name : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
    EXPECT_FALSE(fs::exists(folder_ / name)) << "a refused run must not create its folder: " << name;
  }
  // Shards that contradict their header.
  std::string shard = read_file(tokens_ + "/shard-00000.tokens");
  for (std::size_t i = 96 + 1; i < 20'000; i += 2) shard[i] = '\x7F';
  fs::create_directory(folder_ / "broken");
  write_file(folder_ / "broken/shard-00000.tokens", shard);
  Outcome o = run_program(train(config("j", {{"TOKENS", folder_ / "broken"}})));
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.err, HasSubstr("expected ids from 0 to"));
  write_file(folder_ / "broken/shard-00000.tokens", shard.substr(0, 500));
  expect_error(train(config("j", {{"TOKENS", folder_ / "broken"}})), {"according to the header, got 500"});
}

TEST_F(Train, RefusesFoldersThatAreNotRuns) {
  const std::string path = config("run");
  expect_error(train(path, true), {"there is no run to continue"});
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  write_file(folder_ / "run", "a file");
  expect_error(train(path), {"expected a folder"});
  fs::remove(folder_ / "run");
  fs::create_directories(folder_ / "run/last");
  Outcome o = run_program(train(path));
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.err, HasSubstr("expected a link to a checkpoint"));
  fs::remove_all(folder_ / "run");
  fs::create_directories(folder_ / "run");
  write_file(folder_ / "run/metrics.jsonl", "my notes\nand more\n");
  o = run_program(train(path));
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.err, HasSubstr("expected a line of metrics"));
  EXPECT_EQ(read_file(folder_ / "run/metrics.jsonl"), "my notes\nand more\n");
  fs::remove_all(folder_ / "run");
  ASSERT_EQ(run_program(train(path)).status, 0);
  expect_error(train(path), {"already holds a run of 40 steps", "--resume"});
}

TEST_F(Train, AResumedRunMustBeTheSame) {
  ASSERT_EQ(run_program(train(config("run"))).status, 0);
  const std::vector<std::pair<std::string, std::string>> changes[] = {
      {{"batch = 4", "batch = 8"}},
      {{"seq_len = 12", "seq_len = 10"}},
      {{"d_ff = 32", "d_ff = 48"}},
      {{"vocab_size = 23", "vocab_size = 40"}},
      {{"validation_fraction = 0.1", "validation_fraction = 0.2"}},
      {{"dropout = 0.1", "dropout = 0.1\nseed = 9"}},
  };
  for (const auto& change : changes) {
    expect_error(train(config("run", change), true), {"cannot be resumed"});
  }
  const Outcome o = run_program(train(config("run", {{"steps = 40", "steps = 45"}}), true));
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.err, HasSubstr("steps changes from 40 to 45"));
  EXPECT_EQ(metrics("run").back()["step"], 45);
}

TEST_F(Train, BrokenCheckpointsAreReported) {
  const std::string path = config("run");
  ASSERT_EQ(run_program(train(path)).status, 0);
  const std::string last = folder_ / "run/checkpoints/step-000040/";
  const auto refuses = [&](const std::string& file, const std::string& bytes, const std::string& part) {
    const std::string whole = read_file(last + file);
    write_file(last + file, bytes);
    expect_error(train(path, true), {part, "step-000040"});
    write_file(last + file, whole);
  };
  const std::string arrays = read_file(last + "trainer_state.safetensors");
  refuses("trainer_state.json", "{", "");
  refuses("trainer_state.json", "{\"step\": 40}", "expected the state of a training run");
  std::string other_step = read_file(last + "trainer_state.json");
  other_step.replace(other_step.find("\"step\": 40"), 10, "\"step\": 41");
  refuses("trainer_state.json", other_step, "contradict");
  refuses("trainer_state.safetensors", "", "");
  refuses("trainer_state.safetensors", arrays.substr(0, arrays.size() / 2), "");
  refuses("model.safetensors", read_file(last + "model.safetensors").substr(0, 999), "");
  const std::string older = folder_ / "run/checkpoints/step-000035/";
  write_file(older + "trainer_state.json", "{");  // older checkpoints are not read
  const Outcome o = run_program(train(config("run", {{"steps = 40", "steps = 50"}}), true));
  EXPECT_EQ(o.status, 0) << o.err;
}

TEST_F(Train, AFullDiskLeavesEarlierCheckpoints) {
  ASSERT_EQ(run_program(train(config("run"))).status, 0);
  const auto before = checkpoints("run");
  const std::uintmax_t size = fs::file_size(folder_ / "run/last/trainer_state.safetensors");
  const Outcome o = run_program(train(config("run", {{"steps = 40", "steps = 60"}}), true),
                                {.largest_file = static_cast<std::uint64_t>(size) - 100});
  EXPECT_EQ(o.status, 1) << o.signal;
  EXPECT_THAT(o.err, HasSubstr("trainer_state.safetensors] cannot write"));
  EXPECT_EQ(checkpoints("run"), before);
  expect_loads_and_generates(folder_ / "run/last");
}

/// metrics.jsonl exceeds the limit in the middle of the run, and so does a checkpoint.
TEST_F(Train, AFailureToSaveAfterAnErrorIsReportedToo) {
  const Outcome o = run_program(train(config("run", {{"save_every = 5", "save_every = 0"}})), {.largest_file = 1000});
  EXPECT_EQ(o.status, 1) << o.signal;
  EXPECT_THAT(o.err, testing::ContainsRegex("step [0-9]+ could not be saved: .*cannot write"));
  EXPECT_THAT(o.err, testing::ContainsRegex("vitrine: error: .*metrics.jsonl] cannot write"));
}

/// Bad input for a resumed run: each case is an error of one line and leaves the run's files unchanged.
TEST_F(Train, BadInputLeavesEarlierCheckpoints) {
  ASSERT_EQ(run_program(train(config("run"))).status, 0);
  const auto before = checkpoints("run");
  const std::string more = "steps = 60";
  const auto refuses = [&](std::vector<std::pair<std::string, std::string>> changes,
                           const std::vector<std::string>& parts) {
    changes.emplace_back("steps = 40", more);
    expect_error(train(config("run", changes), true), parts);
    EXPECT_EQ(checkpoints("run"), before) << parts.front();
    EXPECT_EQ(metrics_lines("run"), 40) << parts.front();
  };
  const std::string folder = folder_ / "a-folder";
  fs::create_directories(folder + "/shard-00000.tokens");
  refuses({{"TOKENS", folder}}, {"shard-00000.tokens"});
  refuses({{"TOKENIZER", folder}}, {"a-folder"});
  refuses({{"TOKENS", folder_ / "nowhere"}}, {"nowhere]"});
  refuses({{"TOKENIZER", folder_ / "nowhere"}}, {"nowhere"});
  refuses({{"seq_len = 12", "seq_len = 17"}}, {"train.seq_len", "16"});
  refuses({{"micro_batches = 2", "micro_batches = 3"}}, {"train.micro_batches", "divisor of batch 4"});
  refuses({{"lr = 1e-2", "lr = 1e-2\nwarmup = 60"}}, {"warmup"});
  refuses({{"dropout = 0.1", "dropout = 0.1\nbalance_loss = 0.1"}}, {"this one has none"});
  refuses({{"validation_fraction", "validation = \"x\"\nvalidation_fraction"}},
          {"validation already gives the validation tokens"});
  refuses({{"init = \"gpt2\"", "preset = \"gpt2\""}},
          {"expected one of preset, config and from, got preset and config"});
  refuses({{"lr = 1e-2", "learning_rate = 1e-2"}}, {"schedule.learning_rate: there is no such key"});
  refuses({{"batch = 4", "batch = \"4\""}}, {"train.batch: expected a whole number"});
  refuses({{"lr = 1e-2", "lr = nan"}}, {"finite"});
  refuses({{"lr = 1e-2", "lr = -1"}}, {"schedule.lr"});
  refuses({{"validation_fraction = 0.1", ""}}, {"log.validate_every", "has no validation tokens"});
  expect_error(train(folder_ / "none.toml", true), {"none.toml", "No such file"});
  expect_error(train(folder, true), {"a-folder"});
  write_file(folder_ / "empty.toml", "");
  expect_error(train(folder_ / "empty.toml", true), {"expected one of preset, config and from, got none"});
  EXPECT_EQ(checkpoints("run"), before);
}

TEST_F(Train, ANonFiniteLossLeavesEarlierCheckpoints) {
  ASSERT_EQ(run_program(train(config("run"))).status, 0);
  const auto before = checkpoints("run");
  const Outcome o =
      run_program(train(config("run", {{"steps = 40", "steps = 4000"}, {"lr = 1e-2", "lr = 1e8"}}), true));
  EXPECT_EQ(o.status, 1) << o.signal;
  EXPECT_THAT(o.err, HasSubstr("50 steps in a row changed nothing"));
  for (const auto& [path, bytes] : checkpoints("run")) {
    const auto old = before.find(path);
    if (old != before.end()) {
      EXPECT_TRUE(old->second == bytes) << path;
    }
  }
  expect_loads_and_generates(folder_ / "run/best");
}

TEST_F(Train, DocumentsOfOneToken) {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += std::string("{\"text\": \"") + "the"[i % 3] + "\"}\n";
  write_file(folder_ / "ones.jsonl", lines);
  output_of({"data", "pack", folder_ / "ones.jsonl", "--tokenizer", tokenizer_, "--out", folder_ / "ones"});
  const std::pair<std::string, std::string> ones = {"TOKENS", folder_ / "ones"};
  expect_error(train(config("masked", {ones, {"tokenizer =", "mask_documents = true\ntokenizer ="}})),
               {"every document has a single token"});
  EXPECT_FALSE(fs::exists(folder_ / "masked"));
  EXPECT_EQ(run_program(train(config("joined", {ones}))).status, 0);
  // A validation corpus shorter than a sample.
  write_file(folder_ / "short.txt", "the");
  output_of({"data", "pack", folder_ / "short.txt", "--tokenizer", tokenizer_, "--out", folder_ / "short"});
  const Outcome o = run_program(
      train(config("short", {{"validation_fraction = 0.1", "validation = \"" + (folder_ / "short") + "\""}})));
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.err, HasSubstr("tokens"));
}

TEST_F(Train, OneProcessAtATime) {
  const std::string path = config("run", {{"steps = 40", "steps = 1000000"}});
  Program program(train(path));
  program.wait_until([&] { return fs::exists(folder_ / "run/last"); });
  expect_error(train(path, true), {"another process is training into this folder"});
  program.send(SIGINT);
  EXPECT_EQ(program.finish().status, 130);
}

TEST_F(Train, CheckpointsAreModels) {
  ASSERT_EQ(run_program(train(config("run"))).status, 0);
  for (const std::string name : {"last", "best"}) expect_loads_and_generates(folder_ / ("run/" + name));
  EXPECT_NE(read_file(folder_ / "run/samples/step-000030.txt"), "");
  // Another run can begin from a checkpoint and uses its tokenizer.
  const std::string path = config("next");
  std::string toml = read_file(path);
  toml.replace(0, toml.find("[data]"), "[model]\nfrom = \"" + (folder_ / "run/best") + "\"\n");
  toml.replace(toml.find("tokenizer = "), toml.find("[train]") - toml.find("tokenizer = "), "");
  write_file(path, toml);
  ASSERT_EQ(run_program(train(path)).status, 0);
  expect_loads_and_generates(folder_ / "next/last");
  EXPECT_LT(metrics("next")[0]["loss"], metrics("run")[0]["loss"]);
}

}  // namespace
}  // namespace vitrine::test
