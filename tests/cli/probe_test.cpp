// vitrine probe, and --probe of other commands.
#include "cli/program.h"

namespace vitrine::test {
namespace {

const std::string kModel = source_dir() + "/models/default";
constexpr const char* kSite = "blocks.3.hook_resid_post";

class ProbeCommands : public testing::Test {
 protected:
  std::string lines(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  /// Texts about animals, and others.
  std::string animals() const {
    return lines("animals.jsonl", R"({"text": "The cat sat on the mat.", "label": true}
{"text": "A dog ran to the park.", "label": true}
{"text": "The bird sang a song.", "label": true}
{"text": "She ate a red apple.", "label": false}
{"text": "The sun was very hot.", "label": false}
{"text": "He had a big box.", "label": false}
)");
  }

  TempFolder folder_;
};

/// --json is an option of the command, which has two words here.
Json json_of_probe(Arguments arguments) {
  arguments.insert(arguments.begin() + 2, "--json");
  return Json::parse(output_of(arguments), nullptr, false);
}

TEST_F(ProbeCommands, TrainAndEvalAgree) {
  const std::string data = animals(), out = folder_ / "p.safetensors";
  const Json trained =
      json_of_probe({"probe", "train", kModel, data, "--site", kSite, "--pool", "mean", "--C", "0.5", "--out", out});
  EXPECT_EQ(trained["labels"], Json({false, true}));
  EXPECT_EQ(trained["texts"], 6);
  EXPECT_EQ(trained["auroc"], 1.0);
  EXPECT_LT(trained["gradient_norm"], 1e-6);
  const Json measured = json_of_probe({"probe", "eval", kModel, data, "--probe", out});
  for (const char* key : {"site", "pool", "labels", "texts", "auroc", "accuracy"})
    EXPECT_EQ(measured[key], trained[key]);
  EXPECT_NEAR(measured["loss"].get<double>(), trained["loss"].get<double>(), 1e-6);
  EXPECT_EQ(tensor_of(out, "bias").size(), 1U);
  const std::string bytes = read_file(out);
  json_of_probe({"probe", "train", kModel, data, "--site", kSite, "--pool", "mean", "--C", "0.5", "--out", out,
                 "--threads", "3"});
  EXPECT_TRUE(read_file(out) == bytes) << "the bits depend on the number of threads";
  const std::string one = lines("one.jsonl", R"({"text": "A cat.", "label": true})");
  EXPECT_TRUE(json_of_probe({"probe", "eval", kModel, one, "--probe", out})["auroc"].is_null());
}

TEST_F(ProbeCommands, AProbeIsReadWithEveryToken) {
  const std::string probe = folder_ / "mood.safetensors", text = "The cat sat on the mat.";
  json_of_probe({"probe", "train", kModel, animals(), "--site", kSite, "--pool", "mean", "--out", probe});
  output_of({"trace", kModel, text, "--probe", probe, "--sites", "probe.*", "--sites", kSite, "--out",
             folder_ / "t.safetensors"});
  const std::vector<float> logits = tensor_of(folder_ / "t.safetensors", "probe.mood"),
                           x = tensor_of(folder_ / "t.safetensors", kSite), w = tensor_of(probe, "weight"),
                           b = tensor_of(probe, "bias");
  ASSERT_EQ(logits.size() * w.size(), x.size());
  for (std::size_t t = 0; t < logits.size(); ++t) {
    double expected = b[0];
    for (std::size_t i = 0; i < w.size(); ++i) {
      expected += static_cast<double>(w[i]) * static_cast<double>(x[t * w.size() + i]);
    }
    EXPECT_NEAR(logits[t], expected, 1e-4);
  }
  const Json predicted = json_of({"predict", kModel, text, "--probe", "cat=" + probe});
  const Json& own = predicted["probes"][0];
  EXPECT_EQ(own["name"], "cat");
  ASSERT_EQ(own["tokens"].size(), logits.size());
  for (std::size_t t = 0; t < logits.size(); ++t) EXPECT_EQ(own["tokens"][t][0].get<float>(), logits[t]);
  EXPECT_THAT(output_of({"predict", kModel, "The cat", "--probe", probe}), testing::HasSubstr("probe.mood"));

  const Arguments generate = {"generate", kModel, text, "--max-tokens", "5", "--temperature", "0"};
  Arguments with_probe = generate;
  with_probe.insert(with_probe.end(), {"--probe", probe});
  const Json generated = json_of(with_probe), plain = json_of(generate);
  EXPECT_EQ(generated["ids"], plain["ids"]) << "a probe changes nothing";
  const Json& tokens = generated["probes"][0]["tokens"];
  ASSERT_EQ(tokens.size(), logits.size() + generated["ids"].size() - 1);
  for (std::size_t t = 0; t < logits.size(); ++t) EXPECT_EQ(tokens[t][0].get<float>(), logits[t]);
  expect_usage_error(with_probe, {"--probe", "--json"});
}

TEST_F(ProbeCommands, AreRefusedByName) {
  const auto expect_data = [&](const std::string& text, const std::vector<std::string>& parts) {
    expect_error({"probe", "train", kModel, lines("bad.jsonl", text), "--site", kSite, "--out", folder_ / "bad"},
                 parts);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "bad"));
  };
  expect_data(R"({"text": "a", "label": 1})", {"at least two labels, got 1 alone"});
  expect_data(R"({"text": "", "label": 1})", {"bad.jsonl, line 1", "an empty one"});
  expect_data(R"({"text": "a", "label": 0.5})", {"line 1", "got 0.5"});
  expect_data(R"({"text": "a", "label": NaN})", {"line 1"});
  expect_data(R"({"text": "a", "label": null})", {"line 1", "got none"});
  expect_data(R"({"text": "a"})", {"line 1", "got none"});
  expect_data("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": \"1\"}", {"line 2", "a whole number"});
  expect_data("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": true}", {"line 2", "a whole number"});
  expect_data("", {"empty"});
  const std::string data = animals();
  expect_error({"probe", "train", kModel, data, "--site", "blocks.99.hook_resid_post", "--out", folder_ / "bad"},
               {"--site", "no site blocks.99"});
  expect_error({"probe", "train", kModel, data, "--site", "hook_logits", "--out", folder_ / "bad"}, {"--site"});
  expect_usage_error({"probe", "train", kModel, data, "--out", folder_ / "bad"}, {"--site"});
  expect_usage_error({"probe", "train", kModel, data, "--site", kSite, "--C", "0", "--out", folder_ / "bad"}, {"--C"});
  const std::string probe = folder_ / "p.safetensors";
  json_of_probe({"probe", "train", kModel, data, "--site", kSite, "--out", probe});
  expect_error({"predict", kModel, "a", "--probe", probe + "@blocks.0.mlp.hook_post"}, {"the width of the site"});
  expect_error({"predict", kModel, "a", "--probe", probe, "--probe", probe}, {"another probe is probe.p"});
  expect_error({"predict", kModel, "a", "--probe", "a.b=" + probe}, {"a.b="});
  expect_error({"probe", "eval", kModel, lines("other.jsonl", R"({"text": "a", "label": "x"})"), "--probe", probe},
               {"line 1", "the probe knows [false,true]"});
  expect_error({"probe", "eval", kModel, data, "--probe", probe, "--site", "blocks.0.mlp.hook_post"}, {"--site"});
  expect_error({"probe", "eval", kModel, data, "--probe", lines("p.pkl", "\x80\x04\x95.")}, {"pickle"});
}

TEST_F(ProbeCommands, EdgesAreSortedAndLimited) {
  const Arguments edges = {
      "patch",   kModel, "--clean", "Tim had a cat. The cat", "--corrupted", "Tim had a dog. The dog",
      "--token", " was", "--edges"};
  Arguments limited = edges;
  limited.insert(limited.end(), {"--top", "4", "--ig-steps", "2"});
  const Json found = json_of(limited);
  ASSERT_EQ(found["edges"].size(), 4U);
  EXPECT_EQ(found["ig_steps"], 2);
  EXPECT_GT(found["n_edges"], 1000);
  for (const Json& edge : found["edges"]) EXPECT_TRUE(edge["source"].contains("kind")) << edge;
  EXPECT_THAT(output_of(edges), testing::HasSubstr("20 of "));
  Arguments wrong = edges;
  wrong.insert(wrong.end(), {"--site", "hook_resid_pre"});
  expect_usage_error(wrong, {"--edges"});
  expect_usage_error({"patch", kModel, "--clean", "a", "--corrupted", "b", "--token", " was", "--ig-steps", "2"},
                     {"--edges"});
}

}  // namespace
}  // namespace vitrine::test
