#include "checkpoint/hugging_face/module_list.h"

#include <algorithm>

namespace vitrine {
namespace {

bool matches_beginning(const Regex& pattern, std::string_view text) {
  bool found = false;
  pattern.for_each_match(text, [&](Regex::Match match) { found = found || match.begin == 0; });
  return found;
}

}  // namespace

// Source: huggingface/transformers, quantizers/quantizers_utils.py, should_convert_module; vllm-project/
// compressed-tensors, utils/match.py, is_match.
ModuleList::ModuleList(const std::vector<std::string>& entries, ModuleMatch match, std::string_view where)
    : match_(match) {
  constexpr std::string_view kPattern = "re:";
  for (const std::string& entry : entries) {
    if (match == ModuleMatch::whole && entry.starts_with(kPattern)) {
      const std::string_view pattern = std::string_view(entry).substr(kPattern.size());
      patterns_.push_back(std::make_shared<const Regex>(pattern, RegexSyntax::rust, where));
    } else if (!entry.empty()) {
      names_.push_back(entry);
    }
  }
}

bool ModuleList::contains(std::string_view module) const {
  const auto is_named = [&](const std::string& name) {
    if (match_ == ModuleMatch::whole) return name == module || name == "Linear";
    return module.starts_with(name) || module.ends_with(name);
  };
  return std::any_of(names_.begin(), names_.end(), is_named) ||
         std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const auto& pattern) { return matches_beginning(*pattern, module); });
}

}  // namespace vitrine
