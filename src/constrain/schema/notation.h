// How lists and objects are written where that is not JSON, as chat templates write the arguments of calls.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "constrain/grammar.h"

namespace vitrine::constrain {

/// Texts around the keys and values of a list or an object.
struct ContainerNotation {
  /// An element: an item, or, with a key, a member.
  using Element = std::function<Expr(std::optional<Expr> key, Expr value)>;
  Element of_text{};                     ///< Around a text, which is written as it is. Null: texts are JSON strings.
  Element of_other{};                    ///< Around any other value.
  std::vector<std::string> text_ends{};  ///< What ends a text: no text has any of them.
  std::string key_end{};                 ///< Ends a key; "": only keys that a schema names can be written.
  Expr open = 0, separator = 0, close = 0;
  Expr empty = 0;  ///< What stands for `open` and elements if there are none.
};

/// How arguments are written. Lists and objects in them are JSON, or both have a notation.
struct Notation {
  ContainerNotation members{};
  std::optional<ContainerNotation> list{}, object{};
};

}  // namespace vitrine::constrain
