// Shared by all fuzz targets: which exceptions are valid answers, and how an input is split into parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace vitrine::fuzz {

/// The bytes of an input.
inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return size == 0 ? std::string_view() : std::string_view(reinterpret_cast<const char*>(data), size);
}

/// Throws InternalError, which is a finding, if `truth` is false.
inline void expect(bool truth, std::string_view what) {
  if (!truth) throw InternalError("fuzz", "expected that {}", what);
}

/// Runs `body`. A vitrine::Error is a valid answer to a broken input. InternalError and all other exceptions leave the
/// target, and the fuzzer reports a crash. Returns the result of a target.
template <class Body>
int answer(Body&& body) {
  try {
    body();
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
  return 0;
}

/// Splits at the last `mark` into the parts before and after it. Without a mark everything is before it.
inline std::pair<std::string_view, std::string_view> cut(std::string_view input, std::string_view mark) {
  const std::size_t at = input.rfind(mark);
  if (at == std::string_view::npos) return {input, {}};
  return {input.substr(0, at), input.substr(at + mark.size())};
}

}  // namespace vitrine::fuzz
