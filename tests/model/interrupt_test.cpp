// A pass ends within an op when it is interrupted.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "model/mixers/experts/sites.h"
#include "ops/op_kind.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

TEST(Interrupt, EndsACopy) {
  ThreadPool pool(3);
  Arena arena;
  std::atomic<bool> interrupt = false;
  ExecutionContext machine{pool, default_kernels(), arena, &interrupt};
  std::vector<float> from(200'001), to(from.size());
  std::iota(from.begin(), from.end(), 0.0f);
  const auto n = static_cast<std::int64_t>(from.size());
  machine.copy(from.data(), n, to.data());
  EXPECT_EQ(to, from);
  interrupt = true;
  EXPECT_THROW(machine.copy(from.data(), n, to.data()), Interrupted);
}

/// Interrupts the pass after the last expert of the first layer.
struct InterruptAtExpert : Taps {
  explicit InterruptAtExpert(std::atomic<bool>& interrupt) : interrupt_(interrupt) {}
  bool wants(const SiteId& id) const override { return id.site == ExpertSite::expert_out; }
  Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
    EXPECT_EQ(id.layer, 0);
    seen += value.rows();
    if (seen == n_results) interrupt_ = true;
    return value;
  }

  std::int64_t seen = 0, n_results = 0;

 private:
  std::atomic<bool>& interrupt_;
};

TEST(Interrupt, EndsTheCopiesOfExperts) {
  const Checkpoint checkpoint = golden_checkpoint("mixtral");
  const Model& model = *checkpoint.model;
  const std::vector<std::int32_t> ids = golden_ids("mixtral");
  ThreadPool pool(2);
  Arena arena;
  Ledger ledger;
  std::atomic<bool> interrupt = false;
  InterruptAtExpert taps(interrupt);
  const auto n = static_cast<std::int64_t>(ids.size());
  taps.n_results = n * find<MoeConfig>(model.config().blocks.front())->top_k;
  Pass pass{{pool, default_kernels(), arena, &interrupt}, {{0, n}}};
  pass.taps = &taps;
  pass.ledger = &ledger;
  EXPECT_THROW(model.forward(pass, ids), Interrupted);
  EXPECT_EQ(taps.seen, taps.n_results);
  for (const LedgerOp& op : ledger.ops()) EXPECT_NE(op.call.kind, OpKind::run_experts);
}

}  // namespace
}  // namespace vitrine::test
