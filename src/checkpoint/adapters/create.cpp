#include "checkpoint/adapters/create.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "base/rng.h"
#include "checkpoint/param_rows.h"

namespace vitrine {
namespace {

constexpr std::uint64_t kStream = std::uint64_t{0x6C6F7261} << 32;  // "lora"

constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"q", ".wq.weight"},        {"k", ".wk.weight"},
    {"v", ".wv.weight"},        {"o", ".wo.weight"},
    {"gate", ".w_gate.weight"}, {"up", ".w_up.weight"},
    {"down", ".w_down.weight"}, {"ssm", ""}};  // all matrices of mixers with a state

/// The gate of per-layer embeddings is not that of an FFN, and is chosen by its module's name alone.
constexpr std::string_view kPerLayerGate = ".ple.w_gate.weight";

/// Whether a target selects a module. A word is no name: in some families a router is called gate.
bool selects(const std::string& target, const AdapterPlace& place) {
  const auto word =
      std::find_if(std::begin(kWords), std::end(kWords), [&](const auto& w) { return w.first == target; });
  if (word == std::end(kWords)) return place.module == target || place.module.ends_with("." + target);
  const auto is_named = [&](const std::string& name) {
    if (target == "ssm") return is_of_state(name);
    if (is_of_state(name)) return false;
    if (name.ends_with(".attn.w_gate.weight") && place.ours.size() > 1) return false;  // in the module of the queries
    return name.ends_with(word->second) && !name.ends_with(kPerLayerGate);
  };
  return std::any_of(place.ours.begin(), place.ours.end(), is_named);
}

/// The names that a target may have.
std::vector<std::string> target_names(const std::vector<AdapterPlace>& places) {
  std::set<std::string> names;
  for (const auto& [word, ending] : kWords) names.emplace(word);
  for (const AdapterPlace& place : places) names.insert(place.module.substr(place.module.rfind('.') + 1));
  return {names.begin(), names.end()};
}

/// Whether a module is in one of the layers.
bool is_in_layers(const AdapterPlace& place, const NewAdapter& options) {
  return !options.layers ||
         std::find(options.layers->begin(), options.layers->end(), place.layer) != options.layers->end();
}

/// Every layer must have a module.
void check_layers(const std::vector<AdapterPlace>& all, const std::vector<AdapterPlace>& chosen,
                  const NewAdapter& options, const std::string& prefix) {
  const auto has_layer = [](const std::vector<AdapterPlace>& places, std::int64_t layer) {
    return std::any_of(places.begin(), places.end(), [&](const AdapterPlace& place) { return place.layer == layer; });
  };
  for (const std::int64_t layer : options.layers.value_or(std::vector<std::int64_t>{})) {
    if (has_layer(chosen, layer)) continue;
    if (has_layer(all, layer)) throw BadInput(prefix + "layers", "no target is in layer {}", layer);
    std::int64_t last = 0;
    for (const AdapterPlace& place : all) last = std::max(last, place.layer);
    throw BadInput(prefix + "layers", "expected layers from 0 to {}, got {}", last, layer);
  }
}

/// The chosen modules. Every target and every layer must have one.
std::vector<AdapterPlace> chosen_places(const Checkpoint& base, const NewAdapter& options, const std::string& prefix) {
  std::vector<std::string> targets = options.targets;
  if (targets.empty()) {
    for (const auto& [word, ending] : kWords) targets.emplace_back(word);
  }
  const std::vector<AdapterPlace> all = usual_places(base, AdapterFormat::peft);
  std::set<std::string> met;
  std::vector<AdapterPlace> chosen;
  for (const AdapterPlace& place : all) {
    bool is_chosen = false;
    for (const std::string& target : targets) {
      if (!selects(target, place)) continue;
      met.insert(target);
      is_chosen = true;
    }
    if (is_chosen && is_in_layers(place, options)) chosen.push_back(place);
  }
  for (const std::string& target : options.targets) {
    if (met.contains(target)) continue;
    throw BadInput(prefix + "targets", "the model has no linear map \"{}\"{}", target,
                   did_you_mean(target, target_names(all)));
  }
  check_layers(all, chosen, options, prefix);
  if (chosen.empty()) throw BadInput(prefix + "targets", "the model has no linear map that an adapter can change");
  return chosen;
}

/// A rank above a side of the matrix has no effect that a smaller one does not have.
void check_rank(std::int64_t rank, const AdapterPlace& place, const std::string& prefix) {
  const auto rows = static_cast<std::int64_t>(place.order.size());
  if (rank <= std::min(rows, place.cols)) return;
  throw BadInput(prefix + "rank", "expected at most {}, a side of {} [{}, {}], got {}", std::min(rows, place.cols),
                 place.module, rows, place.cols, rank);
}

double scale_of(double alpha, std::int64_t rank, bool rslora) {
  const auto r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
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

/// Adds a copy of a parameter of the head for labels.
void save_copy(WritableAdapter& to, const Param& param) {
  const auto memory = std::make_shared<ZeroMemory>(param.shape.count() * static_cast<std::int64_t>(sizeof(float)),
                                                   "the head for labels");
  const MatrixView& view = param.view;
  for (std::int64_t row = 0; row < view.rows; ++row) {
    read_row(view, row, {memory->floats() + row * view.cols, static_cast<std::size_t>(view.cols)});
  }
  to.adapter->storage.push_back(memory);
  Param copy = param;
  copy.view = view_of(memory->floats(), view.rows, view.cols, view.cols);
  const auto at = to.adapter->saved.emplace(param.name, std::move(copy)).first;
  to.matrices.push_back({&at->second, memory->floats()});
}

/// Lists the matrices of an adapter whose values are in memory of its own.
std::vector<AdapterMatrix> matrices_of(const Adapter& adapter, const std::map<const Param*, float*>& values) {
  std::vector<AdapterMatrix> list;
  for_each_matrix(adapter, [&](const Param& param) { list.push_back({&param, values.at(&param)}); });
  return list;
}

}  // namespace

