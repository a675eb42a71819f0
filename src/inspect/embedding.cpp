#include "inspect/embedding.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "checkpoint/param_rows.h"
#include "kernels/widen_row.h"

namespace vitrine {
namespace {

/// Calls body(id, row as floats) for all rows, in parallel.
template <class Body>
void for_each_row(const MatrixView& table, ThreadPool& pool, const Kernels& kernels, Body&& body) {
  constexpr std::int64_t kGrain = 64;
  pool.parallel_for(table.rows, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> row(static_cast<std::size_t>(table.cols));
    for (std::int64_t id = begin; id < end; ++id) {
      widen_row(kernels, table, id, table.cols, row.data());
      body(id, row);
    }
  });
}

}  // namespace

EmbeddingSpace::EmbeddingSpace(const Model& model, ThreadPool& pool, const Kernels& kernels)
    : model_(model), pool_(pool), kernels_(kernels), lengths_(static_cast<std::size_t>(model.config().vocab_size)) {
  for_each_row(model.params().embed.view, pool, kernels, [&](std::int64_t id, const std::vector<float>& row) {
    const auto n = static_cast<std::int64_t>(row.size());
    lengths_[static_cast<std::size_t>(id)] = std::sqrt(kernels.sum_squares(row.data(), n, 0.0f));
  });
}

std::vector<float> EmbeddingSpace::row(std::int32_t id) const {
  const std::int64_t vocab_size = model_.config().vocab_size;
  if (id < 0 || id >= vocab_size) throw BadInput("embed", "expected ids from 0 to {}, got {}", vocab_size - 1, id);
  const MatrixView& table = model_.params().embed.view;
  std::vector<float> values(static_cast<std::size_t>(table.cols));
  read_row(table, id, values);
  return values;
}

std::vector<float> EmbeddingSpace::sum(std::span<const EmbeddingTerm> terms) const {
  const std::int64_t d = model_.config().d_model;
  std::vector<float> total(static_cast<std::size_t>(d));
  for (const EmbeddingTerm& term : terms) {
    const std::vector<float> values = row(term.id);
    const float length = lengths_[static_cast<std::size_t>(term.id)];
    if (length > 0) kernels_.add_scaled(values.data(), d, term.factor / length, total.data());
  }
  return total;
}

double EmbeddingSpace::cosine(std::int32_t a, std::int32_t b) const {
  const std::vector<float> x = row(a), y = row(b);
  const double lengths = static_cast<double>(lengths_[static_cast<std::size_t>(a)]) *
                         static_cast<double>(lengths_[static_cast<std::size_t>(b)]);
  if (lengths == 0) return 0;
  return static_cast<double>(kernels_.dot(x.data(), y.data(), static_cast<std::int64_t>(x.size()))) / lengths;
}

std::vector<std::vector<Neighbor>> EmbeddingSpace::nearest(std::span<const std::vector<EmbeddingTerm>> sums,
                                                           std::int64_t n) const {
  std::vector<std::vector<float>> vectors;
  std::vector<double> lengths;
  for (const std::vector<EmbeddingTerm>& terms : sums) {
    vectors.push_back(sum(terms));
    const std::vector<float>& v = vectors.back();
    const auto d = static_cast<std::int64_t>(v.size());
    lengths.push_back(std::sqrt(static_cast<double>(kernels_.sum_squares(v.data(), d, 0.0f))));
  }
  const std::size_t n_vocab = lengths_.size();
  std::vector<double> cosines(sums.size() * n_vocab);
  for_each_row(model_.params().embed.view, pool_, kernels_, [&](std::int64_t id, const std::vector<float>& row) {
    const auto at = static_cast<std::size_t>(id);
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      const double both = lengths[i] * static_cast<double>(lengths_[at]);
      const auto dot = kernels_.dot(row.data(), vectors[i].data(), static_cast<std::int64_t>(row.size()));
      cosines[i * n_vocab + at] = both > 0 ? static_cast<double>(dot) / both : 0;
    }
  });
  std::vector<std::vector<Neighbor>> result;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::vector<Neighbor> all;
    all.reserve(n_vocab);
    for (std::size_t id = 0; id < n_vocab; ++id) {
      all.push_back({static_cast<std::int32_t>(id), cosines[i * n_vocab + id]});
    }
    const auto is_term = [&](const Neighbor& x) {
      return std::any_of(sums[i].begin(), sums[i].end(), [&](const EmbeddingTerm& term) { return term.id == x.id; });
    };
    std::erase_if(all, is_term);
    const auto kept = all.begin() + std::min(n, static_cast<std::int64_t>(all.size()));
    std::partial_sort(all.begin(), kept, all.end(), [](const Neighbor& a, const Neighbor& b) {
      return a.cosine != b.cosine ? a.cosine > b.cosine : a.id < b.id;
    });
    result.emplace_back(all.begin(), kept);
  }
  return result;
}

}  // namespace vitrine
