#include "serve/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "tokenizer/utf8.h"

namespace vitrine {

TokenTexts::TokenTexts(const Tokenizer* tokenizer, std::optional<std::int32_t> previous)
    : tokenizer_(tokenizer != nullptr ? &tokenizer->target() : nullptr) {
  if (tokenizer_ == nullptr) return;
  const bool is_known = previous && *previous < tokenizer_->vocab_size();
  detokenizer_.emplace(*tokenizer_, is_known ? previous : std::nullopt);
}

TokenText TokenTexts::next(std::int32_t id) const {
  if (!has(id)) return {fmt::format("token_id:{}", id), std::nullopt};
  Detokenizer detokenizer = *detokenizer_;
  std::string bytes = detokenizer.push(id);
  if (bytes.empty()) return {tokenizer_->piece(id), std::nullopt};
  if (is_valid_utf8(bytes)) return {bytes, bytes};
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return {std::move(text), std::move(bytes)};
}

void TokenTexts::advance(std::int32_t id) {
  if (!has(id)) return;
  const std::string bytes = detokenizer_->push(id);
  n_characters_ += std::count_if(bytes.begin(), bytes.end(), [](char byte) { return !is_continuation(byte); });
}

namespace {

Json nothing(bool is_chat) {
  if (is_chat) return {{"content", Json::array()}, {"refusal", nullptr}};
  const Json list = Json::array();
  return {{"tokens", list}, {"token_logprobs", list}, {"top_logprobs", list}, {"text_offset", list}};
}

Json chat_token(const TokenText& text, double logprob, bool is_sampled) {
  Json bytes;
  if (text.bytes) {
    bytes = Json::array();
    for (const char byte : *text.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  }
  Json token = {{"token", text.text}, {"bytes", std::move(bytes)}};
  token[is_sampled ? "prob" : "logprob"] = is_sampled ? math::exp(logprob) : logprob;
  return token;
}

/// The `n_top` most likely tokens, and the token itself after them if it is not among them.
std::vector<TokenLogprob> with_itself(const TokenReport& token, int n_top) {
  std::vector<TokenLogprob> top = token.top;
  top.resize(std::min(top.size(), static_cast<std::size_t>(n_top)));
  const bool has = std::any_of(top.begin(), top.end(), [&](const TokenLogprob& t) { return t.id == token.id; });
  if (!has) top.push_back({token.id, token.logprob});
  return top;
}

}  // namespace

Logprobs::Logprobs(bool is_chat, int n_top, TokenTexts texts, bool are_sampled)
    : has_entries_(is_chat || are_sampled),
      are_sampled_(are_sampled),
      n_top_(n_top),
      texts_(std::move(texts)),
      taken_(nothing(has_entries_)) {}

void Logprobs::add(const TokenReport& token) {
  if (has_entries_) {
    Json entry = chat_token(texts_.next(token.id), token.logprob, are_sampled_);
    if (token.removed) entry["removed"] = *token.removed;
    Json top = Json::array();
    if (n_top_ > 0) {
      for (const TokenLogprob& t : with_itself(token, n_top_)) {
        top.push_back(chat_token(texts_.next(t.id), t.logprob, are_sampled_));
      }
    }
    entry[are_sampled_ ? "top_probs" : "top_logprobs"] = std::move(top);
    taken_["content"].push_back(std::move(entry));
    texts_.advance(token.id);
    return;
  }
  Json top = Json::object();
  for (const TokenLogprob& t : with_itself(token, n_top_))
    top.emplace(texts_.next(t.id).text, t.logprob);  // keeps the first
  add_to_lists(token.id, token.logprob, std::move(top));
  if (!token.removed) return;
  Json& removed = taken_["removed"];  // of earlier tokens, those of a prompt: null
  while (removed.size() + 1 < taken_["tokens"].size()) removed.push_back(nullptr);
  removed.push_back(*token.removed);
}

void Logprobs::add_first(std::int32_t id) { add_to_lists(id, nullptr, nullptr); }

void Logprobs::add_to_lists(std::int32_t id, Json logprob, Json top) {
  taken_["tokens"].push_back(texts_.next(id).text);
  taken_["token_logprobs"].push_back(std::move(logprob));
  taken_["top_logprobs"].push_back(std::move(top));
  taken_["text_offset"].push_back(texts_.n_characters());
  texts_.advance(id);
}

Json Logprobs::take() { return std::exchange(taken_, nothing(has_entries_)); }

Json prompt_logprobs_json(std::span<const TokenReport> tokens, int n_top, const Tokenizer* tokenizer) {
  Json list = Json::array({nullptr});
  const TokenTexts texts(tokenizer, std::nullopt);
  for (const TokenReport& token : tokens) {
    Json entry = Json::object();
    const auto add = [&](const TokenLogprob& each, std::int64_t rank) {
      entry[std::to_string(each.id)] = {
          {"logprob", each.logprob}, {"rank", rank}, {"decoded_token", texts.next(each.id).text}};
    };
    for (int i = 0; i < std::min(n_top, static_cast<int>(token.top.size())); ++i) {
      add(token.top[static_cast<std::size_t>(i)], i + 1);
    }
    add({token.id, token.logprob}, token.rank);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace vitrine
