#include "checkpoint/new_adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "checkpoint/param_rows.h"

namespace vitrine {
namespace {

constexpr std::uint64_t kStream = std::uint64_t{0x6C6F7261} << 32;  // "lora"

constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"q", ".wq.weight"},        {"k", ".wk.weight"},    {"v", ".wv.weight"},       {"o", ".wo.weight"},
    {"gate", ".w_gate.weight"}, {"up", ".w_up.weight"}, {"down", ".w_down.weight"}};

/// Whether a target selects a module.
bool selects(const std::string& target, const AdapterPlace& place) {
  if (place.module == target || place.module.ends_with("." + target)) return true;
  const auto word =
      std::find_if(std::begin(kWords), std::end(kWords), [&](const auto& w) { return w.first == target; });
  if (word == std::end(kWords)) return false;
  return std::any_of(place.ours.begin(), place.ours.end(),
                     [&](const std::string& name) { return name.ends_with(word->second); });
}

/// The chosen modules. Every target and every layer must have one.
std::vector<AdapterPlace> chosen_places(const Checkpoint& base, const NewAdapter& options) {
  std::vector<std::string> targets = options.targets;
  if (targets.empty()) {
    for (const auto& [word, ending] : kWords) targets.emplace_back(word);
  }
  std::set<std::string> met;
  std::set<std::int64_t> layers_met;
  std::vector<AdapterPlace> chosen;
  for (AdapterPlace& place : usual_places(base, AdapterFormat::peft)) {
    bool is_chosen = false;
    for (const std::string& target : targets) {
      if (!selects(target, place)) continue;
      met.insert(target);
      is_chosen = true;
    }
    if (!is_chosen) continue;
    if (options.layers) {
      const auto& layers = *options.layers;
      if (std::find(layers.begin(), layers.end(), place.layer) == layers.end()) continue;
      layers_met.insert(place.layer);
    }
    chosen.push_back(std::move(place));
  }
  for (const std::string& target : options.targets) {
    if (!met.contains(target)) throw BadInput("targets", "the model has no linear map \"{}\"", target);
  }
  for (const std::int64_t layer : options.layers.value_or(std::vector<std::int64_t>{})) {
    if (!layers_met.contains(layer)) throw BadInput("layers", "no target is in layer {}", layer);
  }
  return chosen;
}

Param matrix(const std::string& weight, const char* what, const Shape& shape, float* values) {
  const std::string name = weight.substr(0, weight.size() - std::string_view("weight").size()) + what;
  return {name, name, shape, view_of(values, shape[0], shape[1], shape[1])};
}

/// Allocates memory for matrices one after another.
class Block {
 public:
  explicit Block(std::int64_t floats)
      : memory_(std::make_shared<ZeroMemory>(floats * static_cast<std::int64_t>(sizeof(float)), "the adapter")) {}

  float* take(std::int64_t floats) { return memory_->floats() + std::exchange(used_, used_ + floats); }
  std::shared_ptr<const void> memory() const { return memory_; }

 private:
  std::shared_ptr<ZeroMemory> memory_;
  std::int64_t used_ = 0;
};

/// Lists the matrices of an adapter whose values are in memory of its own.
std::vector<AdapterMatrix> matrices_of(const Adapter& adapter, const std::map<const Param*, float*>& values) {
  std::vector<AdapterMatrix> list;
  for_each_matrix(adapter, [&](const Param& param) { list.push_back({&param, values.at(&param)}); });
  return list;
}

}  // namespace

WritableAdapter new_adapter(const Checkpoint& base, const NewAdapter& options, std::uint64_t seed) {
  constexpr std::int64_t kMostRank = 1 << 16;
  const std::int64_t r = options.rank;
  if (r < 1 || r > kMostRank) throw BadInput("rank", "expected 1 to {}, got {}", kMostRank, r);
  if (!std::isfinite(options.alpha) || options.alpha <= 0) {
    throw BadInput("alpha", "expected a number above 0, got {}", options.alpha);
  }
  WritableAdapter result{std::make_shared<LoadedAdapter>(), {}};
  LoadedAdapter& adapter = *result.adapter;
  adapter.rslora = options.rslora;
  adapter.places = chosen_places(base, options);
  std::int64_t floats = 0;
  for (const AdapterPlace& place : adapter.places) {
    floats += r * (place.cols + static_cast<std::int64_t>(place.order.size()));
  }
  Block block(floats);
  adapter.storage.push_back(block.memory());
  const double scale = options.alpha / (options.rslora ? std::sqrt(static_cast<double>(r)) : static_cast<double>(r));
  std::map<const Param*, float*> values;
  for (std::size_t i = 0; i < adapter.places.size(); ++i) {
    const AdapterPlace& place = adapter.places[i];
    float* const a_values = block.take(r * place.cols);
    const double bound = 1 / std::sqrt(static_cast<double>(place.cols));
    for (std::int64_t k = 0; k < r * place.cols; ++k) {
      const double u = uniform(seed, kStream + i, static_cast<std::uint64_t>(k));
      a_values[k] = static_cast<float>(bound * (2 * u - 1));
    }
    const auto a = std::make_shared<const Param>(matrix(place.ours.front(), "lora_a", {r, place.cols}, a_values));
    values[a.get()] = a_values;
    for (std::size_t part = 0; part < place.ours.size(); ++part) {
      const std::int64_t rows = place.rows[part];
      float* const b_values = block.take(r * rows);
      LowRank low{a, matrix(place.ours[part], "lora_b", {rows, r}, b_values), scale};
      const auto at = adapter.maps.emplace(place.ours[part], std::move(low)).first;
      values[&at->second.b] = b_values;
    }
  }
  result.matrices = matrices_of(adapter, values);
  return result;
}

WritableAdapter writable_copy(const LoadedAdapter& from) {
  WritableAdapter result{std::make_shared<LoadedAdapter>(), {}};
  LoadedAdapter& adapter = *result.adapter;
  adapter.format = from.format;
  adapter.rslora = from.rslora;
  adapter.places = from.places;
  std::int64_t floats = 0;
  for_each_matrix(from, [&](const Param& param) { floats += param.shape.count(); });
  Block block(floats);
  adapter.storage.push_back(block.memory());
  std::map<const Param*, float*> values;
  std::map<const Param*, std::shared_ptr<const Param>> copies;  // of A, by the original
  const auto copy = [&](const Param& param) {
    float* const to = block.take(param.shape.count());
    const std::int64_t cols = param.view.cols;
    for (std::int64_t row = 0; row < param.view.rows; ++row) {
      read_row(param.view, row, {to + row * cols, static_cast<std::size_t>(cols)});
    }
    return std::pair(Param{param.name, param.stored_name, param.shape, view_of(to, param.view.rows, cols, cols)}, to);
  };
  for (const auto& [name, low] : from.maps) {
    if (low.magnitudes) throw Unsupported(name, "the magnitudes of DoRA cannot be trained");
    std::shared_ptr<const Param>& a = copies[low.a.get()];
    if (a == nullptr) {
      auto [param, to] = copy(*low.a);
      a = std::make_shared<const Param>(std::move(param));
      values[a.get()] = to;
    }
    auto [b, to] = copy(low.b);
    const auto at = adapter.maps.emplace(name, LowRank{a, std::move(b), low.scale}).first;
    values[&at->second.b] = to;
  }
  result.matrices = matrices_of(adapter, values);
  return result;
}

}  // namespace vitrine
