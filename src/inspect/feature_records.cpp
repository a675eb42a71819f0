#include "inspect/feature_records.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int32_t kBins = ActivationHistogram::kBins;

template <class T>
void read_numbers(const SafetensorsFile& from, const std::string& name, const char* type, std::vector<T>& to) {
  const auto it = from.tensors().find(name);
  const bool fits =
      it != from.tensors().end() && it->second.dtype == type && it->second.bytes.size() == to.size() * sizeof(T);
  if (!fits) throw BadCheckpoint(from.file()->path(), "tensor {}: expected {} numbers of {}", name, to.size(), type);
  std::memcpy(to.data(), it->second.bytes.data(), it->second.bytes.size());
}

}  // namespace

std::int32_t ActivationHistogram::exponent_of(float value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return exponent;
}

std::int32_t ActivationHistogram::bin_of(float value, std::int32_t exponent, bool is_signed) {
  const int n_of_sign = is_signed ? kBins / 2 : kBins;
  const double scaled = std::ldexp(static_cast<double>(value), -exponent) * n_of_sign;
  return first_bin(is_signed) + static_cast<std::int32_t>(std::floor(scaled));
}

void ActivationHistogram::widen(std::span<std::int32_t> bins, std::int32_t from, std::int32_t to, bool is_signed) {
  for (; from < to; ++from) {
    std::int32_t wide[kBins] = {};
    for (std::int32_t i = 0; i < kBins; ++i) {
      wide[(i + first_bin(is_signed)) / 2] += bins[static_cast<std::size_t>(i)];
    }
    std::ranges::copy(wide, bins.begin());
  }
}

std::vector<double> ActivationHistogram::edges(std::int32_t exponent, bool is_signed) {
  std::vector<double> edges;
  for (std::int32_t i = 0; i <= kBins; ++i) {
    const int n_of_sign = is_signed ? kBins / 2 : kBins;
    edges.push_back(std::ldexp(static_cast<double>(i - first_bin(is_signed)) / n_of_sign, exponent));
  }
  return edges;
}

FeatureRecords::FeatureRecords(std::int64_t d_sae, std::int64_t n_contexts, bool is_signed, AppendFile& contexts)
    : d_sae_(d_sae),
      n_contexts_(n_contexts),
      is_signed_(is_signed),
      contexts_(contexts),
      maxima_(static_cast<std::size_t>(d_sae * n_contexts)),
      offsets_(maxima_.size()),
      n_active_(static_cast<std::size_t>(d_sae)),
      bins_(static_cast<std::size_t>(d_sae * kBins)),
      exponents_(static_cast<std::size_t>(d_sae)) {}

void FeatureRecords::add(std::int64_t start, std::span<WindowActivation> active) {
  std::ranges::sort(active, {}, [](const WindowActivation& a) { return std::tuple(a.feature, a.position); });
  std::vector<SparseValue> values;
  for (std::size_t i = 0; i < active.size();) {
    const std::int32_t feature = active[i].feature;
    values.clear();
    for (; i < active.size() && active[i].feature == feature; ++i) {
      values.push_back({active[i].position, active[i].value});
    }
    count(feature, values);
    keep(feature, start, values);
  }
}

void FeatureRecords::count(std::int32_t feature, std::span<const SparseValue> values) {
  const auto f = static_cast<std::size_t>(feature);
  const std::span<std::int32_t> bins = std::span(bins_).subspan(f * kBins, kBins);
  for (const auto& [position, value] : values) {
    if (!std::isfinite(value)) throw NotFinite("features", "the activation of feature {} is {}", feature, value);
    const std::int32_t exponent = ActivationHistogram::exponent_of(value);
    const bool is_first = n_active_[f]++ == 0;
    if (is_first || exponent > exponents_[f]) {
      if (!is_first) ActivationHistogram::widen(bins, exponents_[f], exponent, is_signed_);
      exponents_[f] = exponent;
    }
    ++bins[static_cast<std::size_t>(ActivationHistogram::bin_of(value, exponents_[f], is_signed_))];
  }
}

void FeatureRecords::keep(std::int32_t feature, std::int64_t start, std::span<const SparseValue> values) {
  const auto best = std::ranges::max_element(values, {}, &SparseValue::value);  // the first of equal ones
  const auto first = static_cast<std::ptrdiff_t>(feature) * n_contexts_;
  const auto maxima = maxima_.begin() + first, end = maxima + n_contexts_;
  const auto place = std::upper_bound(maxima, end, best->value, std::greater<>());  // after equal ones
  if (place == end || !(best->value > 0)) return;
  const auto offset = offsets_.begin() + first + (place - maxima);
  std::copy_backward(place, end - 1, end);
  std::copy_backward(offset, offsets_.begin() + first + n_contexts_ - 1, offsets_.begin() + first + n_contexts_);
  *place = best->value;
  *offset = contexts_.size();
  const StoredContext context = {start, best->index, static_cast<std::int32_t>(values.size())};
  contexts_.append(std::as_bytes(std::span(&context, 1)));
  contexts_.append(std::as_bytes(values));
}

std::span<const float> FeatureRecords::maxima(std::int64_t feature) const {
  const auto all = std::span(maxima_).subspan(static_cast<std::size_t>(feature * n_contexts_),
                                              static_cast<std::size_t>(n_contexts_));
  return all.first(static_cast<std::size_t>(std::ranges::find(all, 0.0f) - all.begin()));
}

std::span<const std::int64_t> FeatureRecords::offsets(std::int64_t feature) const {
  return std::span(offsets_).subspan(static_cast<std::size_t>(feature * n_contexts_), maxima(feature).size());
}

void FeatureRecords::write(SafetensorsWriter& to, const std::string& prefix) const {
  to.begin(prefix + "maxima", DType::f32, {d_sae_, n_contexts_});
  to.append(std::as_bytes(std::span(maxima_)));
  to.add(prefix + "offsets", std::span(offsets_));
  to.add(prefix + "n_active", std::span(n_active_));
  to.add(prefix + "bins", std::span(bins_));
  to.add(prefix + "exponents", std::span(exponents_));
}

void FeatureRecords::read(const SafetensorsFile& from, const std::string& prefix) {
  read_numbers(from, prefix + "maxima", "F32", maxima_);
  read_numbers(from, prefix + "offsets", "I64", offsets_);
  read_numbers(from, prefix + "n_active", "I64", n_active_);
  read_numbers(from, prefix + "bins", "I32", bins_);
  read_numbers(from, prefix + "exponents", "I32", exponents_);
  const auto is_known = [](std::int32_t exponent) { return std::abs(exponent) <= ActivationHistogram::kMostExponent; };
  if (std::ranges::all_of(exponents_, is_known)) return;
  throw BadCheckpoint(from.file()->path(), "tensor {}exponents: expected exponents of floats", prefix);
}

}  // namespace vitrine
