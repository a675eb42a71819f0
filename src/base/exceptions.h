// The exceptions of vitrine: one small tree. A library never prints, exits or aborts; it throws one of these.
//
// This is what is needed to catch them; who throws them includes base/error.h.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace vitrine {

/// The text of a message with places for `Args`, checked when it is compiled. Complete in base/error.h.
template <class... Args>
class MessageFormat;

/// Base of every exception that vitrine throws. The text reads `[where] expected …, got …`, with a hint where there is
/// one.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

 protected:
  /// Names from outside may stand in a text: control characters become `?`, and the middle of an over-long text is cut.
  Error(std::string_view where, const std::string& what);
};

/// What the caller handed over is at fault: ids beyond the vocabulary, an over-long prompt, a wrong path.
class BadInput : public Error {
 public:
  template <class... Args>
  BadInput(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args);
};

/// A value of the forward is infinite or NaN: the weights, or a value written into the pass, are at fault.
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

/// Well-formed, but vitrine cannot do it (yet): refused by name rather than approximated.
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

/// The caller asked to stop (Ctrl-C); whatever was in flight is discarded.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// An invariant of our own does not hold: a defect of vitrine, not of the input.
class InternalError : public Error {
 public:
  template <class... Args>
  InternalError(std::string_view where, MessageFormat<std::type_identity_t<Args>...> format, Args&&... args);
};

}  // namespace vitrine
