#include "train/config_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace vitrine {

ConfigSection::ConfigSection(const TomlFile& file, const std::string& path, std::string name)
    : file_(file), path_(path), name_(std::move(name)) {
  const auto it = file.values.find(name_);
  if (it == file.values.end()) return;
  if (!it->is_object()) {
    throw BadInput(file.place_of(name_, path), "expected a table [{}], got {}", name_, it->dump());
  }
  values_ = &*it;
}

const Json* ConfigSection::find(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  if (values_ == nullptr) return nullptr;
  const auto it = values_->find(key);
  return it == values_->end() ? nullptr : &*it;
}

void ConfigSection::fail(const std::string& key, const std::string& message) const {
  throw BadInput(file_.place_of(name_ + "." + key, path_), "{}.{}: {}", name_, key, message);
}

bool ConfigSection::has(const std::string& key) { return find(key) != nullptr; }

void ConfigSection::require(const std::string& key) {
  if (!has(key)) fail(key, "the key is missing");
}

std::int64_t ConfigSection::integer(const std::string& key, std::int64_t otherwise, std::int64_t lowest,
                                    std::int64_t highest) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  const bool fits = value->is_number_integer() && *value >= lowest && *value <= highest;
  if (fits) return value->get<std::int64_t>();
  const bool open = highest == std::numeric_limits<std::int64_t>::max();
  fail(key, fmt::format("expected a whole number from {}{}, got {}", lowest,
                        open ? "" : " to " + std::to_string(highest), value->dump()));
}

std::int64_t ConfigSection::integer(const std::string& key, std::int64_t lowest) {
  require(key);
  return integer(key, lowest, lowest);
}

double ConfigSection::number(const std::string& key, double otherwise, double lowest, double highest) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_number() && value->get<double>() >= lowest && value->get<double>() <= highest) {
    return value->get<double>();
  }
  fail(key, fmt::format("expected a number from {} to {}, got {}", lowest, highest, value->dump()));
}

bool ConfigSection::flag(const std::string& key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(key, "expected true or false, got " + value->dump());
  return value->get<bool>();
}

std::string ConfigSection::text(const std::string& key, const std::string& otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) fail(key, "expected text in quotes, got " + value->dump());
  return value->get<std::string>();
}

std::string ConfigSection::text(const std::string& key) {
  require(key);
  const std::string value = text(key, "");
  if (value.empty()) fail(key, "expected a non-empty text, got \"\"");
  return value;
}

std::vector<std::string> ConfigSection::texts(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const bool fits = value->is_array() &&
                    std::all_of(value->begin(), value->end(), [](const Json& element) { return element.is_string(); });
  if (!fits) fail(key, "expected a list of texts, got " + value->dump());
  return value->get<std::vector<std::string>>();
}

std::vector<std::int64_t> ConfigSection::integers(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const bool fits = value->is_array() && std::all_of(value->begin(), value->end(), [](const Json& element) {
                      return element.is_number_integer() && element >= 0;
                    });
  if (!fits) fail(key, "expected a list of whole numbers, got " + value->dump());
  return value->get<std::vector<std::int64_t>>();
}

std::vector<double> ConfigSection::numbers(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const bool fits = value->is_array() && std::all_of(value->begin(), value->end(), [](const Json& element) {
                      return element.is_number() && element >= 0;
                    });
  if (!fits) fail(key, "expected a list of numbers, got " + value->dump());
  return value->get<std::vector<double>>();
}

bool ConfigSection::is_list(const std::string& key) {
  const Json* value = find(key);
  return value != nullptr && value->is_array();
}

bool ConfigSection::is_table(const std::string& key) {
  const Json* value = find(key);
  return value != nullptr && value->is_object();
}

const Json* ConfigSection::table(const std::string& key) {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) fail(key, "expected a table, got " + value->dump());
  return value;
}

std::size_t ConfigSection::index_of(const std::string& key, const std::vector<std::string>& names) {
  const std::string name = text(key, names.front());
  const auto it = std::find(names.begin(), names.end(), name);
  if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
  fail(key, fmt::format("expected {}, got \"{}\"{}", fmt::join(names, ", "), name, did_you_mean(name, names)));
}

void ConfigSection::refuse(const std::string& key, const std::string& reason) {
  if (has(key)) fail(key, reason);
}

void ConfigSection::finish() const {
  if (values_ == nullptr) return;
  for (const auto& [key, value] : values_->items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    fail(key, "there is no such key" + did_you_mean(key, known_));
  }
}

}  // namespace vitrine
