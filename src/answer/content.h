// The content of an answer, without what a template puts around it.
#pragma once

#include <string>
#include <string_view>

#include "answer/format.h"

namespace vitrine::answer {

/// Where a content is: before calls, or without any, and after calls.
enum class ContentPlace : std::uint8_t { first, after_calls };

/// The content that `text` is, without white space at its ends.
std::string content_of(const AnswerFormat& format, ContentPlace place, std::string_view text);

/// Where the content begins in `text`, of which more may come; none: that is not known yet.
std::optional<std::size_t> content_begin(const AnswerFormat& format, std::string_view text);

/// How much of `content`, of which more may come, is certainly content: not white space at its end, nor what may become
/// the end of an answer.
std::size_t certain_size(const AnswerFormat& format, ContentPlace place, std::string_view content);

}  // namespace vitrine::answer
