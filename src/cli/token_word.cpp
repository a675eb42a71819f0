#include "cli/token_word.h"

#include "base/error.h"

namespace vitrine::cli {

bool is_id(const std::string& word) {
  return word.starts_with('#') && word.size() > 1 && word.find_first_not_of("0123456789", 1) == std::string::npos;
}

std::int32_t token_of(const Session& session, const std::string& word) {
  if (word.empty()) throw BadInput("WORD", "expected a word, got an empty text");
  if (is_id(word)) {
    const std::int32_t id = parse_ids(word.substr(1), "WORD").front();
    const std::int64_t vocab_size = session.checkpoint.model->config().vocab_size;
    if (id >= vocab_size) throw BadInput(word, "expected an id from 0 to {}, got {}", vocab_size - 1, id);
    return id;
  }
  if (session.tokenizer == nullptr) throw BadInput(word, "the model has no tokenizer: give #ID, or --tokenizer");
  const std::vector<std::int32_t> ids = session.tokenizer->encode(word, SpecialTokens::none);
  if (ids.size() == 1) return ids.front();
  std::string pieces;
  for (const std::int32_t id : ids) pieces += (pieces.empty() ? "" : ", ") + session.label(id);
  const std::string hint = word.starts_with(' ') ? "" : fmt::format("; \" {}\" with a leading space may be one", word);
  throw BadInput(word, "expected a word that is one token, got {}{}", pieces, hint);
}

std::int32_t mask_token(const Session& session, const char* where) {
  if (session.tokenizer == nullptr) throw BadInput(where, "expected the id of the mask token with --ids");
  for (const std::string_view mask : {"[MASK]", "<mask>"}) {
    for (std::int32_t id = 0; id < session.tokenizer->vocab_size(); ++id) {
      if (session.tokenizer->piece(id) == mask) return id;
    }
  }
  throw BadInput(where, "the vocabulary has neither [MASK] nor <mask>: name the id of the mask token");
}

std::vector<std::int32_t> tokens_of(const Session& session, const std::vector<std::string>& words) {
  std::vector<std::int32_t> ids;
  for (const std::string& word : words) ids.push_back(token_of(session, word));
  return ids;
}

std::vector<EmbeddingTerm> terms_of(const Session& session, const std::vector<std::string>& words,
                                    const std::string& where) {
  const auto is_sign = [](const std::string& word) { return word == "+" || word == "-"; };
  std::vector<EmbeddingTerm> terms;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const float sign = words[i] == "-" ? -1.0f : 1.0f;
    if (is_sign(words[i]) && (++i == words.size() || is_sign(words[i]))) {
      throw UsageError(where, "expected a word after + or -");
    }
    terms.push_back({token_of(session, words[i]), sign});
  }
  return terms;
}

std::vector<EmbeddingTerm> terms_in(const Session& session, const std::string& text, const std::string& where) {
  std::vector<std::string> words;
  std::size_t from = 0;
  const auto add = [&](std::size_t end) {
    const std::string word = text.substr(from, end - from), inner = word.starts_with(' ') ? word : " " + word;
    const bool is_inner = !is_id(word) && session.tokenizer != nullptr &&
                          session.tokenizer->encode(inner, SpecialTokens::none).size() == 1;
    words.push_back(is_inner ? inner : word);
  };
  for (std::size_t at = 0; at + 3 <= text.size(); ++at) {
    const bool is_sign = text[at] == ' ' && (text[at + 1] == '+' || text[at + 1] == '-') && text[at + 2] == ' ';
    if (!is_sign) continue;
    add(at);
    words.push_back(text.substr(at + 1, 1));
    from = at + 3;
    at += 2;
  }
  add(text.size());
  return terms_of(session, words, where);
}

}  // namespace vitrine::cli
