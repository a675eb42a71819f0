#include "inspect/feature_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "inspect/feature_records.h"
#include "pass/sites.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExtension = ".safetensors";

Json logits_json(const FeatureIndex& index, std::span<const LogitWeight> logits) {
  Json list = Json::array();
  for (const auto& [id, weight] : logits) {
    list.push_back({{"id", id}, {"text", index.text(id)}, {"weight", weight}});
  }
  return list;
}

}  // namespace

/// The numbers of a tensor, which may be at any address.
struct FeatureIndex::Column {
  std::span<const std::byte> bytes;
  const std::string& path;
  std::string name;

  template <class T>
  T at(std::int64_t i) const {
    T number{};
    std::memcpy(&number, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return number;
  }
  /// Elements i and i + 1, which are a part of `total` elements of others.
  std::pair<std::int64_t, std::int64_t> part(std::int64_t i, std::int64_t total) const {
    const auto begin = at<std::int64_t>(i), end = at<std::int64_t>(i + 1);
    if (begin < 0 || begin > end || end > total) {
      throw BadCheckpoint(path, "tensor {}: expected 0 <= begin <= end <= {}, got {} and {}", name, total, begin, end);
    }
    return {begin, end};
  }
  /// A whole number from 0 to `end` − 1.
  std::int32_t below(std::int64_t i, std::int64_t end) const {
    const auto number = at<std::int32_t>(i);
    if (number < 0 || number >= end) {
      throw BadCheckpoint(path, "tensor {}: expected numbers from 0 to {}, got {}", name, end - 1, number);
    }
    return number;
  }
  float finite(std::int64_t i) const {
    const auto number = at<float>(i);
    if (!std::isfinite(number)) throw BadCheckpoint(path, "tensor {}: expected finite numbers, got {}", name, number);
    return number;
  }
};

FeatureIndex::FeatureIndex(const std::string& path) : file_(SafetensorsFile::open(path)) {
  const auto it = file_.metadata().find("feature_index");
  if (it == file_.metadata().end()) {
    throw BadCheckpoint(path, "expected an index of features (vitrine features index), got other tensors");
  }
  const Json facts = parse_json(it->second, path);
  try {
    settings_ = facts.at("settings");
    sae_ = facts.at("sae");
    tokens_ = facts.at("tokens").get<std::int64_t>();
    windows_ = facts.at("windows").get<std::int64_t>();
    d_sae_ = sae_.at("d_sae").get<std::int64_t>();
    is_signed_ = sae_.at("is_signed").get<bool>();
    sae_.at("key").get<std::string>();
  } catch (const Json::exception& e) {
    throw BadCheckpoint(path, "expected the facts of an index of features: {}", e.what());
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (d_sae_ < 1 || d_sae_ > kMost || tokens_ < 1) {
    throw BadCheckpoint(path, "expected features and tokens, got {} and {}", d_sae_, tokens_);
  }
  column("n_active", "I64", d_sae_);
  column("histogram.exponents", "I32", d_sae_);
  column("histogram.counts", "I32", d_sae_ * ActivationHistogram::kBins);
  column("contexts.indptr", "I64", d_sae_ + 1);
}

FeatureIndex::Column FeatureIndex::column(const std::string& name, const char* type, std::int64_t count) const {
  const std::string& path = file_.file()->path();
  const auto it = file_.tensors().find(name);
  if (it == file_.tensors().end()) throw BadCheckpoint(path, "tensor {} is missing", name);
  if (it->second.dtype != type || count_of(name) != count) {
    throw BadCheckpoint(path, "tensor {}: expected {} numbers of type {}, got {} of type {}", name, count, type,
                        count_of(name), it->second.dtype);
  }
  return {it->second.bytes, path, name};
}

/// The number of elements, as the reader of the file has checked it; -1 if there is no such tensor.
std::int64_t FeatureIndex::count_of(const std::string& name) const {
  const auto it = file_.tensors().find(name);
  if (it == file_.tensors().end()) return -1;
  const std::string& type = it->second.dtype;
  const std::int64_t bytes = type == "I64" ? 8 : type == "I32" || type == "F32" ? 4 : 1;
  return std::ssize(it->second.bytes) / bytes;
}

std::string FeatureIndex::key() const { return sae_.at("key").get<std::string>(); }

std::int64_t FeatureIndex::dead() const {
  const Column n_active = column("n_active", "I64", d_sae_);
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < d_sae_; ++i) n += n_active.at<std::int64_t>(i) == 0 ? 1 : 0;
  return n;
}

FeatureContext FeatureIndex::context(std::int64_t number) const {
  const std::int64_t n_contexts = count_of("contexts.max"), n_windows = count_of("windows.start");
  const std::int64_t n_values = count_of("values.position"), n_ids = count_of("windows.ids");
  const std::int64_t window = column("contexts.window", "I32", n_contexts).below(number, n_windows);
  FeatureContext context;
  context.max = column("contexts.max", "F32", n_contexts).finite(number);
  context.start = column("windows.start", "I64", n_windows).at<std::int64_t>(window);
  const auto [first, end] = column("windows.indptr", "I64", n_windows + 1).part(window, n_ids);
  const Column ids = column("windows.ids", "I32", n_ids);
  for (std::int64_t i = first; i < end; ++i) context.ids.push_back(ids.below(i, std::int64_t{1} << 31));
  context.position = column("contexts.position", "I32", n_contexts).below(number, end - first);
  context.values.resize(context.ids.size());
  const auto [begin, last] = column("contexts.values_indptr", "I64", n_contexts + 1).part(number, n_values);
  const Column positions = column("values.position", "I32", n_values), values = column("values.value", "F32", n_values);
  for (std::int64_t i = begin; i < last; ++i) {
    context.values[static_cast<std::size_t>(positions.below(i, end - first))] = values.finite(i);
  }
  return context;
}

FeatureDashboard FeatureIndex::dashboard(std::int64_t feature) const {
  if (feature < 0 || feature >= d_sae_) {
    throw BadInput(file_.file()->path(), "expected a feature from 0 to {}, got {}", d_sae_ - 1, feature);
  }
  constexpr std::int32_t n_bins = ActivationHistogram::kBins;
  FeatureDashboard result;
  const auto n_active = column("n_active", "I64", d_sae_).at<std::int64_t>(feature);
  if (n_active < 0 || n_active > tokens_) {
    throw BadCheckpoint(file_.file()->path(), "feature {} is active at {} of {} tokens", feature, n_active, tokens_);
  }
  result.density = static_cast<double>(n_active) / static_cast<double>(tokens_);
  const auto exponent = column("histogram.exponents", "I32", d_sae_).at<std::int32_t>(feature);
  if (std::abs(exponent) > ActivationHistogram::kMostExponent) {
    throw BadCheckpoint(file_.file()->path(), "expected exponents of activations, got {}", exponent);
  }
  result.edges = ActivationHistogram::edges(exponent, is_signed_);
  const Column counts = column("histogram.counts", "I32", d_sae_ * n_bins);
  for (std::int32_t i = 0; i < n_bins; ++i) result.counts.push_back(counts.at<std::int32_t>(feature * n_bins + i));
  const auto [begin, end] =
      column("contexts.indptr", "I64", d_sae_ + 1).part(feature, std::max<std::int64_t>(0, count_of("contexts.max")));
  std::int64_t n_ids = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    n_ids += std::ssize(result.contexts.emplace_back(context(i)).ids);
    if (n_ids <= kMostShownTokens) continue;
    throw BadCheckpoint(file_.file()->path(), "expected at most {} tokens of contexts of a feature", kMostShownTokens);
  }
  const std::int64_t n_logits = count_of("logits.ids");
  if (n_logits < 0) return result;
  const Column ids = column("logits.ids", "I32", n_logits), weights = column("logits.weights", "F32", n_logits);
  const std::int64_t k = n_logits / d_sae_ / 2;
  for (std::int64_t i = 0; i < 2 * k; ++i) {
    const std::int64_t at = feature * 2 * k + i;
    (i < k ? result.logits.top : result.logits.bottom)
        .push_back({ids.below(at, std::int64_t{1} << 31), weights.finite(at)});
  }
  return result;
}

