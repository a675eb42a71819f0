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
  const Outcome outcome = run_program({"quantize", golden("gpt2"), out_, "--type", "F16", "--json"});
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
  expect_error({"quantize", golden("gemma2"), out_, "--type", "f32"},
               {out_, "gemma2", "blocks.0.attention.score_scale"});
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

TEST_F(Quantize, AFileWithoutATokenizerHasTheChatTemplates) {
  const std::string model = folder_ / "model", messages = folder_ / "messages.json";
  std::filesystem::copy(golden("gpt2"), model);
  write_file(model + "/tokenizer_config.json", R"({"chat_template": "<{{ messages[0]['content'] }}>"})");
  write_file(messages, R"([{"role": "user", "content": "Hi"}])");
  const auto expect_template = [&](const std::string& from, const std::string& to, const std::string& why) {
    const Outcome outcome = run_program({"quantize", from, to, "--type", "f32"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err,
                testing::AllOf(testing::HasSubstr("the file contains no tokenizer"), testing::HasSubstr(why)));
    EXPECT_EQ(json_of({"template", to, "--messages", messages})["text"], "<Hi>");
  };
  expect_template(model, out_, "tokenizer.json");
  expect_template(out_, folder_ / "again.gguf", "no tokenizer");
  write_file(
      model + "/tokenizer.json",
      R"({"model": {"type": "cannot be written to GGUF", "unk_token": "a", "vocab": {"a": 0}}, "added_tokens": []})");
  expect_template(model, out_, "cannot be written to GGUF");
}

const std::string kDefault = VITRINE_SOURCE_DIR "/models/default";

/// A text of about 1,500 tokens.
std::string story() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "Once upon a time there was a little dog named Tim. Tim found ball " + std::to_string(i) +
            " in the big park and ran home to show it to his mom.\n";
  }
  return text;
}

TEST_F(Quantize, SaysWhatItChose) {
  const Json written = json_of({"quantize", kDefault, out_, "--type", "q4_k_m"});
  EXPECT_EQ(written["type"], "q4_k_m");
  EXPECT_EQ(written["out"], out_);
  std::int64_t n_tensors = 0;
  for (const auto& [type, count] : written["types"].items()) n_tensors += count.get<std::int64_t>();
  EXPECT_EQ(n_tensors, written["tensors"]);
  EXPECT_GT(written["types"]["Q6_K"], 0);
  EXPECT_NEAR(written["bits_per_weight"].get<double>(),
              8 * written["bytes"].get<double>() / written["params"].get<double>(), 1e-9);
  EXPECT_EQ(json_of({"info", out_})["bytes"], written["bytes"]);
  const std::string other = folder_ / "other.gguf";
  const Json dry = json_of({"quantize", kDefault, other, "--type", "q4_k_m", "--dry-run"});
  EXPECT_TRUE(dry["out"].is_null());
  EXPECT_EQ(dry["types"], written["types"]);
  EXPECT_EQ(dry["bytes"], written["bytes"]);
  EXPECT_FALSE(std::filesystem::exists(other));
  EXPECT_THAT(output_of({"quantize", kDefault, other, "--type", "q4_k_m", "--dry-run"}),
              testing::AllOf(testing::HasSubstr("blk.0.attn_v.weight"), testing::HasSubstr("nothing written")));
  const Json pure = json_of({"quantize", kDefault, other, "--type", "q4_k", "--pure", "--tensor-type", "attn_v=q8_0",
                             "--tensor-type", "attn_.*=Q5_K"});
  EXPECT_FALSE(pure["types"].contains("Q6_K"));
  EXPECT_GT(pure["types"]["Q8_0"], 0);
  EXPECT_EQ(pure["types"]["Q5_K"], 3 * pure["types"]["Q8_0"].get<int>());
  expect_error({"quantize", kDefault, other, "--type", "q4_k", "--tensor-type", "attn_w=q8_0"},
               {"--tensor-type", "attn_w=q8_0"});
  expect_usage_error({"quantize", kDefault, other, "--type", "q4_k", "--tensor-type", "(=q8_0"}, {"regex"});
  expect_usage_error({"quantize", kDefault, other, "--type", "q4_k", "--tensor-type", "attn_v=iq2_xxs"}, {"iq2_xxs"});
  expect_error({"quantize", out_, other, "--type", "q8_0"}, {"--allow-requantize", "Q8_0"});
  EXPECT_GT(json_of({"quantize", out_, other, "--type", "q8_0", "--allow-requantize"})["types"]["Q8_0"], 0);
}

