// vitrine init, info and eval: a model from a preset, its sizes and costs, and its loss on a text.
#include <cmath>

#include "cli/program.h"

namespace vitrine::test {
namespace {

const Arguments kTiny = {"--set", "d_model=32", "--set", "n_layers=2",     "--set", "n_heads=2",
                         "--set", "d_ff=48",    "--set", "vocab_size=271", "--set", "max_seq_len=40"};

Arguments with(Arguments all, const Arguments& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class Models : public testing::Test {
 protected:
  /// A tiny GPT-2 for the small tokenizer.
  std::string tiny_model() {
    output_of(with({"init", "gpt2", folder_ / "model", "--seed", "3"}, kTiny));
    std::filesystem::copy(small_tokenizer(folder_), folder_ / "model/tokenizer.bin");
    return folder_ / "model";
  }
  TempFolder folder_;
};

TEST_F(Models, InitWritesModelsThatEveryCommandRuns) {
  const std::string model = tiny_model();
  const std::string text = output_of({"generate", model, "a b", "--seed", "1", "--max-tokens", "5"});
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(json_of({"predict", model, "a b"})["tokens"].size(), json_of({"tokenize", model, "a b"})["ids"].size());
  const Json info = json_of({"info", model});
  EXPECT_EQ(info["params"], 271 * 32 + 40 * 32 + 2 * (4 * 32 * 32 + 4 * 32 + 2 * 32 * 48 + 48 + 32 + 4 * 32) + 2 * 32);
  EXPECT_EQ(info["dtype"], "f32");
  EXPECT_EQ(info["parameters"][2]["stored_name"], "transformer.h.0.ln_1.weight");
}

TEST_F(Models, InitReportsItsSettings) {
  const Json json = json_of(with({"init", "gemma-2b", folder_ / "a", "--seed", "3"}, kTiny));
  EXPECT_EQ(json["dtype"], "bf16") << "the preset's dtype";
  EXPECT_EQ(json["bytes"], json["params"].get<std::int64_t>() * 2);
  EXPECT_EQ(json["seed"], 3);
  const Json config = Json::parse(read_file(folder_ / "a/config.json"));
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
  EXPECT_EQ(config["hidden_size"], 32);
  EXPECT_EQ(json_of(with({"init", "gemma-2b", folder_ / "b", "--dtype", "f32"}, kTiny))["dtype"], "f32");

  // A config.json can replace a preset, and the same seed gives the same weights.
  json_of({"init", folder_ / "a/config.json", folder_ / "c", "--seed", "3"});
  EXPECT_EQ(read_file(folder_ / "a/model.safetensors"), read_file(folder_ / "c/model.safetensors"));
  EXPECT_EQ(read_file(folder_ / "a/config.json"), read_file(folder_ / "c/config.json"));
}

TEST_F(Models, InitReportsErrors) {
  const std::string out = folder_ / "out";
  expect_error({"init", "gema-2b", out}, {"gema-2b", "did you mean gemma-2b?"});
  expect_error({"init", folder_ / "none.json", out}, {"none.json"});
  expect_error({"init", goldens(), out}, {"config.json"});
  expect_error({"init", "gpt2", out, "--set", "d_modl=3"}, {"d_modl"});
  expect_error({"init", "gpt2", out, "--set", "d_model"}, {"--set", "KEY=VALUE"});
  expect_error({"init", "gpt2", out, "--set", "d_model=-3"}, {"n_embd", "-3"});
  expect_error({"init", "gpt2", out, "--set", "n_heads=7"}, {"7"});
  expect_error({"init", "gpt3-175b", out, "--set", "n_layers=5000"}, {"GB"});
  expect_error({"init", "gpt2", "/proc/x"}, {"/proc/x"});
  expect_usage_error({"init", "gpt2"}, {"OUT"});
  expect_usage_error({"init", "gpt2", out, "--dtype", "f64"}, {"f64"});
  EXPECT_FALSE(std::filesystem::exists(out));
  write_file(folder_ / "file", "");
  expect_error({"init", "gpt2", folder_ / "file"}, {"expected a new or an empty folder"});
}

TEST_F(Models, InitStopsAtCtrlC) {
  Program program({"init", "gemma-2-2b", folder_ / "out"});
  program.wait_until([&] { return std::filesystem::exists(folder_ / "out"); });
  program.send(SIGINT);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.status, 130);
  EXPECT_EQ(outcome.err, "vitrine: interrupted\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(Models, InfoFitSaysWhetherAModelFitsAndHowFastItIsAndKeepsWhatItMeasured) {
  const std::string model = tiny_model(), kept = folder_ / "cache/vitrine/rates.json";
  const Launch launch{.environment = {"XDG_CACHE_HOME=" + std::string(folder_ / "cache")}};
  const auto fit_of = [&](const Arguments& more) {
    const Outcome outcome =
        run_program(with({"info", model, "--json", "--threads", "1", "--length", "8"}, more), launch);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out);
  };
  EXPECT_FALSE(fit_of({}).contains("fit"));
  const Json facts = fit_of({"--fit"}), fit = facts["fit"];
  EXPECT_EQ(fit["needed_bytes"], facts["account"]["prefill"]["memory"]["total"]);
  EXPECT_GT(fit["available_bytes"], 1 << 20);
  EXPECT_EQ(fit["fits"], fit["needed_bytes"].get<double>() <= fit["available_bytes"].get<double>());
  for (const char* rate : {"read_gb_per_s", "prefill_tokens_per_s", "decode_tokens_per_s"})
    EXPECT_GT(fit[rate], 0) << rate;
  const std::string measured = read_file(kept);
  EXPECT_EQ(fit_of({"--fit"})["fit"]["decode_tokens_per_s"], fit["decode_tokens_per_s"]);
  EXPECT_EQ(read_file(kept), measured);
  std::ofstream(kept) << R"({"a": [1)";  // measured anew
  EXPECT_GT(fit_of({"--fit"})["fit"]["decode_tokens_per_s"], 0);
}

TEST_F(Models, InfoOfAPresetHasThePublishedFigures) {
  const Json json = json_of({"info", "gemma-2-2b"});
  EXPECT_EQ(json["params"], 2'614'341'888);
  std::int64_t layer = 0;
  for (const Json& row : json["parameters"]) {
    if (row["layers"] == 26) layer += row["count"].get<std::int64_t>();
  }
  EXPECT_EQ(layer, 77'865'984);
  EXPECT_EQ(json["parameters"][0]["total"], 589'824'000);
  EXPECT_EQ(json["layers"][0]["window"], 4096);
  EXPECT_EQ(json["layers"][1]["window"], "none");
  EXPECT_EQ(json["flow"][0]["name"], "hook_tokens");
  double sum = 0;
  for (const Json& op : json["account"]["decode"]["ops"]) {
    sum += op["flops"].get<double>() * op["times"].get<double>();
  }
  EXPECT_EQ(sum, json["account"]["decode"]["flops"].get<double>());
  const std::string text = output_of({"info", "gemma-2-2b"});
  for (const char* part : {"2,614,341,888", "77,865,984", "2,024,515,584", "[9216, 2304]", "blocks.N.mlp.w_gate.weight",
                           "attn.hook_pattern", "[8, T, S]", "window", "Source: google/gemma-2-2b", "0, 2, …, 24"}) {
    EXPECT_THAT(text, testing::HasSubstr(part));
  }
}

TEST(Info, ComputesAStepOfManyRanks) {
  const Arguments step = {"info", "gpt2", "--phase", "train", "--batch", "8", "--length", "64"};
  const auto cluster_of = [&](const Arguments& more) { return json_of(with(step, more))["cluster"]; };
  EXPECT_TRUE(cluster_of({}).is_null());
  const Json none = cluster_of({"--ranks", "4", "--micro-batches", "8"});
  const Json all = cluster_of({"--ranks", "4", "--micro-batches", "8", "--shard", "parameters"});
  EXPECT_EQ(none["ranks"], 4);
  EXPECT_EQ(none["step_s"], none["compute_s"].get<double>() + none["exposed_s"].get<double>());
  const double n = 124439808;  // parameters; a rank sends its gradients once, and its part of their sum
  EXPECT_NEAR(none["bytes_sent"][0].get<double>(), 2 * 4 * n * 3 / 4, 0.02 * n);
  EXPECT_LT(all["memory_bytes"][0].get<double>(), 0.6 * none["memory_bytes"][0].get<double>());
  const Json many = json_of({"info", "gpt2", "--phase", "train", "--batch", "1024", "--length", "64", "--ranks", "512",
                             "--micro-batches", "1024", "--shard", "parameters"});
  EXPECT_EQ(many["cluster"]["messages"].size(), 512u);
  EXPECT_THAT(output_of(with(step, {"--ranks", "4", "--micro-batches", "8"})),
              testing::HasSubstr("A step on 4 ranks: 8 micro-batches, --shard none"));
  expect_error(with(step, {"--ranks", "4"}), {"--micro-batches", "at least as many as ranks (4), got 1"});
  expect_error(with(step, {"--ranks", "4", "--micro-batches", "7"}), {"--batch", "a multiple of"});
  expect_error({"info", "gpt2", "--ranks", "4"}, {"--ranks", "expected --phase train"});
}

TEST(Info, NamesTheNumbersOfItsProducts) {
  EXPECT_EQ(json_of({"info", "gemma-2-2b"})["compute"], "bf16");
  EXPECT_EQ(json_of({"info", "gemma-2-2b", "--compute", "f32"})["compute"], "f32");
  EXPECT_EQ(json_of({"info", "gpt2"})["compute"], "f32");
  EXPECT_EQ(json_of({"info", golden("llama_gqa_bf16_sharded")})["compute"], "bf16");
  EXPECT_EQ(json_of({"info", golden("llama_gqa_bf16_sharded"), "--compute", "f32"})["compute"], "f32");
  EXPECT_EQ(json_of({"info", "gemma-2-2b", "--compute", "bf16"})["compute"], "bf16");
  EXPECT_NE(output_of({"info", "gemma-2-2b", "--compute", "bf16"}).find("products in bf16"), std::string::npos);
  expect_error({"info", "gemma-2-2b", "--compute", "int8"}, {"[--compute]", "int8", "bf16"});
  EXPECT_EQ(json_of({"info", golden("llama_gqa_bf16_sharded"), "--compute", "bf16"})["compute"], "bf16");
  expect_error({"info", golden("gpt2"), "--compute", "bf16"}, {"compute", "f32"});
  expect_error({"info", golden("gpt2"), "--compute", "int8"}, {"[--compute]", "has none"});
}

TEST_F(Models, InfoTakesBatchLengthAndPhase) {
  const Json one = json_of({"info", "gpt2", "--batch", "1", "--length", "10"});
  const Json four = json_of({"info", "gpt2", "--batch", "4", "--length", "10"});
  EXPECT_EQ(4 * one["account"]["forward"]["flops"].get<double>(), four["account"]["forward"]["flops"].get<double>());
  EXPECT_EQ(one["account"]["prefill"]["length"], 10);
  EXPECT_THAT(output_of({"info", "gpt2", "--phase", "decode"}), testing::HasSubstr("Op by op: decode"));
  expect_error({"info", "gpt2", "--length", "1025"}, {"1024", "1025"});
  expect_usage_error({"info", "gpt2", "--phase", "sleep"}, {"sleep"});
  expect_usage_error({"info", "gpt2", "--batch", "0"}, {"--batch"});
  expect_error({"info", "gtp2"}, {"did you mean gpt2?"});
  EXPECT_NE(json_of({"info", "gpt2", "--kv", "int8"})["kv_bytes_per_token"], one["kv_bytes_per_token"]);
}

TEST_F(Models, InfoAsMarkdown) {
  const std::string page = output_of({"info", "gpt2", "--markdown"});
  EXPECT_THAT(page, testing::AllOf(testing::StartsWith("# gpt2"), testing::HasSubstr("\n## Parameters\n"),
                                   testing::HasSubstr("| total |"), testing::HasSubstr("| --: |")));
}

TEST_F(Models, InfoOfTheDefaultModelAndOfFiles) {
  EXPECT_THAT(output_of({"info"}), testing::HasSubstr("models/default"));
  EXPECT_EQ(json_of({"info", golden("gemma2")})["dtype"], "f32");
  EXPECT_EQ(json_of({"info", golden("gemma2") + "/config.json"})["params"],
            json_of({"info", golden("gemma2")})["params"]);
}

TEST_F(Models, EvalCountsBitsOverTheBytesOfAFile) {
  const std::string model = tiny_model();
  std::string text;
  for (int i = 0; i < 100; ++i) text += i % 3 == 0 ? "ab, " : "[a b]\n";
  write_file(folder_ / "text", text);
  const Json json = json_of({"eval", model, folder_ / "text"});
  EXPECT_NEAR(json["perplexity"].get<double>(), std::exp(json["loss"].get<double>()), 1e-9);
  const double nats = json["loss"].get<double>() * json["tokens"].get<double>();
  EXPECT_NEAR(json["bits_per_byte"].get<double>(), nats / std::log(2.0) / json["bytes"].get<double>(), 1e-9);
  EXPECT_EQ(json["bytes"], text.size()) << "each window begins with BOS, so every token counts";
  EXPECT_EQ(json["window"], 40);
  EXPECT_EQ(json["bos"], 1);
  const Json bare = json_of({"eval", model, folder_ / "text", "--no-special"});
  EXPECT_EQ(bare["bos"], nullptr);
  EXPECT_LT(bare["tokens"], json["tokens"]);
  EXPECT_THAT(output_of({"eval", model, folder_ / "text", "--window", "8", "--stride", "4"}),
              testing::HasSubstr("windows of 8 tokens, stride 4"));
}

TEST_F(Models, EvalReportsErrors) {
  const std::string model = tiny_model();
  write_file(folder_ / "empty", "");
  write_file(folder_ / "text", "a b a b");
  expect_error({"eval", model, folder_ / "empty"}, {"at least one token"});
  expect_error({"eval", model, folder_ / "txet"}, {"txet", "did you mean"});
  expect_error({"eval", model, model}, {"got a folder"});
  expect_error({"eval", model, folder_ / "text", "--window", "41"}, {"40", "41"});
  expect_usage_error({"eval", model, folder_ / "text", "--window", "1"}, {"--window"});
  expect_usage_error({"eval"}, {"FILE"});
  expect_error({"eval", golden("gpt2"), folder_ / "text"}, {"tokenizer"});
}

TEST_F(Models, GenerationConfigIsHonouredAndShown) {
  const std::string model = tiny_model();
  write_file(model + "/generation_config.json", R"({"temperature": 0.25, "top_k": 7, "eos_token_id": 5})");
  const Json sampling = json_of({"generate", model, "a", "--top-k", "9", "--max-tokens", "1"})["sampling"];
  EXPECT_EQ(sampling["temperature"], 0.25);
  EXPECT_EQ(sampling["top_k"], 9);
  EXPECT_EQ(sampling["top_p"], 0.95);
  EXPECT_EQ(sampling["from_generation_config"], Json({"temperature"}));
}

}  // namespace
}  // namespace vitrine::test
