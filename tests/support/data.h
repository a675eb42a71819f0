// Where tests find things: the repository, its goldens, and data from outside.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace vitrine::test {

/// How many times as long everything may take under sanitizers.
constexpr int kSlowdown = VITRINE_SLOWDOWN;

inline std::string source_dir() { return VITRINE_SOURCE_DIR; }
inline std::string goldens() { return source_dir() + "/tests/goldens"; }

/// A path under VITRINE_DATA; empty where that is unset or the path is missing.
std::string outside_data(const std::string& path);

}  // namespace vitrine::test
