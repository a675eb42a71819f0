#include "pass/modifiers.h"

#include <algorithm>

namespace vitrine {

bool operator==(const Modifiers& a, const Modifiers& b) {
  return std::ranges::equal(a.adapters, b.adapters) && std::ranges::equal(a.controls, b.controls) &&
         std::ranges::equal(a.dictionaries, b.dictionaries);
}

std::vector<ModifierKey> keys_of(const Modifiers& modifiers) {
  std::vector<ModifierKey> keys;
  for (const auto& [adapter, scale] : modifiers.adapters) keys.push_back({adapter->identity, scale, {}});
  for (const auto& [control, scale, layers] : modifiers.controls) keys.push_back({control->identity, scale, layers});
  for (const auto& [dictionary, use, skipped] : modifiers.dictionaries) {
    if (use != DictionaryUse::replace) continue;
    keys.push_back({dictionary->identity, 1, {}});
    keys.push_back({skipped != nullptr ? skipped->identity : 0, 1, {}});
  }
  return keys;
}

}  // namespace vitrine
