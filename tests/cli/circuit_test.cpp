// vitrine circuit: its files, its plan and its refusals.
#include "cli/program.h"

namespace vitrine::test {
namespace {

class CircuitCommand : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = outside_data("features");
    if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no features";
    arguments_ = {"circuit",       folder + "/gpt2",
                  "--ids",         "5,6,7,8,9,10,11,12,13,14",
                  "--transcoders", folder + "/gpt2-cross-layer"};
  }
  Arguments with(const Arguments& more) const {
    Arguments all = arguments_;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Arguments arguments_;
  std::string out_ = testing::TempDir() + "/circuit.json", adjacency_ = testing::TempDir() + "/circuit.safetensors";
};

TEST_F(CircuitCommand, WritesTheGraphOfTheFrontend) {
  const Json result = json_of(with({"--out", out_, "--adjacency", adjacency_}));
  std::ifstream in(out_);
  const Json graph = Json::parse(in);
  EXPECT_EQ(graph["metadata"]["slug"], "circuit");
  EXPECT_EQ(graph["metadata"]["scan"], "any");
  EXPECT_EQ(graph["nodes"].size(), result["nodes"]);
  EXPECT_EQ(graph["links"].size(), result["links"]);
  EXPECT_GT(result["peak_rss_bytes"], 0);
  std::set<std::string> ids;
  for (const Json& node : graph["nodes"]) ids.insert(node["node_id"]);
  EXPECT_EQ(ids.size(), graph["nodes"].size());
  for (const Json& link : graph["links"]) {
    EXPECT_TRUE(ids.contains(link["source"]) && ids.contains(link["target"])) << link;
  }
  const SafetensorsFile adjacency = SafetensorsFile::open(adjacency_);
  EXPECT_EQ(adjacency.tensors().at("active_features").shape.front(), result["active_features"]);
  EXPECT_TRUE(ids.contains("4_34_9")) << "the most probable logit";
}

TEST_F(CircuitCommand, PlansAndRefuses) {
  const Json plan = json_of(with({"--plan"}));
  EXPECT_EQ(plan["tokens"], 10);
  EXPECT_EQ(plan["feature_nodes"], 164);
  EXPECT_GT(plan["memory_bytes"], 1 << 20);
  EXPECT_GT(plan["seconds"], 0.0);
  expect_error(with({"--out", out_, "--max-memory", "1M"}), {"--max-memory", "about", "a shorter text"});
  expect_usage_error(with({}), {"--out"});
  expect_usage_error(with({"--out", out_, "--node-threshold", "1.5"}), {"--node-threshold"});
  expect_error(with({"--out", "/nowhere/graph.json"}), {"/nowhere"});
  Arguments without = arguments_;
  without.resize(4);
  expect_usage_error(without, {"--transcoders"});
}

}  // namespace
}  // namespace vitrine::test
