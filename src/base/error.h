// Formats the messages of exceptions. Include this header where exceptions are thrown.
#pragma once

#include <fmt/core.h>

#include <string>
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

/// `[where] what` as one line.
std::string error_message(std::string_view where, const std::string& what);

template <class... Args>
Error::Error(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args)
    : Error(error_message(where, format(std::forward<Args>(args)...))) {}

}  // namespace vitrine
