// The modules that a list of a config names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace vitrine {

/// How the entries of a list are compared with the name of a module.
enum class ModuleMatch : std::uint8_t {
  ends,   ///< transformers: the name begins or ends with the entry.
  whole,  ///< compressed-tensors: the name, a regex that matches from its beginning (`re:…`), or the class `Linear`.
};

class ModuleList {
 public:
  ModuleList() = default;
  /// `where` names the list in errors. Throws as Regex does.
  ModuleList(const std::vector<std::string>& entries, ModuleMatch match, std::string_view where);

  /// Whether the list names a linear layer.
  bool contains(std::string_view module) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<const Regex>> patterns_;
  ModuleMatch match_ = ModuleMatch::whole;
};

}  // namespace vitrine
