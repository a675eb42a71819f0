// --state, --save-state and --chunk of logits and generate; bytes of states in info and bench.
#include "cli/program.h"
#include "support/state_models.h"

namespace vitrine::test {
namespace {

class StateCommands : public testing::Test {
 protected:
  StateCommands() { state_model("qwen3_5_text", model_); }

  Json generate(const std::string& ids, const Arguments& more) const {
    Arguments all = {"generate", model_, "--ids", ids, "--greedy", "--logprobs", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all);
  }
  /// The bytes of the logits in `name`, without the header of the file.
  std::string logits(const std::string& name, const std::string& ids, const Arguments& more) const {
    Arguments all = {"logits", model_, "--ids", ids, "--out", folder_ / name};
    all.insert(all.end(), more.begin(), more.end());
    output_of(all);
    const std::string file = read_file(folder_ / name);
    return file.substr(file.find('\n') + 1);
  }

  const TempFolder folder_;
  const std::string model_ = folder_ / "m";
};

TEST_F(StateCommands, LogitsContinueFromAStateFile) {
  const std::string whole = logits("whole.npy", "3,4,5,6,7,8,9,10", {});
  for (const char* const chunk : {"1", "2", "7", "64"}) {
    EXPECT_EQ(logits("chunks.npy", "3,4,5,6,7,8,9,10", {"--chunk", chunk}), whole) << chunk;
  }
  const std::string first = logits("a.npy", "3,4,5", {"--save-state", folder_ / "s"});
  const std::string second = logits("b.npy", "6", {"--state", folder_ / "s", "--save-state", folder_ / "t"});
  const std::string third = logits("c.npy", "7,8,9,10", {"--state", folder_ / "t", "--chunk", "3"});
  EXPECT_EQ(first + second + third, whole);
}

TEST_F(StateCommands, TextsContinueFromAStateFile) {
  const Json whole = generate("3,4,5,6,7", {"--max-tokens", "9"});
  EXPECT_EQ(generate("3,4,5", {"--max-tokens", "0", "--save-state", folder_ / "s"})["ids"], Json::array());
  const Json rest = generate("6,7", {"--max-tokens", "5", "--state", folder_ / "s", "--save-state", folder_ / "s"});
  EXPECT_EQ(rest["ids"], Json(std::vector(whole["ids"].begin(), whole["ids"].begin() + 5)));
  // The last token that was drawn was not read.
  const Json more = generate(rest["ids"][4].dump(), {"--max-tokens", "4", "--state", folder_ / "s"});
  EXPECT_EQ(more["ids"], Json(std::vector(whole["ids"].begin() + 5, whole["ids"].end())));
}

TEST_F(StateCommands, ErrorsNameTheOption) {
  const std::string out = folder_ / "l.npy", state = folder_ / "s";
  const Arguments logits = {"logits", model_, "--ids", "3,4", "--out", out};
  const auto with = [&](const Arguments& more) {
    Arguments all = logits;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_usage_error(with({"--chunk", "0"}), {"--chunk", "expected a whole number"});
  expect_usage_error({"generate", model_, "--ids", "3", "--chunk", "0"}, {"--chunk", "expected a whole number"});
  expect_error(with({"--state", state}), {"/s]"});
  output_of(with({"--save-state", state}));
  EXPECT_TRUE(std::filesystem::exists(state));
  const Checkpoint other = state_model("mamba", folder_ / "other");
  expect_error({"logits", folder_ / "other", "--ids", "3", "--out", out, "--state", state}, {"/s]", "another model"});
  expect_error(with({"--state", state, "--kv", "bf16"}), {"/s]", "--kv"});
  expect_error({"generate", model_, "--ids", "3", "--beam", "2", "--save-state", state}, {"--save-state", "--beam"});
  expect_error(with({"--save-state", folder_ / "no/s"}), {"no/s"});
  expect_usage_error({"serve", model_, "--state-every", "0"}, {"--state-every"});
}

TEST_F(StateCommands, InfoAndBenchCountStates) {
  constexpr std::int64_t kElements = 2 * (6 * 10 * 14 + 3 * 144);
  const Json info = json_of({"info", model_});
  EXPECT_EQ(info["state_bytes"], 4 * kElements);
  EXPECT_GE(info["snapshot_bytes"], 4 * kElements);
  EXPECT_EQ(info["kv_bytes_per_token"], 2 * 2 * 16 * 4);
  const Json bench = json_of({"bench", model_, "--prompt", "8", "--generate", "2", "--repeats", "1"});
  for (const char* const key : {"state_bytes", "snapshot_bytes", "kv_bytes_per_token"}) {
    EXPECT_EQ(bench[key], info[key]) << key;
  }
  const double decode = info["account"]["decode"]["kv_bytes"], length = info["account"]["decode"]["length"];
  EXPECT_EQ(decode, (length + 1) * 2 * 2 * 16 * 4 + 2 * 4 * kElements) << "reads all tokens, appends one; so states";
}

}  // namespace
}  // namespace vitrine::test
