#include "inspect/logit_weights.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/param_rows.h"
#include "kernels/widen_row.h"

namespace vitrine {
namespace {

constexpr std::size_t kDirectionsAtOnce = 32;

/// The first k of all ids in an order, in which no two are equal.
template <class Precedes>
std::vector<LogitWeight> first_of(std::span<const float> weights, std::size_t k, Precedes precedes) {
  std::vector<LogitWeight> kept;
  for (std::size_t id = 0; id < weights.size(); ++id) {
    const LogitWeight next = {static_cast<std::int32_t>(id), weights[id]};
    if (kept.size() == k && (k == 0 || !precedes(next, kept.back()))) continue;
    if (kept.size() == k) kept.pop_back();
    kept.insert(std::ranges::upper_bound(kept, next, precedes), next);
  }
  return kept;
}

ExtremeLogits extremes_of(std::span<const float> weights, std::size_t k) {
  return {first_of(weights, k,
                   [](const LogitWeight& a, const LogitWeight& b) {
                     return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
                   }),
          first_of(weights, k, [](const LogitWeight& a, const LogitWeight& b) {
            return a.weight != b.weight ? a.weight < b.weight : a.id < b.id;
          })};
}

}  // namespace

std::vector<ExtremeLogits> extreme_logits(const GenerateContext& context,
                                          std::span<const std::vector<float>> directions, std::size_t k) {
  const Model& model = *context.model;
  const Param& head = model.config().head.tied ? model.params().embed : model.params().unembed.weight;
  const auto n_vocab = static_cast<std::size_t>(model.config().vocab_size);
  std::vector<ExtremeLogits> result(directions.size());
  for (std::size_t first = 0; first < directions.size(); first += kDirectionsAtOnce) {
    if (context.interrupt != nullptr && *context.interrupt) throw Interrupted();
    const auto own = directions.subspan(first, std::min(kDirectionsAtOnce, directions.size() - first));
    std::vector<float> weights(own.size() * n_vocab);
    constexpr std::int64_t kGrain = 64;
    context.pool->parallel_for(
        static_cast<std::int64_t>(n_vocab), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
          std::vector<float> row(static_cast<std::size_t>(head.view.cols));
          for (std::int64_t id = begin; id < end; ++id) {
            widen_row(*context.kernels, head.view, id, head.view.cols, row.data());
            for (std::size_t i = 0; i < own.size(); ++i) {
              weights[i * n_vocab + static_cast<std::size_t>(id)] =
                  context.kernels->dot(row.data(), own[i].data(), static_cast<std::int64_t>(row.size()));
            }
          }
        });
    context.pool->parallel_for(std::ssize(own), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        result[first + i] = extremes_of(std::span(weights).subspan(i * n_vocab, n_vocab), k);
      }
    });
  }
  return result;
}

std::vector<float> direction_of(const Dictionary& dictionary, std::int64_t feature) {
  std::vector<float> row(static_cast<std::size_t>(dictionary.d_out()));
  read_row(dictionary.decoder.view, feature, row);
  if (dictionary.decoder_factors.empty()) return row;
  for (float& value : row) value *= dictionary.decoder_factors[static_cast<std::size_t>(feature)];
  return row;
}

bool is_in_stream(const Model& model, const Dictionary& dictionary) {
  return dictionary.d_out() == model.config().d_model &&
         std::ranges::equal(info(dictionary.output.site).shape.dims(), info(Site::resid_pre).shape.dims());
}

}  // namespace vitrine
