#include <algorithm>

#include "base/error.h"
#include "inspect/head_scores.h"
#include "look/figures.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMostRows = 96;  // of a map

/// Of each square of a map `[T, T]`, the largest element, so that kMostRows or fewer are left.
void add_reduced(const float* map, std::int64_t n, std::int64_t step, std::vector<float>& to) {
  for (std::int64_t first_row = 0; first_row < n; first_row += step) {
    for (std::int64_t first = 0; first < n; first += step) {
      float largest = 0;
      for (std::int64_t t = first_row; t < std::min(first_row + step, n); ++t) {
        for (std::int64_t s = first; s < std::min(first + step, n); ++s) largest = std::max(largest, map[t * n + s]);
      }
      to.push_back(largest);
    }
  }
}

void add_weights(int layer, const Tensor& weights, LookData& data) {
  const std::int64_t n = weights.shape[1], step = (n + kMostRows - 1) / kMostRows, left = (n + step - 1) / step;
  std::vector<float> reduced;
  for (std::int64_t h = 0; h < weights.rows(); ++h) add_reduced(weights.row(h), n, step, reduced);
  data.add_picture("states", "states.weight." + std::to_string(layer), {weights.rows(), left, left}, reduced);
}

}  // namespace

void add_state_values(const GenerateContext& context, const Recording& r, std::span<const SiteWrite> writes,
                      LookData& data) {
  if (!has_recurrence(*context.model)) return;
  std::vector<HeadScores> scores;
  try {
    scores = head_scores(context, Tokens{std::span(r.facts.ids)}, writes,
                         [&](int layer, const Tensor& weights) { add_weights(layer, weights, data); });
  } catch (const OutOfCapacity&) {
    return;
  }
  for (auto own = scores.begin(); own != scores.end();) {
    const auto end = std::find_if(
        own, scores.end(), [&](const HeadScores& h) { return h.layer != own->layer || h.sublayer != own->sublayer; });
    std::vector<double> half_lives, sizes;
    for (auto h = own; h != end && !own->sizes.empty(); ++h) {
      half_lives.push_back(h->half_life.value_or(kNoValue));
      sizes.insert(sizes.end(), h->sizes.begin(), h->sizes.end());
    }
    const std::string layer = std::to_string(own->layer);
    const auto n = static_cast<std::int64_t>(half_lives.size());
    if (n > 0) data.add("states", "states.half_life." + layer, half_lives);
    if (n > 0) data.add("states", "states.size." + layer, {n, r.n_tokens()}, sizes);
    own = end;
  }
}

}  // namespace vitrine
