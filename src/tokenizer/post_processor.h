// What is put around the ids of a text: the post-processors of tokenizer.json, for a single text.
//
// Source: Hugging Face's `tokenizers`, src/processors. ByteLevel only trims offsets, which are not computed here.
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

/// Throws BadCheckpoint where it is malformed, Unsupported for a type that is not known.
PostProcessor parse_post_processor(const Json& json, std::string_view where);

}  // namespace vitrine
