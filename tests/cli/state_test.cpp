// --state, --save-state and --chunk of logits and generate; bytes of states in info and bench.
#include "cli/http_client.h"
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

/// Rows of states are computed alone, and are those of the whole value.
TEST_F(StateCommands, TraceKeepsTheRowsOfStates) {
  for (const std::string name : {"qwen3_5_text", "mamba2", "mamba"}) {
    const std::string model = folder_ / name;
    state_model(name, model);
    std::string ids = "1";
    for (int i = 1; i < 40; ++i) ids += "," + std::to_string(i * 7 % 61);
    const auto trace = [&](const std::string& out, const Arguments& more) {
      Arguments all = {"trace", model, "--ids", ids, "--out", folder_ / out};
      const bool has_write = name != "qwen3_5_text";
      for (const char* const site : {"state", "carry", "write"}) {
        if (site == std::string("write") && !has_write) continue;
        all.insert(all.end(), {"--sites", std::string("*.hook_ssm_") + site});
      }
      all.insert(all.end(), {"--sites", "*.hook_effective_attention"});
      all.insert(all.end(), more.begin(), more.end());
      return json_of(all);
    };
    const Json whole = trace("whole", {});
    for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{17, 23}, {0, 39}, {1, 40}, {39, 40}}) {
      const Json rows = trace("rows", {"--rows", fmt::format("{}:{}", first, last)});
      ASSERT_EQ(rows["sites"].size(), whole["sites"].size());
      for (const Json& site : whole["sites"]) {
        const auto all = tensor_of(folder_ / "whole", site["name"]), some = tensor_of(folder_ / "rows", site["name"]);
        const std::size_t size = all.size() / 40;
        ASSERT_EQ(some.size(), (last - first) * size) << site["name"];
        const auto at = [&](std::size_t row) { return all.begin() + static_cast<std::ptrdiff_t>(row * size); };
        EXPECT_EQ(some, std::vector<float>(at(first), at(last))) << site["name"];
      }
    }
    // What is written changes what comes after it, whatever rows are kept.
    const Json written = trace("written", {"--set", "*.hook_ssm_carry[3]=0.5", "--rows", "5:6"});
    const std::string state = whole["sites"][1]["name"];
    EXPECT_NE(tensor_of(folder_ / "written", state), tensor_of(folder_ / "whole", state));
  }
}

/// A prompt that begins as an earlier one is read from the last snapshot, and the next turn of a conversation from the
/// end of the answer before it.
TEST_F(StateCommands, TheServerReadsWhatComesAfterTheLastSnapshot) {
  TestServer server({model_});
  std::vector<int> ids;
  for (int i = 0; i < 650; ++i) ids.push_back(i * 13 % 61);
  const auto complete = [&](const std::vector<int>& prompt, int n) {
    const HttpResponse r = server.post(
        "/v1/completions", {{"prompt", prompt}, {"max_tokens", n}, {"temperature", 0}, {"return_token_ids", true}});
    EXPECT_EQ(r.status, 200) << r.body;
    return r.json();
  };
  const auto cached = [](const Json& reply) {
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  std::vector<int> first = ids, second = ids;
  first.insert(first.end(), {1, 2, 3});
  second.insert(second.end(), {4, 5, 6, 7});
  EXPECT_EQ(cached(complete(first, 4)), 0);
  const Json shared = complete(second, 4);
  EXPECT_GE(cached(shared), 512);
  EXPECT_LE(cached(shared), 650);
  TestServer other({model_, "--prefix-memory", "0"});
  const HttpResponse alone = other.post(
      "/v1/completions", {{"prompt", second}, {"max_tokens", 4}, {"temperature", 0}, {"return_token_ids", true}});
  EXPECT_EQ(alone.json()["choices"], shared["choices"]) << "the same bits, read from the start";

  std::vector<int> next = second;
  for (const Json& id : shared["choices"][0]["token_ids"]) next.push_back(id);
  const auto n = static_cast<int>(next.size());
  next.insert(next.end(), {8, 9});
  EXPECT_GE(cached(complete(next, 2)), n - 1) << "the last token that was drawn was not read";
  for (TestServer* const each : {&server, &other}) EXPECT_EQ(each->stop().status, 0);
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
