// The dictionaries of the default model.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/load.h"
#include "features/support.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::test {
namespace {

const std::string kModel = std::string(VITRINE_SOURCE_DIR) + "/models/default";

/// 1 − Σ error² / Σ (value − mean)², over all rows.
double explained(const std::vector<float>& values, const std::vector<float>& errors, std::size_t width) {
  std::vector<double> means(width);
  const double rows = static_cast<double>(values.size() / width);
  for (std::size_t i = 0; i < values.size(); ++i) means[i % width] += values[i] / rows;
  double variance = 0, error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double own = values[i] - means[i % width];
    variance += own * own;
    error += static_cast<double>(errors[i]) * errors[i];
  }
  return 1 - error / variance;
}

class Shipped : public testing::Test {
 protected:
  Shipped() : checkpoint_(load_checkpoint(kModel)) {
    const auto tokenizer = load_tokenizer(kModel);
    ids_ = tokenizer->encode(
        "Once upon a time, there was a little girl named Lily. She loved to play in the park with "
        "her mom and her dog. One day, the dog ran away and Lily was very sad.",
        SpecialTokens::apply);
  }

  Checkpoint checkpoint_;
  std::vector<std::int32_t> ids_;
};

TEST_F(Shipped, TheSparseAutoencoderExplainsTheStream) {
  const Applied sae = applied(kModel + "/sae", *checkpoint_.model);
  ASSERT_EQ(sae.size(), 1U);
  const Dictionary& d = *sae.front().dictionary;
  EXPECT_EQ(name_of(d.output), "blocks.3.hook_resid_post");
  EXPECT_EQ(d.architecture, "topk");
  EXPECT_EQ(d.d_sae(), 2048);
  DictionaryRun options;
  options.globs = {"blocks.3.hook_resid_post", "*.hook_sae_error", "*.hook_sae_acts_post"};
  options.dictionaries = sae;
  auto values = run(*checkpoint_.model, ids_, options).values;
  const std::vector<float>& acts = values["blocks.3.hook_resid_post.hook_sae_acts_post"];
  EXPECT_LE(std::ranges::count_if(acts, [](float a) { return a != 0; }), std::ssize(ids_) * d.selection.k);
  EXPECT_GT(explained(values["blocks.3.hook_resid_post"], values["blocks.3.hook_resid_post.hook_sae_error"], 256), 0.7);
}

TEST_F(Shipped, EachMlpHasATranscoder) {
  const Applied all = applied(kModel + "/transcoders", *checkpoint_.model);
  ASSERT_EQ(all.size(), 6U);
  DictionaryRun options;
  options.globs = {"*.hook_mlp_out", "*.hook_sae_error"};
  options.dictionaries = all;
  auto values = run(*checkpoint_.model, ids_, options).values;
  for (std::size_t layer = 0; layer < all.size(); ++layer) {
    const std::string site = "blocks." + std::to_string(layer) + ".hook_mlp_out";
    EXPECT_EQ(name_of(all[layer].dictionary->output), site);
    EXPECT_EQ(name_of(all[layer].dictionary->input), "blocks." + std::to_string(layer) + ".ln2.hook_out");
    EXPECT_GT(explained(values[site], values[site + ".hook_sae_error"], 256), 0.3) << site;
  }
}

TEST_F(Shipped, AreAtMostEightMegabytes) {
  std::uintmax_t bytes = 0;
  for (const char* const folder : {"/sae", "/transcoders"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kModel + folder)) bytes += entry.file_size();
  }
  EXPECT_LE(bytes, 8'000'000U);
}

}  // namespace
}  // namespace vitrine::test
