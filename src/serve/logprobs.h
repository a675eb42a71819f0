// The log-probabilities of a choice, in the forms of OpenAI's completions and of its chat.
#pragma once

#include "base/json.h"
#include "generate/result.h"
#include "serve/token_texts.h"

namespace vitrine {

/// Collects tokens. Numbers are doubles that read back equal.
class Logprobs {
 public:
  Logprobs(bool is_chat, int n_top, TokenTexts texts);

  /// The next token of the text. Its most likely alternatives include the token itself.
  void add(const TokenReport& token);
  /// The first token of a prompt, which has no log-probability.
  void add_first(std::int32_t id);
  /// The tokens since the last call.
  Json take();

 private:
  void add_to_lists(std::int32_t id, Json logprob, Json top);

  bool is_chat_;
  int n_top_;
  TokenTexts texts_;
  Json taken_;
};

}  // namespace vitrine
