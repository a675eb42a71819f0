// Compares every site of every family with Hugging Face transformers (tools/goldens decoders), and checkpoints of
// VITRINE_DATA with their logits. A failure names the first site of the forward that diverges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/mapped_file.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

/// Relative to 1 + the largest magnitude of the tensor. Both sides are float32: the reference differs from its own
/// float64 run by up to 1e-6 of that.
constexpr float kTolerance = 2e-6f;
/// Of models with states, whose reference is float64. PyTorch's own float32 differs from it by up to 6e-6.
constexpr float kToleranceOfStates = 1e-5f;

float tolerance_of(const Model& model) {
  const std::vector<CacheLayerConfig> layers = cache_layers(model.config());
  const bool has_states = std::any_of(layers.begin(), layers.end(), [](const auto& l) { return !l.states.empty(); });
  return has_states ? kToleranceOfStates : kTolerance;
}

float largest(const std::vector<float>& values) {
  float m = 0;
  for (const float v : values) m = std::isfinite(v) ? std::max(m, std::abs(v)) : m;
  return m;
}

/// The largest difference divided by 1 + the largest magnitude, or infinity if infinities differ.
float difference(const std::vector<float>& ours, const std::vector<float>& reference) {
  float worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i] == reference[i]) continue;
    const float d = std::abs(ours[i] - reference[i]);
    worst = std::isfinite(d) ? std::max(worst, d) : INFINITY;
  }
  return worst / (1 + largest(reference));
}

/// The cases that store sites. llama_long stores only logits at late positions.
std::vector<std::string> site_cases() {
  std::vector<std::string> cases = golden_cases();
  std::erase(cases, "llama_long");
  return cases;
}

/// Sites of a mixer with a state that transformers has no module for.
bool is_of_state(const std::string& site) {
  const bool is_mixer = site.find(".mixer.") != site.npos || site.find(".linear_attn.") != site.npos;
  const bool is_inner = site.find("norm.hook_") != site.npos || site.find(".hook_ssm_") != site.npos;
  return is_mixer && (is_inner || site.ends_with("hook_effective_attention") || site.ends_with(".hook_z"));
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, EverySiteEqualsTheReference) {
  const auto expected = golden_values(GetParam());
  const Checkpoint checkpoint = golden_checkpoint(GetParam());
  Probe probe(*checkpoint.model, {"*", "*.hook_ssm_state"});
  logits_of(*checkpoint.model, golden_ids(GetParam()), {.taps = &probe, .compute = Compute::f32});

  std::size_t compared = 0;
  float worst = 0;
  for (const std::string& site : probe.order) {
    const auto it = expected.find(site);
    if (it == expected.end()) {  // copies of the residual stream, which the golden lacks
      EXPECT_TRUE(site.ends_with("_in") || site.ends_with("_input") || is_of_state(site))
          << site << " is not in the golden";
      continue;
    }
    ASSERT_EQ(probe.values[site].shape, it->second.shape) << site;
    const float d = difference(probe.values[site].data, it->second.data);
    ASSERT_LE(d, tolerance_of(*checkpoint.model)) << "the first site that diverges is " << site;
    worst = std::max(worst, d);
    ++compared;
  }
  EXPECT_EQ(compared, expected.size()) << "the golden has sites that the forward did not visit";
  RecordProperty("worst", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(site_cases()),
                         [](const auto& param_info) { return param_info.param; });

TEST(GoldenLong, LogitsAtLatePositions) {
  const auto expected = golden_values("llama_long");
  const Checkpoint checkpoint = golden_checkpoint("llama_long");
  const auto vocab_size = static_cast<std::size_t>(checkpoint.model->config().vocab_size);
  const std::vector<float> logits = logits_of(*checkpoint.model, golden_ids("llama_long"), {.threads = 2});
  const auto& positions = expected.at("positions").data;
  const auto& reference = expected.at("logits_at").data;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(positions[i]) * vocab_size);
    const auto row = static_cast<std::ptrdiff_t>(i * vocab_size), n = static_cast<std::ptrdiff_t>(vocab_size);
    const std::vector<float> ours(logits.begin() + at, logits.begin() + at + n);
    const std::vector<float> theirs(reference.begin() + row, reference.begin() + row + n);
    // The last bit of an angle near 1100 radians is 1.2e-4. The float32 reference differs from its float64 run as much.
    EXPECT_LE(difference(ours, theirs), 2e-5f) << "position " << positions[i];
  }
}

class OutsideCheckpoint : public testing::TestWithParam<std::string> {};

TEST_P(OutsideCheckpoint, LogitsEqualTheReference) {
  const std::string folder = outside_data("checkpoints/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no checkpoints/" << GetParam();
  const auto file = MappedFile::open(folder + "/expected.json");
  const Json expected =
      parse_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, "expected.json");
  const Checkpoint checkpoint = load_checkpoint(folder);
  ASSERT_GT(expected["sequences"].size(), 0u);
  for (std::size_t i = 0; i < expected["sequences"].size(); ++i) {
    std::vector<float> reference;
    for (const Json& row : expected["logits"][i]) {
      for (const Json& value : row) reference.push_back(value.get<float>());
    }
    const auto ids = expected["sequences"][i].get<std::vector<std::int32_t>>();
    const std::vector<float> ours = logits_of(*checkpoint.model, ids);
    ASSERT_EQ(ours.size(), reference.size());
    EXPECT_LE(difference(ours, reference), 2e-6f) << "sequence " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, OutsideCheckpoint,
                         testing::Values("gemma", "gemma2", "llama", "gpt2", "gpt_neox", "mistral", "mixtral", "qwen2"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace vitrine::test