TEST_F(Quantize, TellsWhereRowsAreNotWholeBlocks) {
  const std::string model = folder_ / "model";
  output_of({"init", "llama-2-7b", model, "--set", "d_model=64", "--set", "n_layers=1", "--set", "n_heads=2", "--set",
             "n_kv_heads=2", "--set", "d_ff=80", "--set", "vocab_size=50"});
  const Outcome outcome = run_program({"quantize", model, out_, "--type", "q4_k_s", "--json"});
  EXPECT_THAT(run_program({"quantize", model, out_, "--type", "q4_k_s"}).out,
              testing::HasSubstr("Q5_0 instead of Q4_K: rows of 64"));
  const Json written = Json::parse(outcome.out);
  const Json expected = {{"tensor", "blk.0.ffn_down.weight"}, {"wanted", "Q4_K"}, {"used", "F16"}};
  EXPECT_THAT(written["fallbacks"].get<std::vector<Json>>(), testing::Contains(expected));
}

TEST_F(Quantize, WithAnImportanceMatrixItComparesBetter) {
  const std::string text = folder_ / "text.txt", matrix = folder_ / "m.gguf", both = folder_ / "both.gguf";
  write_file(text, story());
  const Json collected = json_of({"imatrix", kDefault, text, "--out", matrix, "--window", "64", "--chunks", "3"});
  EXPECT_EQ(collected["windows"], 3);
  EXPECT_EQ(collected["tokens"], 192);
  EXPECT_TRUE(collected["unreached"].empty());
  const Json added =
      json_of({"imatrix", kDefault, text, "--out", both, "--window", "64", "--chunks", "2", "--in", matrix});
  EXPECT_EQ(added["chunks"], 5);
  const Json plain = json_of({"quantize", kDefault, out_, "--type", "q3_k_m", "--compare", text});
  const Json weighted = json_of({"quantize", kDefault, out_, "--type", "q3_k_m", "--imatrix", both, "--compare", text});
  EXPECT_GT(plain["against"]["kl"]["mean"], 0);
  EXPECT_LT(weighted["against"]["kl"]["mean"], plain["against"]["kl"]["mean"]);
  EXPECT_TRUE(weighted["unweighted"].empty());
  for (const Json& matrix_of : weighted["matrices"]) {
    EXPECT_GT(matrix_of["error"], 0) << matrix_of;
    EXPECT_LT(matrix_of["error"], 0.3) << matrix_of;
  }
  const Json layers = weighted["layers"];
  EXPECT_EQ(layers[0]["layer"], 0);
  EXPECT_GT(layers[0]["resid_error"], 0);
  expect_error({"quantize", golden("gpt2"), out_, "--type", "q8_0", "--imatrix", both}, {both, "another model"});
}

TEST_F(Quantize, EvalAgainst) {
  const std::string text = folder_ / "text.txt";
  write_file(text, story());
  output_of({"quantize", kDefault, out_, "--type", "q4_0"});
  const Json plain = json_of({"eval", out_, text, "--window", "128"});
  const Json against = json_of({"eval", out_, text, "--window", "128", "--against", kDefault, "--layers"});
  EXPECT_NEAR(against["loss"].get<double>(), plain["loss"].get<double>(), 1e-9);
  EXPECT_EQ(against["tokens"], plain["tokens"]);
  EXPECT_EQ(against["against"]["tokens"], plain["tokens"]);
  EXPECT_NEAR(against["against"]["ln_ppl_ratio"].get<double>(),
              against["loss"].get<double>() - against["against"]["loss"].get<double>(), 1e-12);
  EXPECT_GT(against["against"]["kl"]["p99"], against["against"]["kl"]["median"]);
  EXPECT_GT(against["layers"].size(), 1U);
  const Json same = json_of({"eval", kDefault, text, "--window", "128", "--against", kDefault});
  EXPECT_EQ(same["against"]["kl"]["max"], 0);
  EXPECT_EQ(same["against"]["same_top"], 1);
}

TEST_F(Quantize, EvalAgainstRefusesWhatCannotBeCompared) {
  const std::string text = folder_ / "text.txt", lines = folder_ / "lines.jsonl", other = folder_ / "other";
  write_file(text, story());
  write_file(lines, "{\"messages\": []}\n");
  expect_error({"eval", kDefault, text, "--against", golden("gpt2")}, {"--against", "tokens"});
  expect_usage_error({"eval", kDefault, text, "--layers"}, {"--against"});
  expect_usage_error({"eval", kDefault, "--pairs", text, "--against", kDefault}, {"--against"});
  expect_error({"eval", kDefault, lines, "--against", kDefault}, {"JSON Lines"});
  std::filesystem::copy(kDefault, other);  // as many tokens, but two of them exchanged
  Json tokenizer = Json::parse(read_file(other + "/tokenizer.json"));
  std::swap(tokenizer["model"]["vocab"]["."], tokenizer["model"]["vocab"]["!"]);
  write_file(other + "/tokenizer.json", tokenizer.dump());
  expect_error({"eval", kDefault, text, "--against", other}, {"--against", "vocabulary"});
}

}  // namespace
}  // namespace vitrine::test
