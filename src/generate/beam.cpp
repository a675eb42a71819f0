#include "generate/beam.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {
namespace {

bool is_better(const Extension& a, const Extension& b) {
  if (a.sum != b.sum) return a.sum > b.sum;
  return a.beam != b.beam ? a.beam < b.beam : a.id < b.id;
}

}  // namespace

void BeamConfig::validate() const {
  constexpr int kMax = 1 << 10;
  if (n_beams < 1 || n_beams > kMax) throw BadInput("beam", "expected 1 to {} beams, got {}", kMax, n_beams);
  if (n_best < 1 || n_best > n_beams) {
    throw BadInput("n_best", "expected 1 to {} hypotheses, as many as there are beams, got {}", n_beams, n_best);
  }
  if (!std::isfinite(length_penalty)) throw BadInput("length_penalty", "expected a number, got {}", length_penalty);
}

BeamSearch::BeamSearch(const BeamConfig& config, std::int64_t max_tokens, std::vector<std::int32_t> stop_ids)
    : config_(config), max_tokens_(max_tokens), stop_ids_(std::move(stop_ids)) {
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
  n_extensions_ = std::max(2, 1 + static_cast<int>(stop_ids_.size())) * config_.n_beams;
}

bool BeamSearch::is_stop(std::int32_t id) const { return std::binary_search(stop_ids_.begin(), stop_ids_.end(), id); }

double BeamSearch::score(double sum, std::int64_t length) const {
  if (config_.length_penalty == 0) return sum;
  return sum / math::exp(config_.length_penalty * math::log(static_cast<double>(length)));
}

void BeamSearch::end_text(const Extension& extension) {
  std::vector<std::int32_t> ids = texts_[static_cast<std::size_t>(extension.beam)];
  const bool stopped = is_stop(extension.id);
  if (!stopped) ids.push_back(extension.id);
  const double own = score(extension.sum, length_ + 1);
  const auto worse = [&](const Hypothesis& other) { return other.score < own; };
  ended_.insert(std::find_if(ended_.begin(), ended_.end(), worse), {std::move(ids), own, stopped});
}

/// Whether a beam may still become better than the worst hypothesis.
bool BeamSearch::can_improve() const {
  if (static_cast<int>(ended_.size()) < config_.n_beams || beams_.empty()) return true;
  const bool assumes_greatest = config_.early_stop == EarlyStop::never && config_.length_penalty > 0;
  return score(beams_.front().sum, assumes_greatest ? max_tokens_ : length_) > ended_.back().score;
}

bool BeamSearch::step(std::vector<Extension> extensions) {
  const auto n_beams = static_cast<std::size_t>(config_.n_beams);
  const std::size_t n = std::min(extensions.size(), static_cast<std::size_t>(n_extensions_));
  std::partial_sort(extensions.begin(), extensions.begin() + static_cast<std::ptrdiff_t>(n), extensions.end(),
                    is_better);
  const bool is_last = length_ + 1 == max_tokens_;
  const bool may_end = may_improve_ && !(ended_.size() == n_beams && config_.early_stop == EarlyStop::yes);
  std::vector<Extension> next;
  for (std::size_t i = 0; i < n; ++i) {
    const Extension& extension = extensions[i];
    if (!is_last && !is_stop(extension.id)) {
      if (next.size() < n_beams) next.push_back(extension);
    } else if (i < n_beams && may_end) {
      end_text(extension);
    }
  }
  if (ended_.size() > n_beams) ended_.resize(n_beams);

  std::vector<std::vector<std::int32_t>> texts;
  for (const Extension& beam : next) {
    texts.push_back(texts_[static_cast<std::size_t>(beam.beam)]);
    texts.back().push_back(beam.id);
  }
  beams_ = std::move(next);
  texts_ = std::move(texts);
  ++length_;
  may_improve_ = may_improve_ && can_improve();
  return may_improve_ && !beams_.empty() && !(ended_.size() == n_beams && config_.early_stop == EarlyStop::yes);
}

std::vector<Hypothesis> BeamSearch::hypotheses() const {
  const std::size_t n = std::min(ended_.size(), static_cast<std::size_t>(config_.n_best));
  return {ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(n)};
}

void add_extensions(std::span<const float> scores, int n, int beam, double sum, std::vector<Extension>& extensions) {
  const std::size_t first = extensions.size();
  const auto most = static_cast<std::size_t>(n);
  float lowest = -std::numeric_limits<float>::infinity();  // a score must exceed it
  const auto at = [&](std::size_t i) { return extensions.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto keep_best = [&] {
    std::nth_element(at(first), at(first + most - 1), extensions.end(), is_better);
    extensions.resize(first + most);
    lowest = static_cast<float>(at(first + most - 1)->sum);
  };
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (!(scores[id] > lowest)) continue;
    extensions.push_back({beam, static_cast<std::int32_t>(id), static_cast<double>(scores[id])});
    if (extensions.size() == first + 4 * most) keep_best();
  }
  if (extensions.size() > first + most) keep_best();
  for (std::size_t i = first; i < extensions.size(); ++i) extensions[i].sum += sum;
}

}  // namespace vitrine
