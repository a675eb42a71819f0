// The texts of requests as ids: prompts, batches of them, and conversations.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/chat_history.h"
#include "serve/completion_request.h"
#include "serve/request_fields.h"

namespace vitrine {

/// The largest number of texts in a request.
inline constexpr std::size_t kMaxTexts = 2048;

/// Checks the field `model`; absent: the first name. Returns the name. Throws RequestError.
std::string read_model_name(const ServedModel& model, RequestFields& fields);

/// A field whose value is a text, a list of ids, or a list of texts and lists of ids. With `sentences` texts are
/// truncated as it says. Throws RequestError, naming both numbers if a prompt exceeds the context, and what the
/// tokenizer throws.
std::vector<Prompt> read_prompts(const ServedModel& model, RequestFields& fields, std::string_view name,
                                 SpecialTokens policy, const SentenceConfig* sentences = nullptr);

/// The field `messages`. Parts of type "text" are joined by line breaks. Throws RequestError.
ChatHistory read_messages(RequestFields& fields);

/// Throws RequestError if the model has no tokenizer, or no chat template.
const Tokenizer& tokenizer_of(const ServedModel& model, const std::string& where);
const ChatFormat& chat_of(const ServedModel& model);

/// Throws RequestError if the model does not continue texts.
void require_generation(const ServedModel& model);

/// Throws RequestError for a prompt that is empty or longer than the context, with both numbers, and for ids of the
/// tokenizer that the model does not have; BadInput for placeholders of images and sounds.
void check_prompt(const ServedModel& model, std::span<const std::int32_t> ids, const std::string& where);

}  // namespace vitrine
