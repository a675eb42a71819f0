// Cases from outside data: texts and the ids that the reference gives.
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

/// Bytes of a text that would take a quadratic algorithm minutes at least; fewer where sanitizers slow everything.
constexpr std::size_t kLongText = 1'000'000 / test::kSlowdown;

/// unit, over and over.
inline std::string long_text(const std::string& unit) {
  std::string text;
  while (text.size() < kLongText) text += unit;
  return text;
}

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A file under VITRINE_DATA; the test that asks is skipped where it is missing.
#define OUTSIDE_DATA_OR_SKIP(variable, path)             \
  const std::string variable = test::outside_data(path); \
  if ((variable).empty()) GTEST_SKIP() << "no " << (path) << " under VITRINE_DATA"

/// tokenizers/vectors.json: text and ids by name of a tokenizer.
inline void expect_vectors(const Tokenizer& tokenizer, const std::string& vectors, const std::string& name) {
  const nlohmann::json cases = nlohmann::json::parse(read_all(vectors)).at(name);
  ASSERT_FALSE(cases.empty());
  for (const auto& c : cases) {
    const auto text = c.at("text").get<std::string>();
    EXPECT_EQ(tokenizer.encode(text, SpecialTokens::apply), c.at("ids").get<Ids>()) << text;
  }
}

}  // namespace vitrine
