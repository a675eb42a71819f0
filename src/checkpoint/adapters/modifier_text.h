// Adapters and control vectors as options name them: --adapter [NAME=]PATH[=SCALE] and
// --control [NAME=]PATH[=SCALE][:FIRST-LAST].
#pragma once

#include <string>

#include "pass/modifiers.h"

namespace vitrine {

struct ModifierText {
  std::string name{};  ///< "": for all requests.
  std::string path{};
  double scale = 1;
  LayerRange layers{};
};

/// A text that names a file or folder is its path; a number after the last = is a scale; a word of letters, digits and
/// . _ - before the first = is a name. Throws BadInput for a path that is empty, a scale that is not finite, and layers
/// whose first is after the last.
ModifierText parse_adapter_text(const std::string& text);
ModifierText parse_control_text(const std::string& text);

/// Whether a text can be a name: 1 to 128 letters, digits, '.', '_' and '-'.
bool is_modifier_name(std::string_view text);

}  // namespace vitrine
