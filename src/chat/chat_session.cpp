#include "chat/chat_session.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {

std::string_view name_of(ChatEnd end) {
  constexpr std::string_view kNames[] = {"stop", "length", "context", "interrupted"};
  return kNames[static_cast<std::size_t>(end)];
}

ChatSession::ChatSession(const GenerateContext& context, ChatFormat format, std::vector<std::int32_t> stop_ids)
    : context_(context), format_(std::move(format)), stop_ids_(std::move(stop_ids)) {
  if (context_.model->config().encoder) throw Unsupported("chat", "the model is an encoder–decoder");
  if (const auto id = format_.end_of_answer()) stop_ids_.push_back(*id);
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
}

bool ChatSession::exceeds(const ChatPrompt& prompt) const {
  return static_cast<std::int64_t>(prompt.ids.size()) > max_seq_len();
}

ChatPrompt ChatSession::prompt(const ChatHistory& conversation, bool drops_oldest, const ChatRendering& how) const {
  const auto without = [&](std::int64_t n) {
    const ChatHistory rest = conversation.without_first(n);
    EncodedChat encoded = format_.encoded(rest, how);
    return ChatPrompt{std::move(encoded.ids),
                      static_cast<std::int64_t>(conversation.messages().size() - rest.messages().size()),
                      std::move(encoded.text)};
  };
  ChatPrompt all = without(0);
  if (all.ids.empty()) throw BadInput("template", "expected at least one token, got an empty text");
  if (!exceeds(all)) return all;
  const auto n_tokens = all.ids.size();
  // The smallest number of exchanges to drop, by bisection: encoding a long conversation takes time.
  std::int64_t least = 1, most = drops_oldest ? conversation.n_exchanges() - 1 : 0;
  ChatPrompt found = std::move(all);
  while (least <= most) {
    const std::int64_t n = least + (most - least) / 2;
    ChatPrompt shorter = without(n);
    if (exceeds(shorter)) {
      least = n + 1;
    } else {
      found = std::move(shorter);
      most = n - 1;
    }
  }
  if (!exceeds(found)) return found;
  if (!drops_oldest) {
    throw BadInput("chat",
                   "the conversation has {} tokens, the model's context is {}; --overflow drop-oldest leaves "
                   "out old messages",
                   n_tokens, max_seq_len());
  }
  const std::size_t n_least = without(std::max<std::int64_t>(0, conversation.n_exchanges() - 1)).ids.size();
  throw BadInput("chat", "the last message has {} tokens with the system prompt, the model's context is {}", n_least,
                 max_seq_len());
}

/// Keeps the longest common prefix of the cache and the prompt, or as much of it as the cache can return to. The answer
/// has the bits of a sequence that is planned for this request alone.
void ChatSession::prepare_cache(const GenerateRequest& request) {
  const auto& prompt = request.prompt;
  const auto first_other = std::mismatch(prompt.begin(), prompt.end(), cached_.begin(), cached_.end()).first;
  // At least one token is fed, because its logits are needed.
  const auto common = std::min<std::int64_t>(first_other - prompt.begin(), std::ssize(prompt) - 1);
  const std::int64_t planned = std::ssize(prompt) + std::min(max_seq_len() - std::ssize(prompt),
                                                             std::max<std::int64_t>(0, request.max_tokens - 1));
  const std::int64_t capacity = longest_planned_length(context_.model->config(), planned);
  if (cache_ != nullptr && cache_->capacity() == capacity) {
    cache_->truncate(common);
  } else {
    cache_ = std::make_shared<KvCache>(context_.make_cache(capacity));
    cache_->keep_snapshots(context_.state_every);
  }
  cache_->snapshot();  // /undo returns to it
  cached_.resize(static_cast<std::size_t>(cache_->length()));
}

ChatAnswer ChatSession::answer(GenerateRequest request, const std::function<void(const std::string&)>& show) {
  request.stop_ids = stop_ids_;
  prepare_cache(request);
  request.cache = cache_;
  ChatAnswer answer;
  answer.reused_tokens = cache_->length();
  std::vector<std::int32_t> all = request.prompt;
  const std::int64_t max_tokens = request.max_tokens;
  Engine engine(context_);
  try {
    engine.add(std::move(request));
    run(engine, answer, show);
  } catch (const Interrupted&) {
    answer.end = ChatEnd::interrupted;
  } catch (...) {
    cache_.reset();
    cached_.clear();
    throw;
  }
  if (answer.end == ChatEnd::length && std::ssize(answer.ids) < max_tokens) answer.end = ChatEnd::context;
  all.insert(all.end(), answer.ids.begin(), answer.ids.end());
  all.resize(static_cast<std::size_t>(n_cached()));
  cached_ = std::move(all);
  return answer;
}

void ChatSession::run(Engine& engine, ChatAnswer& answer, const std::function<void(const std::string&)>& show) {
  TimedSteps steps;
  while (!engine.empty()) {
    for (SequenceStep& step : steps.step(engine).sequences) {
      if (step.error) std::rethrow_exception(step.error);
      answer.timings = steps.timings();
      for (const TokenReport& token : step.tokens) answer.ids.push_back(token.id);
      answer.text += step.text;
      if (step.result) answer.reused_tokens += step.result->cached_tokens;
      if (step.result) answer.end = step.result->finish_reason == FinishReason::stop ? ChatEnd::stop : ChatEnd::length;
      if (!step.text.empty()) show(step.text);
    }
  }
}

void ChatSession::set_modifiers(const Modifiers& modifiers) {
  context_.modifiers = modifiers;
  cache_.reset();
  cached_.clear();
}

}  // namespace vitrine
