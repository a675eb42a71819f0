// vitrine grad: the loss, the file, and errors.
#include "cli/program.h"
#include "support/backward.h"

namespace vitrine::test {
namespace {

class Grad : public testing::Test {
 protected:
  Arguments grad(const std::string& model, const std::string& ids, const Arguments& more = {}) const {
    Arguments all = {"grad", model, "--ids", ids, "--out", out_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void expect_refusal(const Arguments& arguments, const std::vector<std::string>& parts) const {
    expect_error(arguments, parts);
    EXPECT_FALSE(std::filesystem::exists(out_));
  }

  const TempFolder folder_;
  const std::string out_ = folder_ / "g.safetensors";
  const std::string llama_ = golden("llama_mha");
};

TEST_F(Grad, ReportsTheLossAndWritesTheGradients) {
  for (const char* name : {"gpt2", "mixtral", "phi3_long"}) {
    Values reference = golden_gradient_file(name);
    const Json json = json_of(grad(golden(name), joined(golden_ids(name))));
    const auto loss = static_cast<double>(reference.at("loss").data[0]);
    EXPECT_NEAR(json["loss"].get<double>(), loss, 1e-5 * loss);
    EXPECT_EQ(json["out"], out_);
    EXPECT_EQ(json["ids"], Json(golden_ids(name)));
    reference.erase("loss");
    const Distance d = distance(tensors_of(out_), reference);
    EXPECT_LE(d.worst, 1) << name << ": " << d.name;
  }
}

TEST_F(Grad, PrintsTheLossAsText) {
  const std::string out = output_of(grad(llama_, "1,2,3"));
  EXPECT_THAT(out,
              testing::MatchesRegex("loss [0-9.]+ nats per token over 2 predictions; gradients written to [^\n]*\n"));
}

TEST_F(Grad, ThreadsChangeNoByte) {
  const std::string ids = joined(golden_ids("gemma2"));
  output_of(grad(golden("gemma2"), ids, {"--threads", "1"}));
  const std::string one = read_file(out_);
  output_of(grad(golden("gemma2"), ids, {"--threads", "3"}));
  EXPECT_EQ(read_file(out_), one);
}

TEST_F(Grad, TextsWithoutALossAreRefused) {
  expect_refusal(grad(llama_, "1"), {"[grad]", "at least 2 tokens", "got 1"});
  expect_refusal(grad(llama_, "1,47"), {"ids from 0 to 46, got 47"});
  expect_refusal(grad(llama_, "1,-1"), {"ids from 0 to 46, got -1"});
  expect_refusal(grad(llama_, "47,1"), {"got 47"});
  expect_refusal(grad(llama_, many_ids(65)), {"at most 64 tokens", "got 65"});
  expect_usage_error({"grad", llama_, "--ids", "1,2"}, {"--out"});
  expect_usage_error({"grad", llama_, "--ids", "1,x", "--out", out_}, {"--ids"});
  for (const char* kv : {"bf16", "f16", "int8"}) expect_refusal(grad(llama_, "1,2", {"--kv", kv}), {"[--kv]", kv});
}

TEST_F(Grad, AQuantizedWeightDoesNotLoseItsGradientSilently) {
  const std::string model = folder_ / "model", quantized = folder_ / "q.gguf";
  output_of({"init", "llama-2-7b", model, "--seed", "3", "--set", "d_model=32", "--set", "n_layers=1", "--set",
             "n_heads=2", "--set", "n_kv_heads=2", "--set", "d_ff=32", "--set", "vocab_size=64"});
  EXPECT_EQ(run_program({"quantize", model, quantized, "--type", "q8_0"}).status, 0);
  expect_refusal(grad(quantized, "1,2,3"), {"embed.weight", "q8_0", "expected f32, f16 or bf16"});
  EXPECT_EQ(run_program({"quantize", model, quantized, "--type", "f16"}).status, 0);
  output_of(grad(quantized, "1,2,3"));
}

TEST_F(Grad, UnwritablePathsAreRefused) {
  Arguments nowhere = grad(llama_, "1,47");  // the path is checked before the ids
  nowhere.back() = folder_ / "no/such/folder/g.safetensors";
  expect_error(nowhere, {nowhere.back(), "No such file"});
  nowhere.back() = folder_ / "";
  expect_error(nowhere, {"got a folder"});
  write_file(out_, "old");
  expect_error(grad(llama_, "1,2"), {out_}, {.largest_file = 4096});
  EXPECT_EQ(read_file(out_), "old");
  EXPECT_EQ(folder_.files(), std::set<std::string>{"g.safetensors"});
}

/// Infinite weights are an error.
TEST_F(Grad, InfiniteWeightsAreRefused) {
  const std::string model = folder_ / "model";
  std::filesystem::copy(llama_, model);
  patch_tensor(model, "model.norm.weight", [](std::span<float> w) { w[3] = INFINITY; });
  expect_refusal(grad(model, "1,2,3"), {"infinite or NaN"});
}

TEST_F(Grad, StopsOnASignal) {
  const std::string model = endless_model(folder_);
  for (const int number : {SIGINT, SIGTERM}) {
    Program program(grad(model, many_ids(20'000)));
    program.wait_until_it_catches(number);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    program.send(number);
    const Outcome o = program.finish();
    EXPECT_EQ(o.status, 128 + number) << o.err;
    EXPECT_EQ(o.err, "vitrine: interrupted\n");
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(folder_.files(), std::set<std::string>());
  }
}

}  // namespace
}  // namespace vitrine::test
