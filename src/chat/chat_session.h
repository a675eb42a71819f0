// Answers the last message of a conversation, and keeps the KV cache from one answer to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_format.h"
#include "generate/context.h"
#include "generate/generator.h"

namespace vitrine {

/// What the model reads before it answers.
struct ChatPrompt {
  std::vector<std::int32_t> ids;
  std::int64_t dropped_messages = 0;
  std::string text{};
};

/// context: the answer fills the model's context. interrupted: the caller stopped it.
enum class ChatEnd : std::uint8_t { stop, length, context, interrupted };
std::string_view name_of(ChatEnd end);

struct ChatAnswer {
  std::string text;               ///< Without the token that ended it. Bytes that are not UTF-8 are possible.
  std::vector<std::int32_t> ids;  ///< The same.
  std::int64_t reused_tokens = 0;
  ChatEnd end = ChatEnd::stop;
  GenerateTimings timings;
};

/// The tokens of an answer are those of a session that has just begun: a prompt's common prefix with the cache is not
/// computed again, and changes no bit.
class ChatSession {
 public:
  /// `stop_ids`: the tokens that end texts; the format's end of an answer is added.
  ChatSession(const GenerateContext& context, ChatFormat format, std::vector<std::int32_t> stop_ids);

  /// The prompt for an answer. If it exceeds the model's context and `drops_oldest` is set, the oldest exchanges are
  /// left out, as few as possible. Throws BadInput, naming both numbers, if it still exceeds the context;
  /// TemplateError.
  ChatPrompt prompt(const ChatHistory& conversation, bool drops_oldest, const ChatRendering& how = {}) const;

  /// Answers `request.prompt`; stop_ids and cache of the request are set here. `show` receives the text as it is
  /// generated, in whole characters. An interrupt ends the answer and is reported, not thrown. Throws as generate()
  /// does.
  ChatAnswer answer(GenerateRequest request, const std::function<void(const std::string&)>& show);

  /// Replaces the adapters and control vectors, which what is cached depends on.
  void set_modifiers(const Modifiers& modifiers);

  const ChatFormat& format() const { return format_; }
  const std::vector<std::int32_t>& stop_ids() const { return stop_ids_; }
  std::int64_t max_seq_len() const { return context_.model->config().max_seq_len; }
  /// The number of tokens in the cache.
  std::int64_t n_cached() const { return cache_ != nullptr ? cache_->length() : 0; }

 private:
  void prepare_cache(const GenerateRequest& request);
  void run(Engine& engine, ChatAnswer& answer, const std::function<void(const std::string&)>& show);
  bool exceeds(const ChatPrompt& prompt) const;

  GenerateContext context_;
  ChatFormat format_;
  std::vector<std::int32_t> stop_ids_;
  std::shared_ptr<KvCache> cache_;
  std::vector<std::int32_t> cached_;  ///< The ids of its tokens.
};

}  // namespace vitrine
