// Cosines, nearest neighbors and analogies, compared with their definitions in double precision.
#include "inspect/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

std::vector<double> row_of(const Model& model, std::int32_t id) {
  const MatrixView& table = model.params().embed.view;
  std::vector<float> values(static_cast<std::size_t>(table.cols));
  kernels_for(Isa::scalar).widen(table.at(id, 0), table.dtype, table.cols, values.data());
  return {values.begin(), values.end()};
}

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double dot = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) dot += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  return dot / std::sqrt(aa * bb);
}

TEST(Embedding, CosinesMatchTheDefinition) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  ThreadPool pool(2);
  const EmbeddingSpace space(*checkpoint.model, pool, default_kernels());
  for (std::int32_t a = 0; a < 8; ++a) {
    for (std::int32_t b = 0; b < 8; ++b) {
      EXPECT_NEAR(space.cosine(a, b), cosine(row_of(*checkpoint.model, a), row_of(*checkpoint.model, b)), 1e-6);
    }
  }
  EXPECT_THROW(space.cosine(0, 1000), BadInput);
  EXPECT_THROW(space.cosine(-1, 0), BadInput);
}

TEST(Embedding, NearestHasTheLargestCosines) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  const Model& model = *checkpoint.model;
  ThreadPool pool(2);
  const EmbeddingSpace space(model, pool, default_kernels());
  const std::vector<EmbeddingTerm> terms = {{3, 1}, {5, -1}, {7, 1}};
  std::vector<double> sum(static_cast<std::size_t>(model.config().d_model));
  for (const EmbeddingTerm& term : terms) {
    const std::vector<double> row = row_of(model, term.id);
    double square = 0;
    for (const double x : row) square += x * x;
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += static_cast<double>(term.factor) * row[i] / std::sqrt(square);
  }
  std::vector<std::pair<double, std::int32_t>> expected;
  for (std::int32_t id = 0; id < model.config().vocab_size; ++id) {
    if (id == 3 || id == 5 || id == 7) continue;
    expected.emplace_back(-cosine(row_of(model, id), sum), id);
  }
  std::sort(expected.begin(), expected.end());
  const std::vector<Neighbor> near = space.nearest(std::span(&terms, 1), 5).front();
  ASSERT_EQ(near.size(), 5U);
  for (std::size_t i = 0; i < near.size(); ++i) {
    EXPECT_EQ(near[i].id, expected[i].second) << i;
    EXPECT_NEAR(near[i].cosine, -expected[i].first, 1e-6);
  }
  EXPECT_EQ(space.nearest(std::span(&terms, 1), 1000).front().size(),
            static_cast<std::size_t>(model.config().vocab_size) - 3);
}

}  // namespace
}  // namespace vitrine::test
