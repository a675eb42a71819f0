// Dry runs have the same ops, shapes, costs and memory as real forwards.
#include "model/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/attention_sites.h"
#include "ops/op_kind.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

/// Layer, name, op, shape and cost of every op of a ledger.
std::vector<std::string> lines_of(const Ledger& ledger) {
  std::vector<std::string> lines;
  for (const LedgerOp& op : ledger.ops()) {
    lines.push_back(std::to_string(op.layer) + " " + op.name + " " + std::string(name_of(op.call.kind)) + " " +
                    to_string(op.output.shape) + " " + std::to_string(op.cost.flops) + " " +
                    std::to_string(op.cost.weights));
  }
  return lines;
}

class DryRunOf : public testing::TestWithParam<std::string> {};

TEST_P(DryRunOf, HasTheOpsAndTheMemoryOfTheRealRun) {
  const Checkpoint checkpoint = golden_checkpoint(GetParam());
  const Model& model = *checkpoint.model;
  const auto ids = golden_ids(GetParam());
  const auto n = static_cast<std::int64_t>(ids.size());
  ThreadPool pool(2);
  Arena arena;
  Ledger real, dry;
  Pass pass{{pool, default_kernels(), arena}, {{0, n, 0, nullptr}}};
  pass.compute = Compute::f32;
  pass.ledger = &real;
  pass.logits = {LogitRequest::Rows::range, 0, n, [](std::int64_t, const Tensor&) {}};
  model.forward(pass, ids);

  DryPass shapes(pool, {{0, n, 0, nullptr}});
  shapes.pass().logits = pass.logits;
  shapes.pass().ledger = &dry;
  shapes.run(shape_model(model.config()));
  if (max_experts(model.config()) > 0) return;  // a dry run does not know the choice of experts
  EXPECT_EQ(lines_of(real), lines_of(dry));
  // The real run copies vectors that are not aligned in their file, and packs less where the file's weights are
  // transposed.
  const auto shapes_bytes = static_cast<double>(shapes.bytes()),
             real_bytes = static_cast<double>(arena.touched_bytes());
  EXPECT_LE(shapes_bytes, 1.25 * real_bytes);
  EXPECT_GE(shapes_bytes, (GetParam() == "opt_350m" ? 0.92 : 0.95) * real_bytes);  // its float16 has many biases
  EXPECT_GT(real.ops().size(), model.config().n_layers());
}

INSTANTIATE_TEST_SUITE_P(Each, DryRunOf, testing::ValuesIn(golden_cases()),
                         [](const auto& param_info) { return param_info.param; });

/// Wants every site, those on demand, too, but those of single experts.
struct WantsAll : Taps {
  bool wants(const SiteId& id) const override { return !info(id.site).in_expert(); }
  Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
    seen.push_back(name_of(id) + " " + to_string(value.shape));
    return value;
  }

  std::vector<std::string> seen;
};

TEST_P(DryRunOf, MeetsTheSitesOfTheRealRun) {
  const Checkpoint checkpoint = golden_checkpoint(GetParam());
  const Model& model = *checkpoint.model;
  const auto ids = golden_ids(GetParam());
  const auto n = static_cast<std::int64_t>(ids.size());
  ThreadPool pool(2);
  Arena arena;
  WantsAll real, dry;
  Pass pass{{pool, default_kernels(), arena}, {{0, n, 0, nullptr}}};
  pass.taps = &real;
  pass.logits = {LogitRequest::Rows::range, 0, n, {}};
  model.forward(pass, ids);

  DryPass shapes(pool, {{0, n, 0, nullptr}});
  shapes.pass().taps = &dry;
  shapes.pass().logits = pass.logits;
  shapes.run(shape_model(model.config()));
  EXPECT_EQ(real.seen, dry.seen);
  std::vector<BlockConfig> blocks = model.config().blocks;
  const bool attends = !every<AttentionConfig>(blocks).empty() || !every<LatentAttentionConfig>(blocks).empty();
  if (attends) {
    EXPECT_THAT(real.seen, testing::Contains(testing::HasSubstr("hook_result")));
  }
}

