// A sublayer that is added to the block appears in the account, the memory estimate, the trace and the worked example
// without further changes.
//
// This program has its own block: the real one, followed by one more op.
#define block real_block
#include "model/block.cpp"
#undef block

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/presets.h"
#include "example/example.h"
#include "inspect/account.h"
#include "inspect/recorder.h"
#include "model/dry_run.h"

namespace vitrine {

bool adds_sublayer = false;

Tensor block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const StackContext& context,
             const Tensor& x) {
  const Tensor y = real_block(p, at, c, w, context, x);
  return adds_sublayer ? p.tap(at(Site::resid_post), activate(p, Activation::silu, y)) : y;
}

namespace test {
namespace {

ModelConfig small() {
  const Json json = preset_or_config("gpt2");
  ModelConfig config = read_model_config(family_of(json, "gpt2"), json, "gpt2");
  config.blocks.resize(2);
  return config;
}

template <class Measure>
auto with_and_without(Measure&& measure) {
  adds_sublayer = false;
  const auto without = measure();
  adds_sublayer = true;
  const auto with = measure();
  adds_sublayer = false;
  return std::pair(without, with);
}

TEST(ANewSublayer, IsInTheAccount) {
  const auto bytes = [] { return account(small(), {Phase::prefill, 1, 16}).total.activation_bytes; };
  const auto [without, with] = with_and_without(bytes);
  EXPECT_EQ(with - without, 2 * (2 * 16 * 768) * 4) << "two layers, which read and write 16 rows each";
}

TEST(ANewSublayer, IsInTheMemoryOfTraining) {
  ThreadPool pool(1);
  const auto [without, with] = with_and_without([&] { return training_bytes(small(), {2, 512}, pool); });
  EXPECT_GE(with - without, 0.95 * (2 * 2 * 512 * 768 * 4));
}

TEST(ANewSublayer, IsInInfosLayoutAndATrace) {
  const auto count = [](const std::vector<SiteLayout>& layout) {
    return std::count_if(layout.begin(), layout.end(), [](const auto& s) { return s.site.site == Site::resid_post; });
  };
  const auto [without, with] = with_and_without([&] { return count(site_layout(small(), 0)); });
  EXPECT_EQ(with, without + 1);

  const auto order = [] {
    ThreadPool pool(1);
    DryPass dry(pool, {{0, 4, 0, nullptr}});
    std::vector<std::string> names;
    Recorder recorder({"blocks.0.hook_resid_post"}, {}, {2},
                      [&](const SiteId& id, const Tensor&) { names.push_back(name_of(id)); });
    dry.pass().taps = &recorder;
    dry.run(shape_model(small()));
    return names.size();
  };
  const auto [traced_without, traced_with] = with_and_without(order);
  EXPECT_EQ(traced_with, traced_without + 1);
}

TEST(ANewSublayer, IsInTheExampleWithItsFormulaAndArithmetic) {
  const auto sections = [] {
    ExampleOptions options;
    options.ids = {0, 1, 2};
    options.target = 5;
    options.lr = 0.01;
    options.max_differences = 1;
    std::vector<ExampleSection> found = work_example(document_model(4), options).sections;
    std::erase_if(found, [](const ExampleSection& s) { return s.name != "blocks.0.hook_resid_post"; });
    return found;
  };
  const auto [without, with] = with_and_without(sections);
  ASSERT_EQ(without.size(), 1U);
  ASSERT_EQ(with.size(), 2U);
  EXPECT_THAT(with.back().formula, testing::HasSubstr("1 + exp(")) << "SiLU";
  EXPECT_EQ(with.back().file, "src/ops/elementwise.cpp");
  ASSERT_EQ(with.back().cells.size(), 1U);
  const SpelledCell& cell = with.back().cells.front();
  EXPECT_NEAR(cell.result, static_cast<double>(cell.value), 1e-5) << cell.arithmetic;
}

}  // namespace
}  // namespace test
}  // namespace vitrine
