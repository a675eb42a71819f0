#include "checkpoint/new_head.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/names.h"
#include "tensor/zero_memory.h"

namespace vitrine {

namespace fs = std::filesystem;

std::string source_of_head(const Family& family, const std::string& name) {
  if (!name.starts_with("head.")) return name;
  if (name.starts_with("head.out") || !family.task) return "";
  const std::size_t dot = name.rfind('.');
  const std::string ours = name.substr(0, dot), ending = name.substr(dot);
  for (const TensorRule& rule : family.task->tensors) {
    if (rule.ours.front() != ours) continue;
    const std::vector<TensorRule>& others = family_named(family.model_type).tensors;
    const auto same = std::find_if(others.begin(), others.end(),
                                   [&](const TensorRule& other) { return other.stored == rule.stored; });
    if (same != others.end()) return std::string(same->ours.front()) + ending;
  }
  return "";
}

namespace {

/// The name in a file of the class with the head: of a stack that the base may have under another prefix, or of the
/// head itself.
std::string stored_name(const Family& family, const std::string& base_prefix, const Param& param) {
  const std::string prefix(family.prefixes.front());
  if (!param.name.starts_with("head.")) {
    const std::string& own = param.stored_name;
    return own.starts_with(base_prefix) ? prefix + own.substr(base_prefix.size()) : own;
  }
  const std::size_t dot = param.name.rfind('.');
  for (const TensorRule& rule : family.task->tensors) {
    if (rule.ours.front() == std::string_view(param.name).substr(0, dot)) {
      return with_prefix(rule.stored, prefix) + param.name.substr(dot);
    }
  }
  return param.name;
}

}  // namespace

Checkpoint with_new_head(const Checkpoint& base, const Json& config, const std::string& where, const FillParam& fill) {
  const Family family = family_of(config, where);
  const ModelConfig model = read_model_config(family, config, where);
  std::map<std::string, const Param*> known;
  for_each_param(base.model->config(), base.model->params(),
                 [&](const Param& param, const std::string& name, const Shape&) { known[name] = &param; });
  std::vector<std::shared_ptr<const void>> storage = {base.model};
  ModelParams params = empty_params(model);
  std::uint64_t i = 0;
  for_each_param(model, params, [&](Param& param, const std::string& name, const Shape& shape) {
    const std::uint64_t number = i++;
    const auto found = known.find(source_of_head(family, name));
    if (found != known.end() && found->second->present() && found->second->shape == shape) {
      param = *found->second;
      param.name = name;
      param.stored_name = stored_name(family, base.prefix, param);
      return;
    }
    if (!name.starts_with("head.")) throw Unsupported(where, "the model has no {} for a head of labels", name);
    const auto values = std::make_shared<const ZeroMemory>(shape.count() * static_cast<std::int64_t>(sizeof(float)),
                                                           "the head for labels");
    fill(model, name, shape, number, {values->floats(), static_cast<std::size_t>(shape.count())});
    const std::int64_t cols = shape[shape.rank() - 1];
    param = {name, name, shape, view_of(values->floats(), shape.count() / cols, cols, cols)};
    param.stored_name = stored_name(family, base.prefix, param);
    storage.push_back(values);
  });
  Checkpoint result = base;
  result.model = std::make_shared<const Model>(model, std::move(params), std::move(storage));
  result.table = std::make_shared<const Family>(family);
  result.prefix = family.prefixes.front();
  result.config = config.dump(2) + "\n";
  return result;
}

std::optional<Json> config_of_head(const std::string& adapter) {
  const fs::path folder = adapter, own = folder / "adapter_config.json", config = folder / "config.json";
  std::error_code error;
  if (!fs::exists(own, error) || !fs::exists(config, error)) return {};
  const Json saved = read_json_file(own.string()).value("modules_to_save", Json());
  if (!saved.is_array() || saved.empty()) return {};
  Json json = read_json_file(config.string());
  return family_of(json, config.string()).task ? std::optional(std::move(json)) : std::nullopt;
}

}  // namespace vitrine