/// Wants one site.
struct Wants : Taps {
  explicit Wants(SiteId id) : only(id) {}
  bool wants(const SiteId& id) const override { return id == only; }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override {
    ++n_visits;
    return value;
  }
  std::optional<SiteId> last_wanted() const override { return only; }

  SiteId only;
  int n_visits = 0;
};

/// The ops of a dry run whose taps want only one site.
std::vector<std::string> ops_for(const ModelConfig& config, const SiteId& wanted) {
  ThreadPool pool(1);
  DryPass dry(pool, {{0, 4, 0, nullptr}});
  Ledger ledger;
  Wants taps(wanted);
  dry.pass().ledger = &ledger;
  dry.pass().taps = &taps;
  dry.pass().logits = {LogitRequest::Rows::range, 0, 4, {}};
  dry.run(shape_model(config));
  EXPECT_EQ(taps.n_visits, 1);
  std::vector<std::string> names;
  for (const LedgerOp& op : ledger.ops()) names.push_back(std::to_string(op.layer) + " " + op.name);
  return names;
}

TEST(EarlyEnd, APassEndsAfterTheLastWantedSite) {
  const ModelConfig config = golden_checkpoint("llama_mha").model->config();
  EXPECT_THAT(ops_for(config, {Site::embed}), testing::ElementsAre("-1 embed"));
  EXPECT_THAT(ops_for(config, {Site::resid_pre, 0}), testing::ElementsAre("-1 embed"));
  EXPECT_THAT(ops_for(config, {AttentionSite::rot_k, 0}), testing::Not(testing::Contains("0 attn.scores")));
  EXPECT_THAT(ops_for(config, {Site::resid_mid, 0}), testing::Not(testing::Contains("0 mlp.w_up")));
  EXPECT_THAT(ops_for(config, {Site::resid_post, 0}),
              testing::AllOf(testing::Contains("0 mlp.w_down"), testing::Not(testing::Contains("1 attn.wq"))));
  EXPECT_THAT(ops_for(config, {Site::logits}), testing::Contains("-1 unembed"));
}

TEST(EarlyEnd, AChunkWithoutLogitsOnlyFillsTheCache) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  const Model& model = *checkpoint.model;
  const auto ids = golden_ids("llama_mha");
  const std::span<const std::int32_t> tokens(ids);
  const auto n = static_cast<std::int64_t>(ids.size());
  ThreadPool pool(1);
  std::vector<float> logits[2];
  for (const bool whole : {false, true}) {
    Arena arena;
    KvCache cache = model.make_cache(n, KvType::f32);
    Ledger ledger;
    Pass first{{pool, default_kernels(), arena}, {{0, n - 1, 0, &cache}}};
    first.ledger = &ledger;
    if (whole) first.logits = {LogitRequest::Rows::last_of_segments, 0, 0, [](std::int64_t, const Tensor&) {}};
    model.forward(first, tokens.first(ids.size() - 1));
    int n_heads = 0, n_downs = 0;
    for (const LedgerOp& op : ledger.ops()) {
      n_heads += op.layer < 0 && op.call.kind == OpKind::linear ? 1 : 0;
      n_downs += op.name == "mlp.w_down" ? 1 : 0;
    }
    EXPECT_EQ(n_heads, whole ? 1 : 0);
    EXPECT_EQ(n_downs, static_cast<int>(model.config().n_layers()) - (whole ? 0 : 1));
    Pass last{{pool, default_kernels(), arena}, {{0, 1, n - 1, &cache}}};
    last.logits = {LogitRequest::Rows::last_of_segments, 0, 0,
                   [&](std::int64_t, const Tensor& x) { logits[whole].assign(x.values().begin(), x.values().end()); }};
    model.forward(last, tokens.last(1));
  }
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_FALSE(logits[0].empty());
}

}  // namespace
}  // namespace vitrine::test
