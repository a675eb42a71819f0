#include "serve/modifier_fields.h"

#include <algorithm>
#include <limits>

#include "base/nearest.h"
#include "inspect/probe_values.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxChosen = 256;
constexpr double kMaxScale = std::numeric_limits<float>::max();

ModifierList& begin_list(const ServedModel& model, ChosenModifiers& modifiers) {
  if (!modifiers.list) modifiers.list = model.modifiers != nullptr ? model.modifiers->of_all : ModifierList{};
  return *modifiers.list;
}

/// Calls choose(fields of an entry, its name) for each entry of a list.
template <class Choose>
bool for_each_entry(RequestFields& fields, std::string_view field, Choose&& choose) {
  const Json* const list = fields.find(field);
  if (list == nullptr) return false;
  const std::string where = fields.name_of(field);
  if (!list->is_array()) throw wrong_type(where, "a list of objects", *list);
  if (list->size() > kMaxChosen) {
    throw RequestError(kInvalid, where, "expected at most {}, got {}", kMaxChosen, list->size());
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    RequestFields entry = fields.of((*list)[i], fmt::format("{}[{}]", field, i));
    const std::string name = entry.needed_text("name");
    choose(entry, name);
    entry.finish();
  }
  return true;
}

[[noreturn]] void refuse_name(const RequestFields& entry, const char* what, const std::string& name,
                              const std::vector<std::string>& known) {
  throw RequestError(kInvalid, entry.name_of("name"), "the server has no {} \"{}\"{}", what, name,
                     did_you_mean(name, known));
}

LayerRange read_layers(RequestFields& entry, const LayerRange& otherwise) {
  const auto layers = entry.get<std::vector<int>>("layers", "a list of the first and the last layer");
  if (!layers) return otherwise;
  if (layers->size() != 2 || layers->front() < 0 || layers->front() > layers->back()) {
    throw RequestError(kInvalid, entry.name_of("layers"), "expected [FIRST, LAST] with 0 <= FIRST <= LAST");
  }
  return {layers->front(), layers->back()};
}

}  // namespace

ChosenModifiers ChosenModel::modifiers(const ServedModel& model) const {
  ChosenModifiers chosen;
  if (!adapter) return chosen;
  begin_list(model, chosen).adapters.push_back(adapter->applied);
  chosen.model = adapter->model;
  return chosen;
}

std::optional<ChosenModel> find_model(const ServedModel& model, std::string_view name) {
  if (std::ranges::count(model.names, name) > 0) return ChosenModel{std::string(name)};
  if (model.modifiers == nullptr) return std::nullopt;
  for (const std::string& base : model.names) {
    if (!name.starts_with(base + ":")) continue;
    if (auto adapter = model.modifiers->named.adapter(name.substr(base.size() + 1))) {
      return ChosenModel{std::string(name), std::move(adapter)};
    }
  }
  return std::nullopt;
}

std::vector<std::string> model_names(const ServedModel& model) {
  std::vector<std::string> names = model.names;
  if (model.modifiers == nullptr) return names;
  for (const std::string& adapter : model.modifiers->named.adapter_names()) {
    names.push_back(model.names.front() + ":" + adapter);
  }
  return names;
}

ChosenModel read_model(const ServedModel& model, RequestFields& fields) {
  const auto name = fields.text("model");
  if (!name || name->empty()) return {model.names.front()};
  if (auto chosen = find_model(model, *name)) return std::move(*chosen);
  throw RequestError(kUnknownModel, "model", "the model \"{}\" does not exist{}", *name,
                     did_you_mean(*name, model_names(model)));
}

void read_dictionaries(const ServedModel& model, RequestFields& fields, ChosenModifiers& modifiers) {
  const auto word = fields.text("sae_use");
  const bool has_any = model.modifiers != nullptr && !model.modifiers->dictionaries.empty();
  if (!has_any || !has_features(model.modifiers->dictionaries)) {
    if (word) throw RequestError(kInvalid, fields.name_of("sae_use"), "the server has no dictionaries (--sae)");
    if (!has_any) return;
  }
  ModifierList& list = begin_list(model, modifiers);
  list.dictionaries = model.modifiers->dictionaries;
  if (!word) return;
  const auto use = dictionary_use_named(*word);
  if (!use) fields.fail("sae_use", fmt::format("expected read, error or replace, got \"{}\"", *word));
  for (AppliedDictionary& applied : list.dictionaries) {
    if (!is_probe(*applied.dictionary)) applied.use = *use;
  }
}

bool read_modifiers(const ServedModel& model, RequestFields& fields, ChosenModifiers& modifiers) {
  static const NamedModifiers kNone;
  const NamedModifiers& named = model.modifiers != nullptr ? model.modifiers->named : kNone;
  const bool has_adapters = for_each_entry(fields, "adapters", [&](RequestFields& entry, const std::string& name) {
    auto adapter = named.adapter(name);
    if (!adapter) refuse_name(entry, "adapter", name, named.adapter_names());
    AppliedAdapter& applied = adapter->applied;
    applied.scale = entry.number("scale", -kMaxScale, kMaxScale).value_or(applied.scale);
    if (adapter->model != nullptr && modifiers.model != nullptr) {
      throw RequestError(kInvalid, entry.name_of("name"),
                         "another adapter of the request has replaced the head for labels (modules_to_save)");
    }
    if (adapter->model != nullptr) modifiers.model = adapter->model;
    begin_list(model, modifiers).adapters.push_back(std::move(applied));
  });
  const bool has_controls = for_each_entry(fields, "controls", [&](RequestFields& entry, const std::string& name) {
    auto control = named.control(name);
    if (!control) refuse_name(entry, "control vector", name, named.control_names());
    control->scale = entry.number("scale", -kMaxScale, kMaxScale).value_or(control->scale);
    control->layers = read_layers(entry, control->layers);
    begin_list(model, modifiers).controls.push_back(std::move(*control));
  });
  return has_adapters || has_controls;
}

}  // namespace vitrine
