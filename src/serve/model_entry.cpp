#include "serve/model_entry.h"

namespace vitrine {

std::string_view name_of(ModelState state) {
  constexpr std::string_view kNames[] = {"unloaded", "loading", "loaded", "failed"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view ModelEntry::adapter_in(std::string_view given) const {
  const auto after = [&](const std::string& own) {
    return given.starts_with(own + ":") ? given.substr(own.size() + 1) : std::string_view();
  };
  if (has_name(given)) return "";
  if (const std::string_view adapter = after(name); !adapter.empty()) return adapter;
  for (const std::string& alias : aliases) {
    if (const std::string_view adapter = after(alias); !adapter.empty()) return adapter;
  }
  return "";
}

}  // namespace vitrine