WritableAdapter new_adapter(const Checkpoint& base, const NewAdapter& options, std::uint64_t seed,
                            const std::string& prefix) {
  constexpr std::int64_t kMaxRank = 1 << 16;
  const std::int64_t r = options.rank;
  if (r < 1 || r > kMaxRank) throw BadInput(prefix + "rank", "expected 1 to {}, got {}", kMaxRank, r);
  if (!std::isfinite(options.alpha) || options.alpha <= 0) {
    throw BadInput(prefix + "alpha", "expected a number above 0, got {}", options.alpha);
  }
  WritableAdapter result{std::make_shared<LoadedAdapter>(), {}};
  LoadedAdapter& adapter = *result.adapter;
  adapter.rslora = options.rslora;
  adapter.places = chosen_places(base, options, prefix);
  std::int64_t floats = 0;
  for (const AdapterPlace& place : adapter.places) {
    check_rank(r, place, prefix);
    floats += r * (place.cols + static_cast<std::int64_t>(place.order.size())) * place.n_experts;
  }
  Block block(floats);
  adapter.storage.push_back(block.memory());
  const double scale = scale_of(options.alpha, r, options.rslora);
  std::map<const Param*, float*> values;
  for (std::size_t i = 0; i < adapter.places.size(); ++i) {
    const AdapterPlace& place = adapter.places[i];
    float* const all_a = block.take(r * place.cols * place.n_experts);
    const double bound = 1 / std::sqrt(static_cast<double>(place.cols));
    for (std::int64_t k = 0; k < r * place.cols * place.n_experts; ++k) {
      const double u = uniform(seed, kStream + i, static_cast<std::uint64_t>(k));
      all_a[k] = static_cast<float>(bound * (2 * u - 1));
    }
    std::shared_ptr<const Param> a;
    for (std::size_t part = 0; part < place.ours.size(); ++part) {
      const auto expert = static_cast<std::int64_t>(part) / place.maps_of_expert();
      if (static_cast<std::int64_t>(part) % place.maps_of_expert() == 0) {
        float* const a_values = all_a + expert * r * place.cols;
        a = std::make_shared<const Param>(matrix(place.ours[part], "lora_a", {r, place.cols}, a_values));
        values[a.get()] = a_values;
      }
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

void check_options(const LoadedAdapter& adapter, const Checkpoint& base, const NewAdapter& options,
                   std::span<const std::string> names, const std::string& prefix) {
  const auto is_given = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (is_given("scaling") && adapter.rslora != options.rslora) {
    throw BadInput(prefix + "scaling", "expected \"{}\", as the adapter has it, got \"{}\"",
                   adapter.rslora ? "rslora" : "standard", options.rslora ? "rslora" : "standard");
  }
  for (const auto& [name, low] : adapter.maps) {
    if (is_given("rank") && low.rank() != options.rank) {
      throw BadInput(prefix + "rank", "expected {}, the rank of the adapter's {}, got {}", low.rank(), name,
                     options.rank);
    }
    const double alpha = low.scale / scale_of(1, low.rank(), adapter.rslora);
    if (is_given("alpha") && std::abs(alpha - options.alpha) > 1e-6 * std::abs(alpha)) {
      throw BadInput(prefix + "alpha", "expected {:g}, the alpha of the adapter's {}, got {:g}", alpha, name,
                     options.alpha);
    }
  }
  if (!is_given("targets") && !is_given("layers")) return;
  const std::string option = prefix + (is_given("targets") ? "targets" : "layers");
  std::set<std::string> chosen;
  for (const AdapterPlace& place : chosen_places(base, options, prefix)) {
    chosen.insert(place.ours.begin(), place.ours.end());
  }
  for (const auto& [name, low] : adapter.maps) {
    if (!chosen.erase(name)) throw BadInput(option, "the adapter also changes {}", name);
  }
  if (!chosen.empty()) throw BadInput(option, "the adapter does not change {}", *chosen.begin());
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
  for (const auto& [name, param] : from.saved) save_copy(result, param);
  return result;
}

void add_head(WritableAdapter& adapter, const Model& base, const std::string& prefix) {
  for (const auto& [name, low] : adapter.adapter->maps) {
    if (!name.starts_with("head.")) continue;
    throw BadInput(prefix + "targets", "{} is a part of the new head, all of which is trained", name);
  }
  for_each_param(base.config(), base.params(), [&](const Param& param, const std::string& name, const Shape&) {
    if (name.starts_with("head.") && !adapter.adapter->saved.contains(name)) save_copy(adapter, param);
  });
  // In the order of writable_copy(), so that a resumed run has the same sums over parameters.
  const auto by_name = [](const AdapterMatrix& a, const AdapterMatrix& b) { return a.param->name < b.param->name; };
  std::sort(adapter.matrices.end() - std::ssize(adapter.adapter->saved), adapter.matrices.end(), by_name);
}

}  // namespace vitrine
