#include "features/yaml_fields.h"

#include <yaml.h>

#include <memory>

#include "base/error.h"

namespace vitrine {
namespace {

/// The events of libyaml, one after another.
class YamlEvents {
 public:
  YamlEvents(std::string_view text, const std::string& where) : where_(where) {
    if (yaml_parser_initialize(&parser_) == 0) throw OutOfCapacity(where, "libyaml has no memory");
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  YamlEvents(const YamlEvents&) = delete;
  YamlEvents& operator=(const YamlEvents&) = delete;
  ~YamlEvents() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }

  yaml_event_type_t next() {
    yaml_event_delete(&event_);
    if (yaml_parser_parse(&parser_, &event_) == 0) {
      event_ = {};
      throw BadCheckpoint(where_, "line {}: {}", parser_.problem_mark.line + 1,
                          parser_.problem != nullptr ? parser_.problem : "no valid YAML");
    }
    return event_.type;
  }
  std::string scalar() const {
    return {reinterpret_cast<const char*>(event_.data.scalar.value), event_.data.scalar.length};
  }
  /// Skips the value that has begun.
  void skip() {
    int depth = is_open(event_.type) ? 1 : 0;
    while (depth > 0) {
      const yaml_event_type_t type = next();
      depth += is_open(type) ? 1 : type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT ? -1 : 0;
    }
  }

 private:
  static bool is_open(yaml_event_type_t type) {
    return type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT;
  }

  const std::string& where_;
  yaml_parser_t parser_{};
  yaml_event_t event_{};
};

}  // namespace

std::map<std::string, std::string> yaml_fields(std::string_view text, const std::string& where) {
  YamlEvents events(text, where);
  yaml_event_type_t type = events.next();
  while (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT) type = events.next();
  if (type != YAML_MAPPING_START_EVENT) throw BadCheckpoint(where, "expected keys and values");
  std::map<std::string, std::string> fields;
  for (type = events.next(); type != YAML_MAPPING_END_EVENT; type = events.next()) {
    if (type != YAML_SCALAR_EVENT) throw BadCheckpoint(where, "expected a text as a key");
    const std::string key = events.scalar();
    std::string value;
    if (events.next() == YAML_SCALAR_EVENT) {
      value = events.scalar();
    } else {
      events.skip();
    }
    if (!fields.emplace(key, std::move(value)).second) throw BadCheckpoint(where, "{} appears twice", key);
  }
  return fields;
}

}  // namespace vitrine
