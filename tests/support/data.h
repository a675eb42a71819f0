// The paths of tests: the repository, its goldens, and data from outside the repository.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace vitrine::test {

/// The factor by which sanitizers may slow a test down.
constexpr int kSlowdown = VITRINE_SLOWDOWN;

inline std::string source_dir() { return VITRINE_SOURCE_DIR; }
inline std::string goldens() { return source_dir() + "/tests/goldens"; }

/// A path in VITRINE_DATA; empty if VITRINE_DATA is unset or the path does not exist.
std::string outside_data(const std::string& path);

}  // namespace vitrine::test
