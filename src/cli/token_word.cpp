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

std::vector<std::int32_t> tokens_of(const Session& session, const std::vector<std::string>& words) {
  std::vector<std::int32_t> ids;
  for (const std::string& word : words) ids.push_back(token_of(session, word));
  return ids;
}

}  // namespace vitrine::cli
