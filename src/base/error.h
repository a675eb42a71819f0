// The exceptions of vitrine: one small tree. A library never prints, exits or aborts; it throws one of these.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace vitrine {

/// Base of every exception that vitrine throws. The text reads `[where] expected …, got …`, with a hint where there is
/// one.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

 protected:
  template <class... Args>
  Error(std::string_view where, fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(one_line(fmt::format("[{}] {}", where, fmt::format(format, std::forward<Args>(args)...)))) {}

 private:
  /// Names from outside may stand in a text: control characters become `?`, and the middle of an over-long text is cut.
  static std::string one_line(std::string text);
};

/// What the caller handed over is at fault: ids beyond the vocabulary, an over-long prompt, a wrong path.
class BadInput : public Error {
 public:
  template <class... Args>
  BadInput(std::string_view where, fmt::format_string<Args...> format, Args&&... args)
      : Error(where, format, std::forward<Args>(args)...) {}
};

/// A file of a model or tokenizer is broken or contradicts itself.
class BadCheckpoint : public Error {
 public:
  template <class... Args>
  BadCheckpoint(std::string_view where, fmt::format_string<Args...> format, Args&&... args)
      : Error(where, format, std::forward<Args>(args)...) {}
};

/// Well-formed, but vitrine cannot do it (yet): refused by name rather than approximated.
class Unsupported : public Error {
 public:
  template <class... Args>
  Unsupported(std::string_view where, fmt::format_string<Args...> format, Args&&... args)
      : Error(where, format, std::forward<Args>(args)...) {}
};

/// A limit of memory, disk or cache was reached.
class OutOfCapacity : public Error {
 public:
  template <class... Args>
  OutOfCapacity(std::string_view where, fmt::format_string<Args...> format, Args&&... args)
      : Error(where, format, std::forward<Args>(args)...) {}
};

/// The caller asked to stop (Ctrl-C); whatever was in flight is discarded.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// An invariant of our own does not hold: a defect of vitrine, not of the input.
class InternalError : public Error {
 public:
  template <class... Args>
  InternalError(std::string_view where, fmt::format_string<Args...> format, Args&&... args)
      : Error(where, format, std::forward<Args>(args)...) {}
};

}  // namespace vitrine
