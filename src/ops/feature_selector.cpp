#include "ops/feature_selector.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace vitrine {

void TopFeatures::cut() {
  if (chosen_.size() <= k_) return;
  const auto is_stronger = [](const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key > b.key : a.at.index < b.at.index;
  };
  std::nth_element(chosen_.begin(), chosen_.begin() + static_cast<std::ptrdiff_t>(k_) - 1, chosen_.end(), is_stronger);
  chosen_.resize(k_);
  bound_ = chosen_.back().key;  // later elements have larger indices, so an equal key loses
}

std::vector<SparseValue> TopFeatures::finish() {
  cut();
  std::vector<SparseValue> row;
  row.reserve(chosen_.size());
  for (const Candidate& c : chosen_) row.push_back(c.at);
  std::ranges::sort(row, {}, &SparseValue::index);
  chosen_ = {};
  return row;
}

FeatureSelector::FeatureSelector(const FeatureSelection& selection, std::int64_t d_sae, std::int64_t n_rows,
                                 const Kernels& kernels, const float* gate_bias, const LearnedChoice& learned)
    : selection_(selection),
      d_sae_(d_sae),
      kernels_(kernels),
      gate_bias_(gate_bias),
      learned_(learned),
      rows_(static_cast<std::size_t>(n_rows)) {
  if (is_top() && !is_of_batch()) top_.resize(rows_.size(), TopFeatures(selection.k, 0));
}

void FeatureSelector::take(std::int64_t t, std::int64_t first, const float* p, const float* q, std::int64_t n) {
  std::vector<SparseValue>& row = rows_[static_cast<std::size_t>(t)];
  if (is_of_batch()) return take_of_batch(t, first, p, n);
  if (is_top()) return take_top(t, first, p, n);
  if (selection_.kind == FeatureSelection::Kind::group_max) return take_of_groups(row, first, p, n);
  if (selection_.kind == FeatureSelection::Kind::jump) return take_jump(row, first, p, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = key_of(first + i, p[i]);
    if (!(value > 0) || (gate_bias_ != nullptr && !(q[i] + gate_bias_[first + i] > 0))) continue;
    row.push_back({static_cast<std::int32_t>(first + i), value});
  }
}

void FeatureSelector::take_top(std::int64_t t, std::int64_t first, const float* p, std::int64_t n) {
  constexpr std::int64_t kPart = 64;
  std::array<float, kPart> keys;
  TopFeatures& top = top_[static_cast<std::size_t>(t)];
  const bool has_signs = selection_.kind == FeatureSelection::Kind::abstopk;
  for (std::int64_t i = 0; i < n; i += kPart) {
    const std::int64_t count = std::min(kPart, n - i);
    const float* values = p + i;
    if (!selection_.norms.empty()) {
      kernels_.multiply(values, selection_.norms.data() + first + i, count, keys.data());
      values = keys.data();
    }
    if (!has_signs && !top.may_take(kernels_.max(values, count))) continue;
    for (std::int64_t j = 0; j < count; ++j) {
      const float key = has_signs ? std::abs(values[j]) : values[j];
      top.take(key, {static_cast<std::int32_t>(first + i + j), values[j]});
    }
  }
}

void FeatureSelector::take_of_batch(std::int64_t t, std::int64_t first, const float* p, std::int64_t n) {
  std::vector<SparseValue>& row = rows_[static_cast<std::size_t>(t)];
  for (std::int64_t i = 0; i < n; ++i) {
    const float key = key_of(first + i, p[i]);
    if (key > 0 && key >= batch_bound_) row.push_back({static_cast<std::int32_t>(first + i), key});
  }
}

void FeatureSelector::take_jump(std::vector<SparseValue>& row, std::int64_t first, const float* p,
                                std::int64_t n) const {
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = key_of(first + i, p[i]), threshold = threshold_of(first + i);
    const bool is_open = value > 0 && value > threshold;
    const float distance = learned_.bandwidth > 0 ? (value - threshold) / learned_.bandwidth : 1;
    if (!is_open && !(std::abs(distance) < 0.5f)) continue;
    row.push_back({static_cast<std::int32_t>(first + i), is_open ? value : 0.0f});
  }
}

void FeatureSelector::take_of_groups(std::vector<SparseValue>& row, std::int64_t first, const float* p,
                                     std::int64_t n) const {
  const std::int64_t size = d_sae_ / selection_.k;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t feature = first + i;
    if (!(p[i] > 0)) continue;
    const bool is_first = row.empty() || row.back().index / size != feature / size;
    if (is_first) {
      row.push_back({static_cast<std::int32_t>(feature), p[i]});
    } else if (p[i] > row.back().value) {
      row.back() = {static_cast<std::int32_t>(feature), p[i]};
    }
  }
}

void FeatureSelector::finish(std::int64_t t) {
  const auto row = static_cast<std::size_t>(t);
  if (!top_.empty()) rows_[row] = top_[row].finish();
}

void FeatureSelector::cut_batch(bool is_last) {
  if (!is_of_batch()) return;
  const auto n = static_cast<std::size_t>(learned_.n_of_batch);
  std::size_t count = 0;
  for (const auto& row : rows_) count += row.size();
  if (count <= n || (!is_last && count < 2 * n)) return;
  std::vector<Place> places;
  places.reserve(count);
  for (std::size_t t = 0; t < rows_.size(); ++t) {
    for (std::size_t i = 0; i < rows_[t].size(); ++i) {
      places.push_back({rows_[t][i].value, static_cast<std::int64_t>(t), static_cast<std::int64_t>(i)});
    }
  }
  std::nth_element(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(n) - 1, places.end(),
                   [](const Place& a, const Place& b) {
                     if (a.key != b.key) return a.key > b.key;
                     return a.row != b.row ? a.row < b.row : a.at < b.at;
                   });
  const Place last = places[n - 1];
  batch_bound_ = last.key;
  for (std::size_t t = 0; t < rows_.size(); ++t) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows_[t].size(); ++i) {
      const SparseValue at = rows_[t][i];
      const auto row = static_cast<std::int64_t>(t), place = static_cast<std::int64_t>(i);
      const bool is_before = row != last.row ? row < last.row : place <= last.at;
      if (at.value > last.key || (at.value == last.key && is_before)) rows_[t][kept++] = at;
    }
    rows_[t].resize(kept);
  }
}

DeadSelector::DeadSelector(const FeatureSelection& selection, std::span<const std::int32_t> features, std::int64_t k,
                           std::int64_t n_rows)
    : selection_(selection), features_(features), k_(k), rows_(static_cast<std::size_t>(n_rows)) {
  if (k > 0) top_.resize(rows_.size(), TopFeatures(k, -std::numeric_limits<float>::infinity()));
}

void DeadSelector::take(std::int64_t t, std::int64_t first, const float* p, std::int64_t n) {
  const auto row = static_cast<std::size_t>(t);
  const auto begin = std::ranges::lower_bound(features_, static_cast<std::int32_t>(first));
  for (auto it = begin; it != features_.end() && *it < first + n; ++it) {
    const auto feature = static_cast<std::size_t>(*it);
    const float value = selection_.norms.empty() ? p[*it - first] : p[*it - first] * selection_.norms[feature];
    if (k_ > 0) {
      top_[row].take(value, {*it, value});
    } else if (value < selection_.thresholds[feature]) {
      rows_[row].push_back({*it, value});
    }
  }
}

void DeadSelector::finish(std::int64_t t) {
  const auto row = static_cast<std::size_t>(t);
  if (k_ > 0) rows_[row] = top_[row].finish();
}

}  // namespace vitrine
