// vitrine look --run: the text at every checkpoint of a training run.
#include "cli/look_page.h"
#include "support/training.h"

namespace vitrine::test {
namespace {

TEST(LookRun, EveryCheckpointReadsTheTextAsPredictDoes) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "the " + std::to_string(i * 37 % 101) + " cat sat on the mat.\n";
  write_file(folder / "text.txt", text);
  const std::string tokenizer = folder / "char.json", tokens = folder / "tokens";
  output_of({"tokenizer", "train", folder / "text.txt", "--model", "char", "--out", tokenizer});
  output_of({"data", "pack", folder / "text.txt", "--tokenizer", tokenizer, "--out", tokens});
  TinyRun run;
  const std::string size = std::to_string(std::set<char>(text.begin(), text.end()).size());
  run.model.replace(run.model.find("vocab_size = 23"), 15, "vocab_size = " + size);
  run.data = tokens;
  run.data_more = "tokenizer = \"" + tokenizer + "\"\n";
  run.out = folder / "run";
  run.log = "save_every = 4\nkeep_last = 9\n";
  write_file(folder / "run.toml", run.toml());
  ASSERT_EQ(run_program({"train", folder / "run.toml", "--threads", "1"}).status, 0);

  const WrittenPage page = look({folder / "run/last", "the cat", "--run", folder / "run"});
  EXPECT_EQ(values_of<double>(page, "run.step"), (std::vector<double>{4, 8}));
  const auto losses = values_of<double>(page, "run.loss");
  const std::vector<Json> lines = metrics_of(folder / "run");
  EXPECT_EQ(losses.back(), lines.back()["loss"]);
  const auto ids = values_of<std::int32_t>(page, "run.top.id");
  std::size_t i = 0;
  for (const char* const step : {"000004", "000008"}) {
    const Json predicted = json_of({"predict", folder / ("run/checkpoints/step-" + std::string(step)), "the cat"});
    for (const Json& token : predicted["tokens"]) {
      for (const Json& top : token["top"]) EXPECT_EQ(ids[i++], top["id"]);
    }
  }
  EXPECT_EQ(i, ids.size());
  const Json heads = json_of({"heads", folder / "run/last", "the cat"})["heads"];
  const auto entropy = values_of<double>(page, "run.heads.entropy");
  ASSERT_EQ(entropy.size(), 2 * heads.size());
  for (std::size_t h = 0; h < heads.size(); ++h) EXPECT_EQ(entropy[heads.size() + h], heads[h]["entropy"]);

  expect_error({"look", "the cat", "--run", folder / "run", "--out", folder / "none.html"}, {"--run", "vocabulary"});
}

}  // namespace
}  // namespace vitrine::test
