#include "checkpoint/adapters/writer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/gguf_writer.h"
#include "base/json.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/types.h"
#include "checkpoint/param_rows.h"

namespace vitrine {
namespace {

/// The maps that the adapter changes.
std::vector<const LowRank*> changed_at(const Adapter& adapter, const AdapterPlace& place) {
  std::vector<const LowRank*> maps;
  for (const std::string& name : place.ours) {
    if (const LowRank* const low = adapter.find(name)) maps.push_back(low);
  }
  return maps;
}

/// Whether the place can hold these maps: all of its own, of which those of one module, or of one expert, share A.
bool holds(const AdapterPlace& place, const std::vector<const LowRank*>& maps) {
  if (maps.size() != place.ours.size()) return false;
  const auto per_a = static_cast<std::size_t>(place.stacks_experts ? 1 : place.maps_of_expert());
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const LowRank &low = *maps[i], &first = *maps[i / per_a * per_a];
    if (low.a != first.a || low.scale != first.scale) return false;
    const LowRank& of_all = *maps.front();
    const bool is_alike = low.scale == of_all.scale && low.rank() == of_all.rank() && !low.magnitudes;
    if (place.is_parameter && !is_alike) return false;
  }
  return true;
}

/// The maps of a place; empty if the adapter changes none of them.
std::vector<const LowRank*> maps_at(const Adapter& adapter, const AdapterPlace& place) {
  std::vector<const LowRank*> maps = changed_at(adapter, place);
  if (!maps.empty() && !holds(place, maps)) {
    throw Unsupported(place.module, "its maps do not share one matrix A, as this format requires");
  }
  return maps;
}

/// The places of a file of PEFT: experts are parameters, unless the adapter changes only some of them, or gives the
/// maps of an expert an A each, as files for earlier versions of transformers do.
std::vector<AdapterPlace> peft_places(const Adapter& adapter, const Checkpoint& base) {
  std::vector<AdapterPlace> places = usual_places(base, AdapterFormat::peft);
  const bool fit = std::all_of(places.begin(), places.end(), [&](const AdapterPlace& place) {
    const std::vector<const LowRank*> maps = changed_at(adapter, place);
    return !place.is_parameter || maps.empty() || holds(place, maps);
  });
  return fit ? places : usual_places(base, AdapterFormat::peft, false);
}

/// The places that the adapter changes. Throws Unsupported if they lack one of its maps.
std::vector<const AdapterPlace*> places_of(const Adapter& adapter, std::span<const AdapterPlace> places) {
  std::set<std::string_view> rest;
  for (const auto& [name, low] : adapter.maps) rest.insert(name);
  std::vector<const AdapterPlace*> result;
  for (const AdapterPlace& place : places) {
    if (maps_at(adapter, place).empty()) continue;
    result.push_back(&place);
    for (const std::string& name : place.ours) rest.erase(name);
  }
  if (!rest.empty()) throw Unsupported(*rest.begin(), "the format has no name for it");
  return result;
}

/// The rows of the maps in the order of the file; `of` selects the matrix of a map.
std::vector<float> stored_rows(const AdapterPlace& place, const std::vector<const LowRank*>& maps,
                               const std::function<const Param&(const LowRank&)>& of, const LowRankValues& values) {
  std::vector<std::vector<float>> parts;
  for (const LowRank* low : maps) parts.push_back(values(of(*low)));
  std::vector<float> all;
  if (place.stacks_experts) {
    for (const std::vector<float>& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  const auto cols = static_cast<std::ptrdiff_t>(parts.front().size()) / place.rows.front();
  for (std::size_t i = 0; i < place.order.size(); ++i) {
    const PartRow& at = place.order[i];
    const auto first = parts[at.part].begin() + at.row * cols;
    const float factor = place.factors.empty() ? 1 : place.factors[i];
    std::transform(first, first + cols, std::back_inserter(all), [&](float x) { return factor * x; });
  }
  return all;
}

/// A matrix A of `place` with the columns in the order of the file.
std::vector<float> stored_columns(const AdapterPlace& place, std::vector<float> a) {
  if (place.columns.empty()) return a;
  const std::vector<float> from = a;
  const std::size_t cols = place.columns.size();
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = from[i / cols * cols + static_cast<std::size_t>(place.columns[i % cols])];
  return a;
}

/// x `[rows, cols]`, transposed.
std::vector<float> transposed(const std::vector<float>& x, std::size_t rows) {
  const std::size_t cols = x.size() / rows;
  std::vector<float> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) result[i % cols * rows + i / cols] = x[i];
  return result;
}

/// A and B of a parameter of all experts.
std::pair<std::vector<float>, std::vector<float>> of_all_experts(const AdapterPlace& place,
                                                                 const std::vector<const LowRank*>& maps,
                                                                 const LowRankValues& values) {
  const auto n = static_cast<std::size_t>(place.n_experts), per = static_cast<std::size_t>(place.maps_of_expert());
  const auto r = static_cast<std::size_t>(maps.front()->rank());
  const std::size_t n_rows = place.order.size();
  const auto n_out = static_cast<std::size_t>(place.is_swapped ? place.cols : static_cast<std::int64_t>(n_rows));
  std::vector<float> all_a, all_b(n * r * n_out);
  for (std::size_t e = 0; e < n; ++e) {
    std::vector<float> a = values(*maps[e * per]->a), b;  // [r, in], [out, r]
    std::vector<std::vector<float>> parts;
    for (std::size_t part = 0; part < per; ++part) parts.push_back(values(maps[e * per + part]->b));
    for (const PartRow& at : place.order) {
      const auto first = parts[at.part].begin() + at.row * static_cast<std::ptrdiff_t>(r);
      b.insert(b.end(), first, first + static_cast<std::ptrdiff_t>(r));
    }
    if (place.is_swapped) {
      std::swap(a, b);
      a = transposed(a, n_rows);
      b = transposed(b, r);
    }
    all_a.insert(all_a.end(), a.begin(), a.end());
    for (std::size_t i = 0; i < b.size(); ++i) all_b[i * n + e] = b[i];
  }
  return {std::move(all_a), std::move(all_b)};
}

const Param& b_of(const LowRank& low) { return low.b; }
const Param& magnitudes_of(const LowRank& low) { return low.magnitudes->vector; }

std::int64_t n_rows(const AdapterPlace& place) {
  return place.stacks_experts ? place.rows.front() : static_cast<std::int64_t>(place.order.size());
}

/// The elements of a stored matrix.
std::vector<float> elements_of(const Param& param) {
  const MatrixView& view = param.view;
  std::vector<float> all(static_cast<std::size_t>(view.rows * view.cols));
  for (std::int64_t row = 0; row < view.rows; ++row) {
    read_row(view, row,
             std::span(all).subspan(static_cast<std::size_t>(row * view.cols), static_cast<std::size_t>(view.cols)));
  }
  return all;
}

void write_tensors(const std::string& path, const std::vector<AdapterTensor>& tensors) {
  SafetensorsWriter writer(path, header_bytes_for(tensors.size()));
  for (const AdapterTensor& tensor : tensors) {
    writer.begin(tensor.name, DType::f32, tensor.shape);
    writer.append(std::as_bytes(std::span(tensor.values)));
  }
  writer.commit();
}

/// The number that most modules have.
template <class Of>
double usual(const std::vector<const LowRank*>& maps, const Of& of) {
  std::map<double, int> counts;
  for (const LowRank* low : maps) ++counts[of(*low)];
  const auto fewer = [](const auto& x, const auto& y) { return x.second < y.second; };
  return std::max_element(counts.begin(), counts.end(), fewer)->first;
}

/// 8 rather than 8.0 in JSON.
Json number(double x) {
  return x == std::floor(x) && std::abs(x) < 1e15 ? Json(static_cast<std::int64_t>(x)) : Json(x);
}

/// The last names of the modules, if together they select exactly these; else their full names, as in a wrapper, whose
/// other parts may have modules of the same last names.
Json target_modules(const std::vector<const AdapterPlace*>& changed, std::span<const AdapterPlace> all,
                    const Checkpoint& base) {
  std::set<std::string> full, last;
  for (const AdapterPlace* place : changed) {
    full.insert(place->module);
    last.insert(place->module.substr(place->module.rfind('.') + 1));
  }
  const bool is_exact = std::all_of(all.begin(), all.end(), [&](const AdapterPlace& place) {
    return full.contains(place.module) || !last.contains(place.module.substr(place.module.rfind('.') + 1));
  });
  return is_exact && base.wrapper.empty() ? last : full;
}

/// Names that PEFT takes for those of experts in some families, wherever a module has them, and of routers, which are
/// no modules that it adapts. As parameters they are what they are.
bool is_mistaken(const AdapterPlace& place) {
  constexpr std::string_view kNames[] = {"gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "gate"};
  const std::string last = place.module.substr(place.module.rfind('.') + 1);
  return std::find(std::begin(kNames), std::end(kNames), last) != std::end(kNames) ||
         place.ours.front().ends_with(".mlp.router.weight");
}

/// The name by which PEFT's patterns know a changed place, and target_parameters if it is one.
std::string name_in_config(const AdapterPlace& place, bool as_parameter) {
  return place.module + (as_parameter && !place.is_parameter ? ".weight" : "");
}

/// The parameters among the changed places: the ends of their names after the layer, if together they select exactly
/// these; else their full names, as in a wrapper.
Json target_parameters(const std::vector<const AdapterPlace*>& changed, std::span<const AdapterPlace> all,
                       const Checkpoint& base) {
  const auto end_of = [](const AdapterPlace& place) {
    const std::string layer = "." + std::to_string(place.layer) + ".";
    const std::size_t at = place.module.find(layer);
    return at == place.module.npos ? place.module : place.module.substr(at + layer.size());
  };
  std::set<std::string> full, ends;
  for (const AdapterPlace* place : changed) {
    full.insert(place->module);
    ends.insert(end_of(*place));
  }
  const bool is_exact = std::all_of(all.begin(), all.end(), [&](const AdapterPlace& place) {
    return full.contains(place.module) || !ends.contains(end_of(place));
  });
  std::set<std::string> names;
  for (const AdapterPlace* place : changed) {
    const std::string& name = place->module;
    names.insert((is_exact && base.wrapper.empty() ? end_of(*place) : name) + (place->is_parameter ? "" : ".weight"));
  }
  return names;
}

Json peft_config(const Adapter& adapter, const std::vector<const AdapterPlace*>& changed,
                 std::span<const AdapterPlace> all, const Checkpoint& base, const PeftOptions& options) {
  const auto rank_of = [](const LowRank& low) { return static_cast<double>(low.rank()); };
  const auto alpha_of = [&](const LowRank& low) {
    return low.scale * (options.rslora ? std::sqrt(rank_of(low)) : rank_of(low));
  };
  std::vector<const LowRank*> maps;
  for (const AdapterPlace* place : changed) maps.push_back(adapter.find(place->ours.front()));
  const double rank = usual(maps, rank_of), alpha = usual(maps, alpha_of);
  Json ranks = Json::object(), alphas = Json::object();
  bool transposed = false;
  const bool has_experts = std::any_of(all.begin(), all.end(), [](const AdapterPlace& p) { return p.is_parameter; });
  const bool has_magnitudes = maps.front()->magnitudes.has_value();  // of which no parameter can have any
  std::vector<const AdapterPlace*> modules, parameters;
  for (const AdapterPlace* place : changed) {
    const bool is_parameter = place->is_parameter || (has_experts && !has_magnitudes && is_mistaken(*place));
    (is_parameter ? parameters : modules).push_back(place);
  }
  const auto name_of_changed = [&](std::size_t i) {
    const bool is_parameter = std::find(parameters.begin(), parameters.end(), changed[i]) != parameters.end();
    return name_in_config(*changed[i], is_parameter);
  };
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if (rank_of(*maps[i]) != rank) ranks[name_of_changed(i)] = number(rank_of(*maps[i]));
    if (alpha_of(*maps[i]) != alpha) alphas[name_of_changed(i)] = number(alpha_of(*maps[i]));
    transposed = transposed || changed[i]->transposed;
  }
  const ModelConfig& config = base.model->config();
  const Json task = config.encoder ? Json("SEQ_2_SEQ_LM") : is_bidirectional(config) ? Json() : Json("CAUSAL_LM");
  Json config_json = {{"peft_type", "LORA"},
                      {"task_type", task},
                      {"base_model_name_or_path", options.base.empty() ? Json() : Json(options.base)},
                      {"r", number(rank)},
                      {"lora_alpha", number(alpha)},
                      {"lora_dropout", parameters.empty() ? options.dropout : 0.0},  // PEFT has none of parameters
                      {"target_modules", target_modules(modules, all, base)},
                      {"rank_pattern", ranks},
                      {"alpha_pattern", alphas},
                      {"use_rslora", options.rslora},
                      {"use_dora", has_magnitudes},
                      {"fan_in_fan_out", transposed},
                      {"bias", "none"},
                      {"modules_to_save", nullptr},
                      {"init_lora_weights", true},
                      {"inference_mode", true}};
  if (!parameters.empty()) config_json["target_parameters"] = target_parameters(parameters, all, base);
  return config_json;
}

/// The type of a task with a head for labels, in PEFT.
Json task_with_head(const TaskHead& head) {
  switch (head.task) {
    case TaskHead::Task::classify:
      return "SEQ_CLS";
    case TaskHead::Task::tag:
      return "TOKEN_CLS";
    case TaskHead::Task::answer:
      return "QUESTION_ANS";
    case TaskHead::Task::choose:
      break;
  }
  return {};
}

/// Adds the parameters that replace those of the base's head, and names their modules in the config.
void add_saved(const std::map<std::string, Param>& saved, const Checkpoint& base, std::vector<AdapterTensor>& tensors,
               Json& config) {
  std::set<std::string> modules;
  for (const auto& [ours, param] : saved) {
    const std::string name = name_of_head_tensor(base, ours);
    if (name.empty()) throw Unsupported(ours, "the base has no name for it (modules_to_save)");
    const bool is_vector = param.shape.rank() == 1;
    const std::vector<std::int64_t> shape =
        is_vector ? std::vector{param.shape[0]} : std::vector{param.shape[0], param.shape[1]};
    tensors.push_back({"base_model.model." + name, shape, elements_of(param)});
    // A head of several layers is one module next to the stack: classifier of classifier.dense.
    const std::string_view stack = base.table->prefixes.front();
    const bool is_in_stack = !stack.empty() && name.starts_with(stack);
    modules.insert(name.substr(0, is_in_stack ? name.rfind('.') : name.find('.')));
  }
  config["modules_to_save"] = modules;
  if (base.model->config().task) config["task_type"] = task_with_head(*base.model->config().task);
}

/// The name of a place's matrices in the file: PEFT wraps the parameters of a module in their order.
std::string name_in_file(const AdapterPlace& place, const std::vector<const AdapterPlace*>& changed) {
  std::string name = "base_model.model." + (place.is_parameter ? module_of_parameter(place) : place.module);
  const auto number = [](const AdapterPlace& parameter) {
    const std::string_view last = std::string_view(parameter.module).substr(parameter.module.rfind('.') + 1);
    return std::find(kExpertParameters.begin(), kExpertParameters.end(), last);
  };
  for (const AdapterPlace* other : changed) {
    const bool is_beside =
        place.is_parameter && other->is_parameter && module_of_parameter(*other) == module_of_parameter(place);
    if (is_beside && number(*other) > number(place)) name += kBaseLayer;
  }
  return name;
}

/// Files have the keys and the values of latent attention by head, keys transposed.
void refuse_by_head(const Adapter& adapter, const Checkpoint& base, const std::string& path) {
  if (!gguf_architecture_of(base, path).splits_kv_b) return;
  for (const AdapterPlace& place : usual_places(base, AdapterFormat::peft)) {
    const std::string& ours = place.ours.front();
    if (!ours.ends_with(".wkv_b.weight") || adapter.find(ours) == nullptr) continue;
    throw Unsupported(path, "{}: GGUF has it by head (attn_k_b, attn_v_b), which no adapter changes: merge it",
                      place.module);
  }
}

}  // namespace

std::vector<AdapterTensor> peft_tensors(const Adapter& adapter, std::span<const AdapterPlace> places,
                                        const LowRankValues& values) {
  std::vector<AdapterTensor> tensors;
  const std::vector<const AdapterPlace*> changed = places_of(adapter, places);
  for (const AdapterPlace* place : changed) {
    const std::vector<const LowRank*> maps = maps_at(adapter, *place);
    const std::string name = name_in_file(*place, changed);
    const std::int64_t rank = maps.front()->rank(), rows = n_rows(*place);
    if (place->is_parameter) {
      const std::int64_t all = rank * place->n_experts, in = place->is_swapped ? rows : place->cols;
      auto [a, b] = of_all_experts(*place, maps, values);
      tensors.push_back({name + ".lora_A.weight", {all, in}, std::move(a)});
      tensors.push_back({name + ".lora_B.weight", {place->is_swapped ? place->cols : rows, all}, std::move(b)});
      continue;
    }
    tensors.push_back({name + ".lora_A.weight", {rank, place->cols}, stored_columns(*place, values(*maps.front()->a))});
    tensors.push_back({name + ".lora_B.weight", {rows, rank}, stored_rows(*place, maps, b_of, values)});
    if (!maps.front()->magnitudes) continue;
    tensors.push_back({name + ".lora_magnitude_vector", {rows}, stored_rows(*place, maps, magnitudes_of, values)});
  }
  return tensors;
}

void write_peft_adapter(const std::string& folder, const Adapter& adapter, const Checkpoint& base,
                        const PeftOptions& options) {
  const std::vector<AdapterPlace> all = peft_places(adapter, base);
  const std::filesystem::path to = folder;
  std::vector<AdapterTensor> tensors = peft_tensors(adapter, all, elements_of);
  Json config = peft_config(adapter, places_of(adapter, all), all, base, options);
  if (options.saved != nullptr && !options.saved->empty()) add_saved(*options.saved, base, tensors, config);
  write_tensors((to / "adapter_model.safetensors").string(), tensors);
  write_file((to / "adapter_config.json").string(), config.dump(2) + "\n");
}

void write_gguf_adapter(const std::string& path, const Adapter& adapter, const Checkpoint& base) {
  const std::vector<AdapterPlace> all = usual_places(base, AdapterFormat::gguf);
  std::vector<const LowRank*> every;
  for (const auto& [name, low] : adapter.maps) {
    if (low.magnitudes) throw Unsupported(path, "GGUF has no adapters with magnitudes (DoRA): merge it");
    every.push_back(&low);
  }
  const auto alpha_of = [](const LowRank& low) { return low.scale * static_cast<double>(low.rank()); };
  const auto alpha = static_cast<float>(usual(every, alpha_of));
  GgufKeys keys;
  keys.add("general.architecture", gguf_architecture_of(base, path).name);
  keys.add("general.type", "adapter");
  keys.add("adapter.type", "lora");
  keys.add("adapter.lora.alpha", alpha);

  GgufWriter writer(path);
  std::vector<std::vector<float>> values;
  const std::uint32_t type = ggml_type_of(DType::f32).number;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, std::vector<float> elements) {
    writer.add_tensor(name, shape, type, static_cast<std::int64_t>(elements.size() * sizeof(float)));
    values.push_back(std::move(elements));
  };
  refuse_by_head(adapter, base, path);
  for (const AdapterPlace* place : places_of(adapter, all)) {
    const std::vector<const LowRank*> maps = maps_at(adapter, *place);
    const std::int64_t rank = maps.front()->rank(), rows = n_rows(*place);
    std::vector<std::int64_t> a = {rank, place->cols}, b = {rows, rank};
    std::vector<float> a_values;
    for (const LowRank* low : maps) {
      if (low->rank() != rank) throw Unsupported(place->module, "its experts have different ranks");
      if (low != maps.front() && !place->stacks_experts) break;  // one A for all
      const std::vector<float> own = stored_columns(*place, elements_of(*low->a));
      a_values.insert(a_values.end(), own.begin(), own.end());
    }
    if (place->stacks_experts) {
      a.insert(a.begin(), static_cast<std::int64_t>(maps.size()));
      b.insert(b.begin(), static_cast<std::int64_t>(maps.size()));
    }
    add(place->module + ".lora_a", a, std::move(a_values));
    std::size_t map = 0;  // of stacked experts; others share the scale of the first
    const LowRankValues scaled = [&](const Param& param) {
      std::vector<float> elements = elements_of(param);
      const double factor = alpha_of(*maps[map++]) / static_cast<double>(alpha);
      if (std::abs(factor - 1) < 1e-7) return elements;  // alpha alone expresses it
      for (float& x : elements) x = static_cast<float>(static_cast<double>(x) * factor);
      return elements;
    };
    add(place->module + ".lora_b", b, stored_rows(*place, maps, b_of, scaled));
  }
  writer.begin(keys);
  for (const std::vector<float>& elements : values) writer.append(std::as_bytes(std::span(elements)));
  writer.commit();
}

void write_adapter_gradients(const std::string& path, const LoadedAdapter& adapter, const Checkpoint& base,
                             const Gradients& gradients) {
  const LowRankValues values = [&](const Param& param) {
    const std::span<float> own = gradients.of(param).values();
    return std::vector<float>(own.begin(), own.end());
  };
  const std::vector<AdapterPlace> places =
      adapter.format == AdapterFormat::peft ? adapter.places : peft_places(adapter, base);
  write_tensors(path, peft_tensors(adapter, places, values));
}

}  // namespace vitrine
