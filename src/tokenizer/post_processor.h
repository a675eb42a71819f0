// The post-processors of tokenizer.json, which add ids before and after those of a text, and between those of a pair of
// texts.
//
// Source: Hugging Face's `tokenizers`, src/processors. ByteLevel adds none, but takes the spaces of tokens out of their
// places.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"

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

}  // namespace vitrine
