// vitrine lens, attribute, heads and patch, and what trace can do besides: their JSON and what they refuse.
#include "cli/program.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

TEST(Inside, TheLensEndsAtThePrediction) {
  const Json lens =
      json_of({"lens", golden("gemma2"), "--ids", "2,5,40", "--top", "3", "--token", "#7", "--sublayers"});
  const Json predicted = json_of({"predict", golden("gemma2"), "--ids", "2,5,40", "--top", "3"});
  EXPECT_EQ(lens["ids"], Json({2, 5, 40}));
  EXPECT_EQ(lens["states"].size(), lens["lens"].size());
  EXPECT_EQ(lens["states"][0], "blocks.0.hook_resid_pre");
  EXPECT_EQ(lens["states"][1], "blocks.0.hook_resid_mid");
  for (std::size_t t = 0; t < 3; ++t) {
    const Json& cell = lens["lens"].back()[t];
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(cell["top"][i]["id"], predicted["tokens"][t]["top"][i]["id"]);
      EXPECT_EQ(cell["top"][i]["logprob"], predicted["tokens"][t]["top"][i]["logprob"]);
    }
    EXPECT_EQ(cell["kl"], 0);
    EXPECT_EQ(cell["tokens"][0]["id"], 7);
  }
  EXPECT_THAT(output_of({"lens", golden("gpt2"), "--ids", "1,2", "--token", "#3"}), HasSubstr("hook_resid_post"));
}

TEST(Inside, TrainedLensesMapTheStates) {
  const TempFolder folder;
  const auto config = [&](const std::string& name, const std::string& more) {
    std::ofstream(folder / name) << "model.from = '" << golden("gemma2") << "'\ndata.ids = '" << folder / "ids.jsonl"
                                 << "'\nout.folder = '" << folder / (name + ".run") << "'\n"
                                 << more;
    return folder / name;
  };
  std::ofstream(folder / "ids.jsonl") << "[2,5,40,7,9]\n{\"ids\": [3,3,8,1]}\n";
  const auto train = [](const std::string& path) {
    const Outcome o = run_program({"train", path, "--json"});
    EXPECT_EQ(o.status, 0) << o.err;
    return Json::parse(o.out, nullptr, false);
  };
  EXPECT_EQ(train(config("jacobian", "[lens]\nkind = 'jacobian'\nskip_first_positions = 1\n"))["step"], 2);
  EXPECT_EQ(train(config("tuned", "[train]\nsteps = 2\nbatch = 2\n[lens]\nkind = 'tuned'\n"))["step"], 2);
  const Arguments text = {"lens", golden("gemma2"), "--ids", "2,5,40"};
  const auto lens = [&](const std::string& option, const std::string& name) {
    Arguments arguments = text;
    arguments.insert(arguments.end(), {option, (folder / name) + ".run/last"});
    return arguments;
  };
  const Json plain = json_of(text), jacobian = json_of(lens("--jacobian", "jacobian")),
             tuned = json_of(lens("--tuned", "tuned"));
  EXPECT_EQ(tuned["states"], plain["states"]);
  EXPECT_EQ(jacobian["states"].size(), plain["states"].size() - 1);
  EXPECT_EQ(jacobian["states"][0], plain["states"][1]);
  for (const Json* own : {&jacobian, &tuned}) {
    EXPECT_EQ((*own)["lens"].back(), plain["lens"].back());
    EXPECT_NE((*own)["lens"].front(), plain["lens"][own == &jacobian ? 1 : 0]);
  }
  const auto refused = [](Arguments arguments, const Arguments& more, int status, const std::string& part) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_failure(arguments, status, {part});
  };
  refused(lens("--tuned", "jacobian"), {}, 1, "expected a tuned lens, got one of the kind jacobian");
  refused(lens("--tuned", "tuned"), {"--jacobian", "x"}, 2, "give --tuned or --jacobian, not both");
  refused(lens("--tuned", "tuned"), {"--sublayers"}, 1, "no maps of the states between sublayers");
  refused(text, {"--tuned", golden("gemma2") + "/model.safetensors"}, 1, "the tensor layers.0 is missing");
}

