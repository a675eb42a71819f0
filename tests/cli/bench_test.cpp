// vitrine bench: all documented figures, the definitions of the fractions, and errors.
#include "cli/program.h"

namespace vitrine::test {
namespace {

TEST(Bench, ReportsSpeedsAndFractionsOfTheLimits) {
  const Json b = json_of({"bench", VITRINE_SOURCE_DIR "/models/default", "--prompt", "8", "--generate", "4",
                          "--threads", "1", "--train", "--seq", "8", "--batch", "2"});
  for (const char* key : {"prefill_tokens_per_s", "decode_tokens_per_s", "train_tokens_per_s", "decode_bytes_per_token",
                          "prefill_ops_per_token", "train_ops_per_token", "read_gb_per_s", "load_s", "first_token_s",
                          "train_peak_rss_bytes", "train_memory_estimate_bytes", "peak_rss_bytes"}) {
    ASSERT_TRUE(b[key].is_number()) << key;
    EXPECT_GT(b[key].get<double>(), 0) << key;
  }
  const auto number = [&](const char* key) { return b[key].get<double>(); };
  EXPECT_NEAR(number("decode_fraction_of_bandwidth"),
              number("decode_tokens_per_s") * number("decode_bytes_per_token") / (number("read_gb_per_s") * 1e9), 1e-6);
  if (b["gemm_gflops"]["f32"].is_null()) {  // built without oneDNN
    EXPECT_TRUE(b["gemm_gflops"]["int8"].is_null() && b["prefill_fraction_of_peak"].is_null());
  } else {
    const Json& products = b["gemm_gflops"];
    const double peak = products["f32"].get<double>() * 1e9;
    const double pairs = products["bf16"].is_null() ? peak : products["bf16"].get<double>() * 1e9;
    EXPECT_GT(products["int8"].get<double>(), 0);
    EXPECT_NEAR(number("prefill_fraction_of_peak"),
                number("prefill_tokens_per_s") * number("prefill_ops_per_token") / pairs, 1e-6);
    EXPECT_NEAR(number("train_fraction_of_peak"), number("train_tokens_per_s") * number("train_ops_per_token") / peak,
                1e-6);
  }
  EXPECT_EQ(b["threads"], 1);
  EXPECT_TRUE(b["isa"].is_string());
  EXPECT_EQ(b["compute"], "bf16");
  // d 256, 6 layers of q, k, v, o (2·256·256 + 2·256·128) and three matrices of 704, and the tied head.
  constexpr double kLayers = 6.0 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 704);
  EXPECT_EQ(number("prefill_ops_per_token"), 2 * kLayers);
  EXPECT_EQ(number("train_ops_per_token"), 6 * (kLayers + 4096 * 256));
}

TEST(Bench, ReportsErrorsInOneLine) {
  expect_error({"bench", "/nothing"}, {"[/nothing"});
  expect_usage_error({"bench", "--batch", "0"}, {"--batch"});
  expect_usage_error({"bench", "--prompt", "0"}, {"--prompt"});
  expect_usage_error({"bench", "--compute", "f64"}, {"--compute"});
}

}  // namespace
}  // namespace vitrine::test
