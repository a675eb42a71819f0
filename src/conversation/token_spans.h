// Where the tokens of a rendered conversation are in its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// The offset, in bytes of `text`, at which each token ends. Throws BadInput if the tokens do not spell the text: the
/// tokenizer changes it before it encodes it.
std::vector<std::size_t> token_ends(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                    std::string_view text);

/// Sets `learned` for the tokens of the bytes [begin, end) of `text`, as transformers does: from the token of the first
/// character to the first token of the last character.
void learn_span(std::string_view text, std::size_t begin, std::size_t end, const std::vector<std::size_t>& ends,
                std::vector<std::uint8_t>& learned);

/// The special token that a template writes after an answer, found by rendering one; absent if there is none.
std::optional<std::int32_t> end_of_answer(const ChatTemplate& chat_template,
                                          const std::vector<std::pair<std::string, std::string>>& special_tokens,
                                          const Tokenizer& tokenizer);

}  // namespace vitrine