TEST(Inside, AttributionNamesItsTerms) {
  const Json found =
      json_of({"attribute", golden("gpt2"), "--ids", "1,2,3", "--token", "#4", "--by", "head", "--ablate"});
  std::set<std::string> names;
  for (const Json& term : found["terms"]) {
    names.insert(term["name"].get<std::string>());
    EXPECT_TRUE(term["ablated"].is_number()) << term;
  }
  for (const char* name :
       {"embed", "pos_embed", "blocks.0.attn.head.1", "blocks.0.attn.bias", "blocks.1.mlp", "final_norm.bias"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(found["position"], 2);
  EXPECT_NEAR(found["sum"].get<double>(), found["unembedded"].get<double>(), 1e-4);
}

TEST(Inside, RepeatedTokensAreDrawnFromTheSeed) {
  const Arguments draw = {"heads", golden("gpt2"), "--repeated", "5", "--seed", "3"};
  const Json found = json_of(draw);
  EXPECT_EQ(found, json_of(draw));
  ASSERT_EQ(found["ids"].size(), 10U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(found["ids"][i], found["ids"][i + 5]);
  for (const Json& head : found["heads"]) EXPECT_TRUE(head["induction"].is_number());
  EXPECT_TRUE(json_of({"heads", golden("gpt2"), "--ids", "3"})["heads"][0]["previous"].is_null());
}

TEST(Inside, EqualPromptsHaveNothingToRecover) {
  const Arguments equal = {"patch", golden("gpt2"), "--clean-ids", "1,2", "--corrupted-ids", "1,2", "--token", "#4"};
  const Json patched = json_of(equal);
  for (const Json& row : patched["recovered"]) {
    for (const Json& value : row) EXPECT_TRUE(value.is_null());
  }
  EXPECT_THAT(output_of(equal), testing::AllOf(HasSubstr("–"), testing::Not(HasSubstr("nan"))));
}

TEST(Inside, APatchIsATraceWithTheValueOfAnother) {
  const TempFolder folder;
  const std::string clean = "1,2,3,4", corrupted = "1,5,3,6", file = folder / "clean.safetensors";
  const Json found = json_of({"patch", golden("mistral"), "--clean-ids", clean, "--corrupted-ids", corrupted, "--token",
                              "#4", "--site", "attn.hook_k", "--approximate"});
  json_of({"trace", golden("mistral"), "--ids", clean, "--out", file});
  json_of({"trace", golden("mistral"), "--ids", corrupted, "--sites", "hook_logits", "--set",
           "blocks.1.attn.hook_k[:,1]=@" + file, "--out", folder / "patched.safetensors"});
  const std::vector<float> logits = tensor_of(folder / "patched.safetensors", "hook_logits");
  EXPECT_EQ(found["metric"][1][1].get<double>(), static_cast<double>(logits[3 * logits.size() / 4 + 4]));
  EXPECT_EQ(found["axes"], Json({"layer", "head"}));
  EXPECT_EQ(found["approximate"].size(), found["metric"].size());
  expect_error({"trace", golden("mistral"), "--ids", "1,2", "--set", "blocks.1.attn.hook_k=@" + file, "--out",
                folder / "x.safetensors"},
               {"shape [2, ", "[4, "});
  EXPECT_FALSE(folder.files().contains("x.safetensors"));
}

TEST(Inside, TraceWritesRows) {
  const TempFolder folder;
  const Arguments all = {"trace", golden("gpt2"), "--ids", "1,2,3,4", "--out", folder / "all.safetensors"};
  json_of(all);
  const Json rows =
      json_of({"trace", golden("gpt2"), "--ids", "1,2,3,4", "--rows", "1:3", "--out", folder / "rows.safetensors"});
  const auto stream = tensor_of(folder / "all.safetensors", "blocks.1.hook_resid_pre");
  const auto part = tensor_of(folder / "rows.safetensors", "blocks.1.hook_resid_pre");
  const auto d = static_cast<std::ptrdiff_t>(stream.size() / 4);
  EXPECT_EQ(part, std::vector<float>(stream.begin() + d, stream.begin() + 3 * d));
  const auto pattern = tensor_of(folder / "all.safetensors", "blocks.0.attn.hook_pattern");
  const auto few = tensor_of(folder / "rows.safetensors", "blocks.0.attn.hook_pattern");
  ASSERT_EQ(few.size() * 2, pattern.size());
  EXPECT_EQ(few[8], pattern[16 + 4]) << "head 1, row 1";
  std::int64_t bytes = 0;
  for (const Json& site : rows["sites"]) bytes += site["bytes"].get<std::int64_t>();
  EXPECT_NEAR(static_cast<double>(bytes), rows["bytes"].get<double>(), 0.05 * static_cast<double>(bytes));
}

TEST(Inside, TraceGradientsOfALogit) {
  const TempFolder folder;
  json_of({"trace", golden("gpt2"), "--ids", "1,2,3", "--of", "#4-#5", "--sites", "unembed.hook_out", "--out",
           folder / "g.safetensors"});
  const std::vector<float> gradient = tensor_of(folder / "g.safetensors", "unembed.hook_out_grad");
  const std::size_t n = gradient.size() / 3;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_EQ(gradient[i], i == 2 * n + 4 ? 1.0f : i == 2 * n + 5 ? -1.0f : 0.0f) << i;
  }
}

TEST(Inside, BadInputIsOneLine) {
  const TempFolder folder;
  const std::string out = folder / "x.safetensors", gpt2 = golden("gpt2");
  expect_error({"attribute", gpt2, "--ids", "1,2", "--token", "#1000"}, {"#1000", "42"});
  expect_error({"attribute", gpt2, "--ids", "1,2", "--token", "#1", "--position", "2"}, {"-2 to 1", "2 tokens"});
  expect_error({"attribute", gpt2, "--ids", "1,2", "--token", "the"}, {"no tokenizer"});
  expect_error({"patch", gpt2, "--clean-ids", "1,2,3", "--corrupted-ids", "1,2", "--token", "#1"},
               {"3 tokens", "got 2"});
  expect_error({"patch", gpt2, "--clean-ids", "1", "--corrupted-ids", "2", "--token", "#1", "--site", "hook_resid_pri"},
               {"did you mean hook_resid_pre?"});
  expect_usage_error({"patch", gpt2, "--clean-ids", "1", "--token", "#1"}, {"--corrupted"});
  expect_usage_error({"lens", gpt2, "--ids", "1", "--top", "0"});
  expect_error({"trace", gpt2, "--ids", "1,2", "--sites", "*.hook_resid_pri", "--out", out},
               {"did you mean *.hook_resid_pre?"});
  expect_error({"trace", gpt2, "--ids", "1,2", "--set", "blocks.0.hook_resid_pre[2]=0", "--out", out}, {"[2, "});
  expect_error({"trace", gpt2, "--ids", "1,2", "--rows", "1:3", "--out", out}, {"2 tokens", "1:3"});
  EXPECT_TRUE(folder.files().empty());
}

TEST(Inside, BenchReadsSites) {
  const Json found = json_of({"bench", golden("gpt2"), "--prompt", "8", "--generate", "2", "--sites", "*resid_post"});
  EXPECT_GT(found["traced_prefill_tokens_per_s"].get<double>(), 0);
}

}  // namespace
}  // namespace vitrine::test
