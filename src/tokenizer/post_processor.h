// The post-processors of tokenizer.json, which add ids before and after those of a single text.
//
// Source: Hugging Face's `tokenizers`, src/processors. ByteLevel only trims offsets, which vitrine does not compute.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace vitrine {

struct PostProcessor {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};

/// Throws BadCheckpoint if `json` is malformed, Unsupported for an unknown type.
PostProcessor parse_post_processor(const Json& json, std::string_view where);

}  // namespace vitrine
