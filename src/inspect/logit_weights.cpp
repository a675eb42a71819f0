#include "inspect/logit_weights.h"

#include <algorithm>

#include "kernels/widen_row.h"

namespace vitrine {
namespace {

constexpr std::size_t kDirectionsAtOnce = 32;

std::vector<LogitWeight> largest(std::span<const float> weights, std::size_t k) {
  std::vector<LogitWeight> all;
  all.reserve(weights.size());
  for (std::size_t id = 0; id < weights.size(); ++id) all.push_back({static_cast<std::int32_t>(id), weights[id]});
  const auto kept = all.begin() + static_cast<std::ptrdiff_t>(std::min(k, all.size()));
  std::partial_sort(all.begin(), kept, all.end(), [](const LogitWeight& a, const LogitWeight& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  return {all.begin(), kept};
}

}  // namespace

std::vector<std::vector<LogitWeight>> largest_logit_weights(const Model& model, ThreadPool& pool,
                                                            const Kernels& kernels,
                                                            std::span<const std::vector<float>> directions,
                                                            std::size_t k) {
  const Param& head = model.config().head.tied ? model.params().embed : model.params().unembed.weight;
  const auto n_vocab = static_cast<std::size_t>(model.config().vocab_size);
  std::vector<std::vector<LogitWeight>> result;
  for (std::size_t first = 0; first < directions.size(); first += kDirectionsAtOnce) {
    const auto own = directions.subspan(first, std::min(kDirectionsAtOnce, directions.size() - first));
    std::vector<float> weights(own.size() * n_vocab);
    constexpr std::int64_t kGrain = 64;
    pool.parallel_for(static_cast<std::int64_t>(n_vocab), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<float> row(static_cast<std::size_t>(head.view.cols));
      for (std::int64_t id = begin; id < end; ++id) {
        widen_row(kernels, head.view, id, head.view.cols, row.data());
        for (std::size_t i = 0; i < own.size(); ++i) {
          weights[i * n_vocab + static_cast<std::size_t>(id)] =
              kernels.dot(row.data(), own[i].data(), static_cast<std::int64_t>(row.size()));
        }
      }
    });
    for (std::size_t i = 0; i < own.size(); ++i) {
      result.push_back(largest(std::span(weights).subspan(i * n_vocab, n_vocab), k));
    }
  }
  return result;
}

}  // namespace vitrine
