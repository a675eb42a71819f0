// Texts that an answer must not contain, wherever tokens divide them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/vocabulary.h"

namespace vitrine {

/// Immutable, shared by the sequences of a request.
class BannedStrings {
 public:
  static constexpr std::size_t kMost = 64;

  /// Throws BadInput for more than kMost texts, and for an empty one.
  BannedStrings(std::vector<std::string> texts, std::shared_ptr<const constrain::Vocabulary> vocabulary);

  /// Excludes the tokens with which a text that ends in `end` would contain one: their score becomes −∞.
  void exclude(std::string_view end, std::span<float> scores) const;
  /// The bytes of a token.
  std::string_view bytes(std::int32_t id) const;
  /// How many bytes of the end of a text decide.
  std::size_t n_bytes() const { return longest_ - 1; }

 private:
  void exclude_below(std::string_view prefix, std::span<float> scores) const;

  std::vector<std::string> texts_;
  std::shared_ptr<const constrain::Vocabulary> vocabulary_;
  std::vector<std::int32_t> whole_;  // tokens that contain one
  std::size_t longest_ = 1;
};

}  // namespace vitrine
