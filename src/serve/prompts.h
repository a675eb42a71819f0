// The texts of requests as ids: prompts, batches of them, and conversations.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/chat_format.h"
#include "serve/completion_request.h"
#include "serve/request_fields.h"
#include "serve/tool_fields.h"

namespace vitrine {

/// The largest number of texts in a request.
inline constexpr std::size_t kMaxTexts = 2048;

/// How prompts that are too long become shorter.
struct Truncation {
  std::int64_t most = std::numeric_limits<std::int64_t>::max();  ///< The number of tokens that stay:
  bool keeps_end = true;                                         ///< the last ones, or the first ones.

  bool applies_to(const std::vector<std::int32_t>& ids) const { return std::ssize(ids) > most; }
  std::vector<std::int32_t> apply(std::vector<std::int32_t> ids) const;
};
/// The fields `truncate_prompt_tokens` (-1: `otherwise`) and `truncation_side`. Throws RequestError.
Truncation read_truncation(RequestFields& fields, std::int64_t otherwise);

/// Makes a prompt of a text or a list of ids; `where` names it in errors.
using PromptOf = std::function<Prompt(const Json& value, const std::string& where)>;
/// The prompts of a field whose value is a text, a list of ids (and of texts among them), or a list of such prompts.
/// Throws RequestError for other values, and what `prompt_of` throws.
std::vector<Prompt> each_prompt(RequestFields& fields, std::string_view name, const PromptOf& prompt_of);

/// A field whose value is a text, a list of ids, or a list of texts and lists of ids. With `sentences` texts are
/// prepared and truncated as it says. Throws RequestError, naming both numbers if a prompt exceeds the context, and
/// what the tokenizer throws.
std::vector<Prompt> read_prompts(const ServedModel& model, RequestFields& fields, std::string_view name,
                                 SpecialTokens policy, const Truncation& truncation,
                                 const SentenceConfig* sentences = nullptr);

/// A conversation, and how the request wants it rendered.
struct RequestedChat {
  ChatHistory conversation;
  ChatRendering how;
  RequestedTools tools{};
  std::string continued;  ///< The content of the last message, if the answer is of the same role.
};
/// The fields `messages`, whose parts of texts are joined by line breaks, `add_generation_prompt`,
/// `continue_final_message`, `chat_template_kwargs`, `reasoning_effort`, `documents`, and those of read_tools(), of
/// which `body` is the text. Throws RequestError.
RequestedChat read_chat(const ServedModel& model, std::string_view body, RequestFields& fields);

/// The text of a part of a message's content, under the names that OpenAI's interfaces have for it. `name` is that of
/// the part in `owner`. Throws RequestError for a part that is no text.
std::string text_of_part(const Json& part, const RequestFields& owner, const std::string& name);

/// Throws RequestError if the model has no tokenizer, or no chat template.
const Tokenizer& tokenizer_of(const ServedModel& model, const std::string& where);
const ChatFormat& chat_of(const ServedModel& model);

/// Throws RequestError if the model does not continue texts.
void require_generation(const ServedModel& model);

/// Throws RequestError for a prompt that is empty or longer than the context, with both numbers, and for ids of the
/// tokenizer that the model does not have; BadInput for placeholders of images and sounds.
void check_prompt(const ServedModel& model, std::span<const std::int32_t> ids, const std::string& where);

}  // namespace vitrine
