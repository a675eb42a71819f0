#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "tokenizer/read/json_fields.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxContentBytes = 4096;
constexpr std::size_t kMaxTokens = 1U << 16;

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word_character(code_point(text.substr(last_character(text))));
}
bool starts_with_word(std::string_view text) { return !text.empty() && is_word_character(code_point(text)); }

/// The offset of the white space at the end of `text`, at least `from`.
std::size_t space_at_end(std::string_view text, std::size_t from) {
  while (text.size() > from && is_white_space(code_point(text.substr(last_character(text))))) {
    text = text.substr(0, last_character(text));
  }
  return std::max(text.size(), from);
}

std::size_t space_at_start(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size() && is_white_space(code_point(text.substr(i)))) i += length_by_lead(text[i]);
  return i;
}

}  // namespace

std::vector<AddedToken> parse_added_tokens(const Json& json, const PieceTable& pieces, std::string_view where) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  if (!json.is_array()) throw BadCheckpoint(where, "expected an array of added_tokens, got {}", json.type_name());
  if (json.size() > kMaxTokens) {
    throw Unsupported(where, "more than {} added tokens are not supported, got {}", kMaxTokens, json.size());
  }
  std::unordered_set<std::string> contents;
  std::unordered_set<std::int64_t> ids;
  for (const Json& entry : json) {
    const JsonFields fields(entry, "an added token", where);
    fields.allow({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    const std::int64_t id = fields.integer("id");
    const bool special = fields.boolean("special", false);
    AddedToken token = {0,
                        fields.string("content"),
                        fields.boolean("single_word", false),
                        fields.boolean("lstrip", false),
                        fields.boolean("rstrip", false),
                        fields.boolean("normalized", !special),
                        special};
    if (id > PieceTable::kMaxId) throw BadCheckpoint(where, "expected ids up to {}, got {}", PieceTable::kMaxId, id);
    token.id = static_cast<std::int32_t>(id);
    if (token.content.size() > kMaxContentBytes) {
      throw BadCheckpoint(where, "expected added tokens of at most {} bytes, got {}", kMaxContentBytes,
                          token.content.size());
    }
    const std::int32_t known = pieces.find(token.content);
    if (known != kNoId && known != token.id) {
      throw BadCheckpoint(where, "added token \"{}\" has id {}, but the vocabulary gives it {}", token.content, id,
                          known);
    }
    if (known == kNoId && pieces.contains(token.id)) {
      throw BadCheckpoint(where, "added token \"{}\" has id {}, which the vocabulary gives to \"{}\"", token.content,
                          id, pieces.piece(token.id));
    }
    if (!ids.insert(id).second || !contents.insert(token.content).second) {
      throw BadCheckpoint(where, "added token {} \"{}\" appears twice", id, token.content);
    }
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer, bool splits_special)
    : tokens_(std::move(tokens)), splits_special_(splits_special) {
  for (const AddedToken& token : tokens_) {
    by_id_.emplace(token.id, spellings_.size());
    spellings_.push_back(token.normalized && normalizer != nullptr ? (*normalizer)(token.content, nullptr)
                                                                   : token.content);
  }
  // If normalization makes two spellings equal, a special token takes precedence, then the earlier one.
  std::unordered_set<std::string_view> known;
  std::vector<PrefixTrie::Key> raw, normalized;
  for (bool special : {true, false}) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].special != special || spellings_[i].empty()) continue;
      if (tokens_[i].normalized && !known.insert(spellings_[i]).second) continue;
      (tokens_[i].normalized ? normalized : raw).emplace_back(spellings_[i], static_cast<std::int32_t>(i));
    }
  }
  raw_ = PrefixTrie(std::move(raw));
  normalized_ = PrefixTrie(std::move(normalized));
}

void AddedTokens::mark_fim(const std::vector<std::int32_t>& ids) {
  for (const std::int32_t id : ids) {
    if (const auto found = by_id_.find(id); found != by_id_.end()) tokens_[found->second].is_fim = true;
  }
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const std::string* AddedTokens::spelling(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &spellings_[found->second];
}

void AddedTokens::split(const PrefixTrie& trie, std::string_view all, const SpecialRule& rule, Text text,
                        Token token) const {
  std::size_t done = 0;  // everything before this offset has been passed on
  trie.each_match(all, [&](std::size_t begin, PrefixTrie::Match match) {
    std::size_t end = begin + match.length;
    const AddedToken& found = tokens_[static_cast<std::size_t>(match.value)];
    if (found.is_fim && rule.fim_is_text) return;
    if (found.special && (splits_special_ || !rule.recognizes(all.substr(begin, match.length)))) return;
    if (found.single_word && (ends_with_word(all.substr(0, begin)) || starts_with_word(all.substr(end)))) return;
    if (found.lstrip) begin = std::max(space_at_end(all.substr(0, begin), std::min(begin, done)), done);
    if (found.rstrip) end += space_at_start(all.substr(end));
    if (done < begin) text(all.substr(done, begin - done));
    token(found.id, all.substr(begin, end - begin));
    done = end;
  });
  if (done < all.size()) text(all.substr(done));
}

}  // namespace vitrine
