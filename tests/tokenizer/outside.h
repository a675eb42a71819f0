// Access to data outside the repository: texts and the ids that the reference gives.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/data.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

using Ids = std::vector<std::int32_t>;

/// The size of a text for which a quadratic algorithm needs at least minutes; smaller with sanitizers.
constexpr std::size_t kLongText = 1'000'000 / test::kSlowdown;

/// Repeats `unit` up to that size.
inline std::string long_text(const std::string& unit) {
  std::string text;
  while (text.size() < kLongText) text += unit;
  return text;
}

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The path of a file under VITRINE_DATA; skips the test if it is missing.
#define OUTSIDE_DATA_OR_SKIP(variable, path)             \
  const std::string variable = test::outside_data(path); \
  if ((variable).empty()) GTEST_SKIP() << "no " << (path) << " under VITRINE_DATA"

/// Checks the cases for the tokenizer `name` in the file `vectors` (tokenizers/vectors.json).
inline void expect_vectors(const Tokenizer& tokenizer, const std::string& vectors, const std::string& name) {
  const nlohmann::json cases = nlohmann::json::parse(read_all(vectors)).at(name);
  ASSERT_FALSE(cases.empty());
  for (const auto& c : cases) {
    const auto text = c.at("text").get<std::string>();
    EXPECT_EQ(tokenizer.encode(text, SpecialTokens::apply), c.at("ids").get<Ids>()) << text;
  }
}

}  // namespace vitrine
