// How a template writes the arguments of a call, found by writing some.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "answer/format.h"

namespace vitrine::answer {

/// What a template writes from the end of the last part of a call before its arguments on, to the end of the answer;
/// none if it refuses them.
using WriteArguments = std::function<std::optional<std::string>(const OrderedJson& arguments)>;

/// None if the arguments are not written in a way that can be read back.
std::optional<ArgumentsFormat> learn_arguments(const WriteArguments& write);

}  // namespace vitrine::answer
