// The post-processors of tokenizer.json, which add ids before and after those of a text, and between those of a pair of
// texts.
//
// Source: Hugging Face's `tokenizers`, src/processors. ByteLevel adds none, but takes the spaces of tokens out of their
// places.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// A part of the template of a pair: one of the two texts, or added ids.
struct PairPart {
  enum class Kind { first, second, added };
  Kind kind = Kind::added;
  std::int32_t type = 0;  ///< Of each token of the part.
  std::vector<std::int32_t> ids = {};
};

struct PostProcessor {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
  std::optional<std::vector<PairPart>> pair = std::nullopt;  ///< Has each text once.
  /// For each processor that takes the spaces at the ends of tokens out of their places: whether the tokenizer has put
  /// a space before the text.
  std::vector<bool> trims = {};
};

/// Throws BadCheckpoint if `json` is malformed, Unsupported for an unknown type.
PostProcessor parse_post_processor(const Json& json, std::string_view where);

/// What is left of `a` and `b` ids of two texts that must have at most `most` together: first the longer text loses its
/// last ones, then both, to one half. Source: the tokenizers library, truncate_encodings, LongestFirst.
std::pair<std::size_t, std::size_t> longest_first(std::size_t a, std::size_t b, std::size_t most);

/// Puts two texts into the template of a pair, without its ids unless `adds`. With `most`, at most so many ids: see
/// Tokenizer::encode_pair(). Throws BadInput if `most` leaves no room for a token of each text.
PairEncoding join_pair(const std::vector<PairPart>& parts, std::vector<std::int32_t> first,
                       std::vector<std::int32_t> second, bool adds, std::optional<std::int64_t> most);

}  // namespace vitrine
