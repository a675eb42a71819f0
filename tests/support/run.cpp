
#include <fnmatch.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>

#include "base/rng.h"
#include "checkpoint/safetensors.h"
#include "model/sites.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

std::size_t index(const SiteId& id) {
  const auto part = 2 * static_cast<std::size_t>(id.stack) + static_cast<std::size_t>(id.cross);
  return (static_cast<std::size_t>(id.layer + 1) * 6 + part) * all_sites().size() + number_of(id.site);
}

bool matches_any(const std::vector<std::string>& globs, const SiteId& id) {
  const std::string name = name_of(id);
  bool chosen = false;
  for (const std::string& glob : globs) {
    const bool takes_away = glob.starts_with("!");
    if (fnmatch(glob.c_str() + (takes_away ? 1 : 0), name.c_str(), 0) == 0) chosen = !takes_away;
  }
  return chosen;
}

std::string name_in_pass(const SiteId& id) {
  return name_of(id) + (id.segment > 0 ? "#" + std::to_string(id.segment) : "");
}

}  // namespace

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

Probe::Probe(const Model&, std::vector<std::string> globs, Replace replace)
    : globs_(std::move(globs)), replace_(replace) {}

bool Probe::wants(const SiteId& id) const {
  if (id.expert != SiteId::kNoExpert && !globs_.empty()) return matches_any(globs_, id);  // there may be many
  const std::size_t at = index(id);
  if (chosen_.size() <= at) chosen_.resize(at + 1);
  if (!chosen_[at]) chosen_[at] = globs_.empty() ? !info(id.site).on_demand : matches_any(globs_, id);
  return *chosen_[at];
}

void Probe::visit_gradient(Pass&, const SiteId& id, const Tensor& gradient) {
  gradients[name_in_pass(id)] = {gradient.shape, {gradient.data, gradient.data + gradient.count()}};
}

Tensor Probe::visit(Pass& pass, const SiteId& id, const Tensor& value) {
  const std::string name = name_in_pass(id);
  values[name] = {value.shape, {value.data, value.data + value.count()}};
  order.push_back(name);
  if (replace_ == Replace::nothing) return value;
  const Tensor copy = pass.tensor(value.shape);
  std::copy_n(value.data, value.count(), copy.data);
  return copy;
}

std::vector<float> logits_of(const Model& model, std::span<const std::int32_t> ids, const RunOptions& o) {
  std::vector<float> logits;
  ThreadPool pool(o.threads);
  Arena arena;
  const auto n = static_cast<std::int64_t>(ids.size());
  Pass pass{{pool, *o.kernels, arena, nullptr, false, o.compute}, {{0, n, 0, nullptr}}, {}, o.taps, o.kv_types};
  pass.logits = {LogitRequest::Rows::range, 0, n,
                 [&](std::int64_t, const Tensor& t) { logits.insert(logits.end(), t.data, t.data + t.count()); }};
  model.forward(pass, ids);
  return logits;
}

std::vector<float> chunked_logits_of(const Model& model, std::span<const std::int32_t> ids, std::int64_t chunk,
                                     const RunOptions& o) {
  std::vector<float> logits;
  ThreadPool pool(o.threads);
  Arena arena;
  const auto n = static_cast<std::int64_t>(ids.size());
  KvCache cache = model.make_cache(n, o.kv_types, *o.kv_memory);
  for (std::int64_t first = 0; first < n; first += chunk) {
    const std::int64_t length = std::min(chunk, n - first);
    Pass pass{
        {pool, *o.kernels, arena, nullptr, false, o.compute}, {{0, length, first, &cache}}, {}, o.taps, o.kv_types};
    pass.logits = {LogitRequest::Rows::range, 0, length,
                   [&](std::int64_t, const Tensor& t) { logits.insert(logits.end(), t.data, t.data + t.count()); }};
    model.forward(pass, ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(length)));
  }
  return logits;
}

std::vector<std::int32_t> some_ids(const Model& model, std::int64_t n, std::uint64_t seed) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    const double u = uniform(seed, 0, static_cast<std::uint64_t>(i));
    ids.push_back(static_cast<std::int32_t>(u * static_cast<double>(model.config().vocab_size)));
  }
  return ids;
}

std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(goldens())) {
    if (std::filesystem::exists(entry.path() / "config.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Checkpoint golden_checkpoint(const std::string& name) { return load_checkpoint(goldens() + "/" + name); }

std::map<std::string, Value> golden_values(const std::string& name) {
  std::map<std::string, Value> values;
  const SafetensorsFile file = SafetensorsFile::open(goldens() + "/" + name + "/golden.safetensors");
  for (const auto& [site, tensor] : file.tensors()) {
    Value value;
    const auto& s = tensor.shape;
    value.shape = s.size() == 1   ? Shape{s[0]}
                  : s.size() == 2 ? Shape{s[0], s[1]}
                  : s.size() == 3 ? Shape{s[0], s[1], s[2]}
                                  : Shape{s[0], s[1], s[2], s[3]};
    value.data.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(value.data.data(), tensor.bytes.data(), tensor.bytes.size());
    values[site] = std::move(value);
  }
  return values;
}

std::vector<std::int32_t> golden_ids(const std::string& name) {
  std::vector<std::int32_t> ids;
  const auto values = golden_values(name);
  for (const float id : values.at("hook_tokens").data) ids.push_back(static_cast<std::int32_t>(id));
  return ids;
}

}  // namespace vitrine::test
