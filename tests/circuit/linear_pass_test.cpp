// Linear passes: what their tape refuses, and that it can be replayed.
#include <gmock/gmock.h>

#include "base/error.h"
#include "circuit/linear_rows.h"
#include "circuit/support.h"

namespace vitrine::test {
namespace {

TEST(LinearPass, RefusesAnMlpWithoutATranscoder) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  const Model& model = *checkpoint.model;
  const std::vector<std::int32_t> ids = some_ids(model, 5);
  ThreadPool pool(1);
  Arena arena;
  Gradients none;
  Tape tape(none);
  Pass pass{{pool, default_kernels(), arena}, {{0, 5, 0}}};
  pass.training.tape = &tape;
  pass.training.linearizes = true;
  std::string refusal;
  pass.receive_hidden = [&](const Tensor& normed) {
    std::fill_n(pass.grad(normed).data, normed.count(), 1.0f);
    try {
      tape.replay();
    } catch (const Unsupported& e) {
      refusal = e.what();
    }
  };
  model.forward(pass, ids);
  EXPECT_THAT(refusal, testing::HasSubstr("activate] the op is not linear"));
}

TEST(LinearPass, GivesTheSameRowsInAnyOrder) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  const Model& model = *checkpoint.model;
  const std::vector<std::int32_t> ids = some_ids(model, 9);
  ThreadPool pool(2);
  GenerateContext context{.model = &model, .pool = &pool, .kernels = &default_kernels()};
  const Applied transcoders = random_transcoders(model, 16, true);
  context.modifiers.dictionaries = transcoders;
  const CircuitValues values = read_circuit_values(context, ids, {}, 1);
  const std::int64_t n = values.layout.n_features();
  ASSERT_GT(n, 10);
  with_linear_rows(context, ids, values, [&](LinearRows& rows) {
    const auto row_of = [&](std::int64_t node) {
      std::vector<float> row(static_cast<std::size_t>(rows.shape_of(node).size()));
      const GraphRow of = rows.compute(node, row);
      row.push_back(static_cast<float>(of.bias));
      return row;
    };
    std::vector<std::vector<float>> all;
    for (std::int64_t node = 0; node < n; ++node) all.push_back(row_of(node));
    const std::vector<float> logit = row_of(values.layout.logit(0));
    for (std::int64_t node = n; node-- > 0;) EXPECT_TRUE(same_bits(row_of(node), all[static_cast<std::size_t>(node)]));
    EXPECT_TRUE(same_bits(row_of(values.layout.logit(0)), logit));
  });
}

}  // namespace
}  // namespace vitrine::test
