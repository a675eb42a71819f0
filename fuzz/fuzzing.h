// What every fuzz target shares: which exceptions are an answer, and where an input is cut into parts.
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

/// Throws InternalError, which is a finding, where something that must be true is not.
inline void expect(bool truth, std::string_view what) {
  if (!truth) throw InternalError("fuzz", "expected that {}", what);
}

/// Runs `body`. Errors of ours are an answer to a broken input; all that is thrown besides, and InternalError, leaves
/// the target, which the fuzzer takes for a crash. Returns what a target returns.
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

/// Cuts at the last place where `mark` stands; without one everything is in front and nothing behind.
inline std::pair<std::string_view, std::string_view> cut(std::string_view input, std::string_view mark) {
  const std::size_t at = input.rfind(mark);
  if (at == std::string_view::npos) return {input, {}};
  return {input.substr(0, at), input.substr(at + mark.size())};
}

}  // namespace vitrine::fuzz
