// The exceptions of vitrine. The library never prints, exits or aborts; it throws one of these.
//
// Include this header to catch exceptions, and base/error.h to throw them.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace vitrine {

/// A format string for `Args`, checked at compile time. Defined in base/error.h.
template <class... Args>
class MessageFormat;

/// Base of every exception that vitrine throws. The message has the form `[where] expected …, got …`, followed by a
/// hint if there is one. It is one line: because a message may contain names from files, control characters are
/// replaced by `?`, and a long message is shortened.
class Error : public std::runtime_error {
 public:
  template <class... Args>
  Error(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args);

 protected:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// An argument is invalid: ids beyond the vocabulary, a prompt that is too long, a wrong path.
class BadInput : public Error {
 public:
  using Error::Error;
};

/// A value of the forward pass is infinite or NaN, because of the weights or of a value written into the pass.
class NotFinite : public BadInput {
 public:
  using BadInput::BadInput;
};

/// A file of a model or tokenizer is malformed or inconsistent.
class BadCheckpoint : public Error {
 public:
  using Error::Error;
};

/// The input is well-formed but needs a feature that vitrine does not implement. The message names the feature; nothing
/// is approximated.
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// A limit of memory, disk or cache was reached.
class OutOfCapacity : public Error {
 public:
  using Error::Error;
};

/// The caller requested a stop (Ctrl-C). Work in progress is discarded.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// An invariant of vitrine does not hold: a bug in vitrine, not in the input.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace vitrine
