// The log-probabilities of a choice, in the forms of OpenAI's completions and of its chat.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "generate/result.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// The tokens of responses as text.
/// A token as text: its bytes where it is; "bytes:\xE2\x82" if these are no UTF-8; the piece of a control token, which
/// has no bytes; "token_id:N" without a tokenizer and outside its vocabulary.
struct TokenText {
  std::string text;
  std::optional<std::string> bytes;
};

/// Follows a text token by token.
class TokenTexts {
 public:
  /// `tokenizer` may be null. `previous`: the token before the text, if any.
  TokenTexts(const Tokenizer* tokenizer, std::optional<std::int32_t> previous);

  /// A token that may come next.
  TokenText next(std::int32_t id) const;
  /// Continues after the token `id`.
  void advance(std::int32_t id);
  /// The number of characters before the next token.
  std::int64_t n_characters() const { return n_characters_; }

 private:
  bool has(std::int32_t id) const { return detokenizer_ && id < tokenizer_->vocab_size(); }

  const Tokenizer* tokenizer_;
  std::optional<Detokenizer> detokenizer_;
  std::int64_t n_characters_ = 0;
};

/// Collects tokens. Numbers are doubles that read back equal.
class Logprobs {
 public:
  /// `are_sampled`: they are those with which tokens were drawn, reported in llama-server's form, as probabilities.
  Logprobs(bool is_chat, int n_top, TokenTexts texts, bool are_sampled = false);

  /// The next token of the text. Its most likely alternatives include the token itself.
  void add(const TokenReport& token);
  /// The first token of a prompt, which has no log-probability.
  void add_first(std::int32_t id);
  /// The tokens since the last call.
  Json take();

 private:
  void add_to_lists(std::int32_t id, Json logprob, Json top);

  bool has_entries_;  // as in a chat
  bool are_sampled_;
  int n_top_;
  TokenTexts texts_;
  Json taken_;
};

/// vLLM's prompt_logprobs: null for the first token, then for each one an object of ids, the token itself and the
/// `n_top` likeliest ones, with logprob, rank and decoded_token. `tokenizer` may be null.
Json prompt_logprobs_json(std::span<const TokenReport> tokens, int n_top, const Tokenizer* tokenizer);

}  // namespace vitrine
