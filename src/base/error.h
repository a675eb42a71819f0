// Throwing exceptions: formats their messages.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "base/exceptions.h"

namespace vitrine {

template <class... Args>
class MessageFormat {
 public:
  template <class Text>
  consteval MessageFormat(const Text& text) : format_(text) {}  // NOLINT: implicit, like fmt::format_string

  template <class... Values>
  std::string operator()(Values&&... values) const {
    return fmt::format(format_, std::forward<Values>(values)...);
  }

 private:
  fmt::format_string<Args...> format_;
};

template <class... Args>
BadInput::BadInput(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args)
    : Error(where, format(std::forward<Args>(args)...)) {}

template <class... Args>
BadCheckpoint::BadCheckpoint(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format,
                             Args&&... args)
    : Error(where, format(std::forward<Args>(args)...)) {}

template <class... Args>
Unsupported::Unsupported(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args)
    : Error(where, format(std::forward<Args>(args)...)) {}

template <class... Args>
OutOfCapacity::OutOfCapacity(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format,
                             Args&&... args)
    : Error(where, format(std::forward<Args>(args)...)) {}

template <class... Args>
InternalError::InternalError(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format,
                             Args&&... args)
    : Error(where, format(std::forward<Args>(args)...)) {}

}  // namespace vitrine
