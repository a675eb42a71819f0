#include "checkpoint/presets.h"

#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/nearest.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/wrapper.h"

namespace vitrine {

std::vector<Preset> read_presets(std::string_view json) {
  std::vector<Preset> presets;
  for (const Json& entry : parse_json(json, "presets.json")) {
    presets.push_back({entry["name"], entry["source"], entry["parameters"], entry.value("like", ""), entry["config"]});
  }
  return presets;
}

Json preset_or_config(const std::string& name_or_path) {
  std::vector<std::string> names;
  for (const Preset& preset : all_presets()) {
    if (preset.name == name_or_path) {
      Json config = preset.like.empty() ? Json::object() : preset_or_config(preset.like);
      config.update(preset.config);
      return config;
    }
    names.push_back(preset.name);
  }
  std::error_code error;
  if (!std::filesystem::exists(name_or_path, error) && !error) {
    std::string hint = did_you_mean(name_or_path, names);
    if (hint.empty()) hint = did_you_mean_file(name_or_path);
    throw BadInput(name_or_path, "expected a preset or a config.json{}", hint);
  }
  const bool is_folder = std::filesystem::is_directory(name_or_path, error);
  return read_text_config(is_folder ? name_or_path + "/config.json" : name_or_path);
}

std::int64_t size_by_rule(std::string_view rule, std::int64_t d_model) {
  if (d_model < 1 || d_model > kMaxSize) throw BadInput("d_model", "expected 1 to {}, got {}", kMaxSize, d_model);
  std::string rest(rule);
  std::erase(rest, ' ');
  bool fits = true;
  const auto take = [&](std::string_view word) {
    const bool found = rest.starts_with(word);
    if (found) rest.erase(0, word.size());
    return found;
  };
  const auto number = [&] {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    fits = fits && error == std::errc() && value >= 1 && value <= kMaxSize;
    rest.erase(0, static_cast<std::size_t>(end - rest.data()));
    return value;
  };
  const std::int64_t above = number();
  const std::int64_t below = take("/") ? number() : 1;
  take("*");
  fits = take("d") && fits;
  const bool rounds = take(",roundupto");
  const std::int64_t step = rounds ? number() : 1;
  if (!fits || !rest.empty()) {
    throw BadInput("d_ff", "expected a number, or a rule as in \"8/3 d, round up to 64\", got \"{}\"", rule);
  }
  const std::int64_t size = above * d_model;  // below 2^62
  if (!rounds && size % below != 0) {
    throw BadInput("d_ff", "\"{}\" of d_model {} is not a whole number: add \", round up to 64\"", rule, d_model);
  }
  __extension__ using Wide = __int128;
  const Wide unit = static_cast<Wide>(below) * step;
  const Wide rounded = (static_cast<Wide>(size) + unit - 1) / unit * step;
  if (rounded > kMaxSize) throw BadInput("d_ff", "\"{}\" of d_model {} exceeds {}", rule, d_model, kMaxSize);
  return static_cast<std::int64_t>(rounded);
}

void set_config_keys(Json& config, const std::vector<std::string>& assignments, const std::string& where) {
  Json values = Json::object();
  for (const std::string& text : assignments) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw BadInput("--set", "expected KEY=VALUE as in d_model=64, got \"{}\"", text);
    }
    const std::string value = text.substr(equals + 1);
    const Json parsed = Json::parse(value, nullptr, false);
    values[text.substr(0, equals)] = parsed.is_discarded() ? Json(value) : parsed;
  }
  set_config_values(config, values, where);
}

void set_config_values(Json& config, const Json& values, const std::string& where) {
  const Family family = family_of(config, where);
  const std::string d_ff = family.key_of("d_ff"), d_model = family.key_of("d_model");
  for (const auto& [key, value] : values.items()) {
    const std::string theirs = family.key_of(key);
    if (theirs != key && values.contains(theirs)) throw BadInput(where, "{} and {} are the same key", key, theirs);
    config[theirs] = value;
  }
  if (!config.contains(d_ff) || !config[d_ff].is_string()) return;
  if (!config.contains(d_model) || !config[d_model].is_number_integer()) {
    throw BadInput(where, "{} is a rule, so {} must be a number", d_ff, d_model);
  }
  config[d_ff] = size_by_rule(config[d_ff].get<std::string>(), config[d_model].get<std::int64_t>());
}

}  // namespace vitrine
