// The formula and the arithmetic of the value at a site, from the op that made it.
#pragma once

#include <cstdint>
#include <string>

#include "spell/op_log.h"

namespace vitrine {

/// `blocks.2.attn.hook_q[11,3,5]`
std::string name_of_element(const std::string& name, const Shape& shape, std::int64_t flat);

struct SectionWords {
  std::string formula;  ///< In the notation of spell/formula.h; may be empty.
  std::string file;     ///< The source files of the ops.
};

/// Of the value at a site.
SectionWords words_of(const ForwardFacts& facts, const std::string& site);
/// The arithmetic of element `flat` of the value at a site. Empty if the value equals another one, or if the arithmetic
/// is too long.
Cell spell_forward(const ForwardFacts& facts, const std::string& site, std::int64_t flat);

}  // namespace vitrine
