// vitrine quantize: its files, which every command reads, their types and sizes, and the embedded tokenizer.
#include "cli/program.h"

namespace vitrine::test {
namespace {

class Quantize : public testing::Test {
 protected:
  TempFolder folder_;
  const std::string out_ = folder_ / "model.gguf";
};

TEST_F(Quantize, WritesModelsThatEveryCommandRuns) {
  const Outcome outcome = run_program({"quantize", golden("gpt2"), out_, "--type", "f16", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("no tokenizer"));
  const Json written = Json::parse(outcome.out);
  EXPECT_EQ(written["type"], "f16");
  EXPECT_EQ(written["tokenizer"], false);
  const Json info = json_of({"info", out_});
  EXPECT_EQ(info["bytes"], written["bytes"]);
  EXPECT_EQ(info["params"], written["params"]);
  EXPECT_EQ(info["dtype"], "f16, f32");
  EXPECT_EQ(info["parameters"][2]["stored_name"], "blk.0.attn_norm.weight");
  EXPECT_LT(written["bytes"], written["source_bytes"]);
  EXPECT_EQ(json_of({"generate", out_, "--ids", "1,2", "--greedy", "--max-tokens", "3"})["ids"].size(), 3U);
  expect_error({"generate", out_, "hello"}, {out_, "--tokenizer"});
}

TEST_F(Quantize, TheEmbeddedTokenizerIsUsed) {
  const std::string tokenizer = outside_data("tokenizers/llama2/tokenizer.model");
  if (tokenizer.empty()) GTEST_SKIP() << "VITRINE_DATA has no tokenizers/llama2";
  const std::string model = folder_ / "model";
  output_of({"init", "llama-2-7b", model, "--seed", "3", "--set", "d_model=32", "--set", "n_layers=1", "--set",
             "n_heads=2", "--set", "n_kv_heads=2", "--set", "d_ff=32"});
  const Json written = json_of({"quantize", model, out_, "--type", "q8_0", "--tokenizer", tokenizer});
  EXPECT_EQ(written["tokenizer"], true);
  const std::string text = "Once upon a time, 12345 naïve llamas";
  EXPECT_EQ(json_of({"tokenize", out_, text})["ids"], json_of({"tokenize", tokenizer, text})["ids"]);
  const Json inside = json_of({"generate", out_, text, "--greedy", "--max-tokens", "4"});
  EXPECT_EQ(inside["prompt_ids"], json_of({"tokenize", tokenizer, text})["ids"]);
  output_of({"quantize", out_, folder_ / "again.gguf", "--type", "q8_0"});
  EXPECT_EQ(json_of({"generate", folder_ / "again.gguf", text, "--greedy", "--max-tokens", "4"})["ids"], inside["ids"]);
}

TEST_F(Quantize, ComputeChoosesTheArithmetic) {
  output_of({"quantize", VITRINE_SOURCE_DIR "/models/default", out_, "--type", "q8_0"});
  const auto logits = [&](const std::string& compute) {
    const std::string file = folder_ / (compute + ".npy");
    output_of({"logits", out_, "--ids", "5,6,7,8", "--compute", compute, "--out", file});
    return read_file(file);
  };
  EXPECT_EQ(logits("auto"), logits("int8"));
  EXPECT_NE(logits("auto"), logits("f32"));
  expect_error({"grad", out_, "--ids", "5,6", "--out", folder_ / "g", "--compute", "int8"}, {"--compute", "gradients"});
  const Json b = json_of({"bench", out_, "--prompt", "8", "--generate", "4", "--threads", "1"});
  EXPECT_EQ(b["compute"], "int8");
  if (b["gemm_gflops"]["int8"].is_null()) return;  // built without oneDNN
  const double operations = b["prefill_tokens_per_s"].get<double>() * b["prefill_ops_per_token"].get<double>();
  EXPECT_NEAR(b["prefill_fraction_of_peak"].get<double>(), operations / 1e9 / b["gemm_gflops"]["int8"].get<double>(),
              1e-6);
}

TEST_F(Quantize, AFailureLeavesNoFile) {
  expect_error({"quantize", golden("gemma2"), out_, "--type", "f32"}, {out_, "gemma2", "scale of attention scores"});
  expect_error({"quantize", golden("gpt2"), out_, "--type", "f32", "--tokenizer", golden("gpt2")}, {"tokenizer"});
  expect_error({"quantize", golden("gpt2") + "x", out_, "--type", "f32"}, {"no such"});
  expect_usage_error({"quantize", golden("gpt2"), out_, "--type", "q9"}, {"--type"});
  expect_usage_error({"quantize", golden("gpt2"), out_});
  EXPECT_FALSE(std::filesystem::exists(out_));
  const Outcome o = run_program({"quantize", golden("gpt2"), out_, "--type", "f32"});
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.err, testing::HasSubstr("the file contains no tokenizer"));
  expect_error({"quantize", out_, out_, "--type", "f16"}, {out_, "a file other than"});
}

}  // namespace
}  // namespace vitrine::test