std::string FeatureIndex::text(std::int32_t id) const {
  const std::int64_t n_tokens = count_of("texts.indptr") - 1;
  if (id < 0 || id >= n_tokens) return "#" + std::to_string(id);
  const std::int64_t n_bytes = count_of("texts.bytes");
  const auto [begin, end] = column("texts.indptr", "I64", n_tokens + 1).part(id, std::max<std::int64_t>(0, n_bytes));
  const Column bytes = column("texts.bytes", "U8", n_bytes);
  constexpr std::int64_t kMost = 1024;
  if (end - begin > kMost) throw BadCheckpoint(bytes.path, "token {} has {} bytes", id, end - begin);
  return {reinterpret_cast<const char*>(bytes.bytes.data()) + begin, static_cast<std::size_t>(end - begin)};
}

std::string index_key(const Dictionary& dictionary) {
  return name_of(dictionary.output) + (dictionary.name.empty() ? "" : "." + dictionary.name);
}

FeatureIndexes open_feature_indexes(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return {std::make_shared<const FeatureIndex>(path)};
  std::vector<std::string> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == kExtension) files.push_back(it->path().string());
  }
  if (error) throw BadInput(path, "cannot read the folder of an index of features: {}", error.message());
  if (files.empty()) throw BadInput(path, "expected an index of features, which vitrine features index writes");
  std::ranges::sort(files);
  FeatureIndexes all;
  for (const std::string& file : files) all.push_back(std::make_shared<const FeatureIndex>(file));
  return all;
}

const FeatureIndex& index_named(const FeatureIndexes& all, const std::string& key, const std::string& where) {
  std::string keys;
  for (const auto& index : all) {
    if (index->key() == key || (key.empty() && all.size() == 1)) return *index;
    keys += (keys.empty() ? "" : ", ") + index->key();
  }
  throw BadInput(where, "expected the site of a dictionary: {}{}", keys, key.empty() ? "" : "; got " + key);
}

const FeatureIndex* index_of(const FeatureIndexes& all, const Dictionary& dictionary) {
  const std::string key = index_key(dictionary);
  for (const auto& index : all) {
    if (index->key() != key) continue;
    if (index->d_sae() == dictionary.d_sae()) return index.get();
    throw BadInput(index->key(), "expected an index of {} features, got one of {}", dictionary.d_sae(), index->d_sae());
  }
  return nullptr;
}

Json dashboard_json(const FeatureIndex& index, const FeatureDashboard& dashboard) {
  Json contexts = Json::array();
  for (const FeatureContext& context : dashboard.contexts) {
    Json texts = Json::array();
    for (const std::int32_t id : context.ids) texts.push_back(index.text(id));
    contexts.push_back({{"max", context.max},
                        {"position", context.position},
                        {"start", context.start},
                        {"ids", context.ids},
                        {"texts", std::move(texts)},
                        {"values", context.values}});
  }
  return {{"contexts", std::move(contexts)},
          {"density", dashboard.density},
          {"histogram", {{"edges", dashboard.edges}, {"counts", dashboard.counts}}},
          {"top_logits", logits_json(index, dashboard.logits.top)},
          {"bottom_logits", logits_json(index, dashboard.logits.bottom)}};
}

}  // namespace vitrine
