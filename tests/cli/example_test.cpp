// vitrine example: its formats, and errors.
#include "cli/program.h"

namespace vitrine::test {
namespace {

TEST(ExampleCommand, PrintsTheWholeStep) {
  const std::string out = output_of({"example"});
  for (const char* part : {"\"the cat sat on the\" is followed by \"mat\"", "from the document",
                           "Each row states its origin", "seed 4, in tenths", "grad:embed.weight", "new:embed.weight",
                           "finite differences:", "The update changed the loss from"}) {
    EXPECT_THAT(out, testing::HasSubstr(part));
  }
  EXPECT_EQ(output_of({"example"}), out) << "the example must be deterministic";
  EXPECT_NE(output_of({"example", "--seed", "2"}), out);
}

TEST(ExampleCommand, ACellIsSpelledOut) {
  const std::string out = output_of({"example", "--cell", "blocks.0.attn.hook_q[0,1]"});
  EXPECT_THAT(out, testing::HasSubstr("[0,0,1] = 1.4128·0.4000 + (−1.4128)·0.3000"));
  EXPECT_THAT(out, testing::HasSubstr(" = 0.1413"));
}

TEST(ExampleCommand, AsJson) {
  const Json json = json_of({"example", "--optimizer", "adamw", "--ids", "1,2", "--target", "0"});
  EXPECT_EQ(json["ids"], Json({1, 2}));
  EXPECT_EQ(json["params"], 348);
  EXPECT_LT(json["loss_after"].get<double>(), json["loss"].get<double>());
  bool found = false;
  for (const Json& s : json["sections"]) {
    if (s["name"] != "grad:blocks.0.attn.wq.weight") continue;
    found = true;
    EXPECT_EQ(s["shape"], Json({4, 4}));
    EXPECT_EQ(s["values"].size(), 16U);
    EXPECT_EQ(s["differences"].size(), 16U);
    EXPECT_TRUE(s["cells"][0].contains("arithmetic"));
  }
  EXPECT_TRUE(found);
}

TEST(ExampleCommand, HtmlUsesNoNetworkAndNoScript) {
  const TempFolder folder;
  const std::string path = folder / "example.html";
  EXPECT_THAT(output_of({"example", "--format", "html", "--out", path}), testing::StartsWith(path + ": "));
  const std::string page = read_file(path);
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, testing::HasSubstr("<math>"));
  EXPECT_THAT(page, testing::HasSubstr("prefers-color-scheme: dark"));
  for (const char* outside : {"<script", "http:", "https:", "<link", "@import", "url(", "<img"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
}

TEST(ExampleCommand, AsMarkdown) {
  const std::string out = output_of({"example", "--format", "markdown"});
  EXPECT_THAT(out, testing::StartsWith("# The worked example"));
  EXPECT_THAT(out, testing::HasSubstr("\n## Backward\n"));
  EXPECT_THAT(out, testing::HasSubstr("| 4 the |"));
}

TEST(ExampleCommand, OfAnyTinyModel) {
  const std::string config = golden("gpt_neox") + "/config.json";
  const Json json = json_of({"example", "--config", config, "--ids", "3,4", "--target", "1"});
  EXPECT_EQ(json["title"], config);
  // The page escapes markup in a path.
  const TempFolder folder;
  const std::string hostile = folder / "<i>a & b.json";
  write_file(hostile, read_file(config));
  const std::string page = output_of({"example", "--config", hostile, "--ids", "3", "--format", "html"});
  EXPECT_EQ(page.find("<i>a"), std::string::npos);
  EXPECT_THAT(page, testing::HasSubstr("&lt;i&gt;a &amp; b.json"));
}

TEST(ExampleCommand, ReportsErrorsInOneLine) {
  expect_error({"example", "--ids", "0,8"}, {"[--ids]", "ids from 0 to 7, got 8"});
  expect_error({"example", "--target", "9"}, {"[--target]", "from 0 to 7, got 9"});
  expect_error({"example", "--target", "-1"}, {"[--target]", "got -1"});
  expect_error({"example", "--lr", "0"}, {"[--lr]", "positive"});
  expect_error({"example", "--cell", "blocks.0.attn.hook_qq[0,1]"}, {"[--cell]", "did you mean blocks.0.attn.hook_q?"});
  expect_error({"example", "--cell", "blocks.0.attn.hook_q[9,1]"}, {"[--cell]", "has shape [5, 2, 2]"});
  expect_error({"example", "--config", "nowhere.json"}, {"nowhere.json"});
  expect_usage_error({"example", "--ids", "a"}, {"--ids"});
  expect_usage_error({"example", "--optimizer", "adam"}, {"--optimizer"});
  expect_usage_error({"example", "--digits", "0"}, {"--digits"});
  const TempFolder folder;
  write_file(folder / "large.json",
             R"({"model_type": "vitrine", "d_model": 64, "n_layers": 2, "n_heads": 2, "d_ff": 64, "vocab_size": 100,
                 "max_seq_len": 8})");
  expect_error({"example", "--config", folder / "large.json"}, {"at most 20000 parameters", "got 70"});
}

}  // namespace
}  // namespace vitrine::test
