// The exceptions of vitrine. The library never prints, exits or aborts; it throws one of these.
//
// Include this header to catch them, base/error.h to throw them.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace vitrine {

/// A format string for `Args`, checked at compile time. Defined in base/error.h.
template <class... Args>
class MessageFormat;

/// Base of every exception that vitrine throws. The text reads `[where] expected …, got …`, followed by a hint if there
/// is one.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

 protected:
  /// Replaces control characters by `?` and shortens a long text, because a message may contain names from files.
  Error(std::string_view where, const std::string& what);
};

/// An argument is invalid: ids beyond the vocabulary, a prompt that is too long, a wrong path.
class BadInput : public Error {
 public:
  template <class... Args>
  BadInput(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args);
};

/// A value of the forward pass is infinite or NaN, because of the weights or of a value written into the pass.
class NotFinite : public BadInput {
 public:
  using BadInput::BadInput;
};

/// A file of a model or tokenizer is broken or contradicts itself.
class BadCheckpoint : public Error {
 public:
  template <class... Args>
  BadCheckpoint(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args);
};

/// The input is well-formed but needs something that vitrine does not implement. The message names it; nothing is
/// approximated.
class Unsupported : public Error {
 public:
  template <class... Args>
  Unsupported(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args);
};

/// A limit of memory, disk or cache was reached.
class OutOfCapacity : public Error {
 public:
  template <class... Args>
  OutOfCapacity(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args);
};

/// The caller requested a stop (Ctrl-C). Work in progress is discarded.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// An invariant of vitrine does not hold: a bug in vitrine, not in the input.
class InternalError : public Error {
 public:
  template <class... Args>
  InternalError(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args);
};

}  // namespace vitrine
