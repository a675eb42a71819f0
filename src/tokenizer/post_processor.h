// The post-processors of tokenizer.json, which add ids before and after those of a text, and between those of a pair of
// texts.
//
// Source: Hugging Face's `tokenizers`, src/processors. ByteLevel only trims offsets, which vitrine does not compute.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
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
};

/// Throws BadCheckpoint if `json` is malformed, Unsupported for an unknown type.
PostProcessor parse_post_processor(const Json& json, std::string_view where);

/// Puts two texts into the template of a pair, without its ids unless `adds`. With `most`, at most so many ids: see
/// Tokenizer::encode_pair(). Throws BadInput if `most` leaves no room for a token of each text.
PairEncoding join_pair(const std::vector<PairPart>& parts, std::vector<std::int32_t> first,
                       std::vector<std::int32_t> second, bool adds, std::optional<std::int64_t> most);

}  // namespace vitrine
