// The parts of transformers' tokenizer_config.json that several formats read.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "tokenizer/read/json_fields.h"

namespace vitrine {

/// The text of a special token ("unk_token"), which is a string or an object with a "content"; `fallback` if the key is
/// missing.
std::string special_token_name(const JsonFields& config, std::string_view key, std::string_view fallback);

/// "added_tokens_decoder", which maps ids to tokens, as the list that a tokenizer.json has as its "added_tokens".
Json added_tokens_of(const JsonFields& config);

}  // namespace vitrine
