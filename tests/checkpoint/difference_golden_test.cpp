// Compares gradients with central differences of the same loss in float64, for a handful of elements of every tensor of
// every golden (tools/goldens/differences.py). No backward formula is involved.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "checkpoint/gradients_file.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/hugging_face/config_json.h"
#include "support/backward.h"

namespace vitrine::test {
namespace {

class DifferenceGolden : public testing::TestWithParam<std::string> {};

TEST_P(DifferenceGolden, GradientsAreSlopesOfTheLoss) {
  const std::string path = goldens() + "/" + GetParam() + "/differences.json";
  const Json json = read_json_file(path);
  const Checkpoint checkpoint = golden_checkpoint(GetParam());
  const Ids ids = golden_ids(GetParam());
  ThreadPool pool(2);
  const TempFolder folder;
  ModelGradients model_gradients(*checkpoint.model, {.threads = 2});
  model_gradients.forward_backward({ids}, 1.0f / static_cast<float>(ids.size() - 1));
  write_gradients(folder / "g.safetensors", checkpoint, model_gradients.raw(), pool);
  const Values gradients = tensors_of(folder / "g.safetensors");
  std::set<std::string> met;
  double worst = 0, largest = 0;
  for (const Json& element : json["elements"]) largest = std::max(largest, std::abs(element["value"].get<double>()));
  const std::vector<CacheLayerConfig> layers = cache_layers(checkpoint.model->config());
  const bool has_states = std::any_of(layers.begin(), layers.end(), [](const auto& l) { return !l.states.empty(); });
  EXPECT_NEAR(model_gradients.cross_entropy / static_cast<double>(ids.size() - 1), json["loss"].get<double>(),
              (has_states ? 1e-6 : 3e-7) * (1 + json["loss"].get<double>()));
  // float32 rounding in models with deliberately large weights; short vectors that get unit length add to it
  const double bar = (has_states ? 1e-4 : 5e-6) * (1 + largest);
  for (const Json& element : json["elements"]) {
    const auto name = element["name"].get<std::string>();
    ASSERT_TRUE(gradients.contains(name)) << name;
    const auto slope = element["value"].get<double>();
    const auto ours = static_cast<double>(gradients.at(name).data.at(element["index"].get<std::size_t>()));
    EXPECT_NEAR(ours, slope, bar) << name << ", element " << element["index"];
    worst = std::max(worst, std::abs(ours - slope));
    met.insert(name);
  }
  EXPECT_EQ(met.size(), gradients.size()) << "a tensor has no reference slope";
  EXPECT_GT(largest, 0.01);
  RecordProperty("worst", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(All, DifferenceGolden, testing::ValuesIn(golden_cases()),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace vitrine::test
