#include "tokenizer/read/gguf_tokenizer.h"

#include <algorithm>
#include <utility>

#include "tokenizer/post_processor.h"

namespace vitrine {
namespace {

/// isspace of the C locale.
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

GgufTokenizer::GgufTokenizer(GgufVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  const std::vector<GgufVocabulary::Piece>& pieces = vocabulary_.pieces;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool is_special = pieces[i].is_control() || pieces[i].type == PieceType::user_defined;
    if (is_special) special_.push_back(static_cast<std::int32_t>(i));
  }
  const auto text = [&](std::int32_t id) { return std::string_view(pieces[static_cast<std::size_t>(id)].text); };
  std::stable_sort(special_.begin(), special_.end(),
                   [&](std::int32_t a, std::int32_t b) { return text(a).size() > text(b).size(); });
  std::vector<PrefixTrie::Key> keys;
  for (const std::int32_t id : special_) keys.emplace_back(text(id), static_cast<std::int32_t>(keys.size()));
  special_trie_ = PrefixTrie(std::move(keys));
  set_fim_tokens(vocabulary_.fim);
}

std::vector<std::int32_t> GgufTokenizer::encode(std::string_view text, const SpecialRule& rule,
                                                EncodingRecorder* recorder) const {
  const bool apply = rule.policy == SpecialTokens::apply;
  std::vector<std::int32_t> ids;
  if (apply && vocabulary_.add_bos) add_token(vocabulary_.bos.value(), Explanation::Token::From::policy, ids, recorder);
  bool is_first = true;
  for (const Fragment& fragment : split(text, rule)) {
    if (fragment.id != kNoId) {
      add_token(fragment.id, Explanation::Token::From::text, ids, recorder);
    } else {
      if (recorder != nullptr) recorder->part(fragment.text);
      encode_text(fragment.text, is_first, recorder, ids);
    }
    is_first = fragment.id != kNoId && !vocabulary_.prefix_once;
  }
  if (apply && vocabulary_.add_eos) add_token(vocabulary_.eos.value(), Explanation::Token::From::policy, ids, recorder);
  return ids;
}

PairEncoding GgufTokenizer::encode_texts(std::string_view a, std::string_view b, SpecialTokens policy,
                                         std::optional<std::int64_t> most) const {
  using Kind = PairPart::Kind;
  const GgufVocabulary& v = vocabulary_;
  const bool separates = v.add_sep && v.sep;
  if (!v.add_eos && !separates) return Tokenizer::encode_texts(a, b, policy, most);
  std::vector<PairPart> parts = {{Kind::added}, {Kind::first}, {Kind::added}, {Kind::second}, {Kind::added}};
  if (v.add_bos) parts[0].ids = {v.bos.value()};
  if (v.add_eos) parts[2].ids = parts[4].ids = {v.eos.value()};
  if (separates) parts[2].ids.push_back(*v.sep);
  const bool adds = policy == SpecialTokens::apply;
  const SpecialRule rule = adds ? SpecialTokens::written : policy;
  return join_pair(parts, encode(a, rule, nullptr), encode(b, rule, nullptr), adds, most);
}

/// Splits the text at special tokens. Control and unknown tokens are recognized only where `rule` recognizes them,
/// user-defined tokens always. A first pass finds which tokens occur; only those are searched for in the fragments.
std::vector<GgufTokenizer::Fragment> GgufTokenizer::split(std::string_view text, const SpecialRule& rule) const {
  std::vector<bool> occurs(special_.size());
  for (std::size_t i = 0; i < text.size() && !special_trie_.empty(); ++i) {
    special_trie_.each_prefix(text.substr(i),
                              [&](std::size_t, std::int32_t token) { occurs[static_cast<std::size_t>(token)] = true; });
  }
  std::vector<Fragment> fragments;
  if (!text.empty()) fragments.push_back({text});
  for (std::size_t i = 0; i < special_.size(); ++i) {
    if (!occurs[i] || (at(special_[i]).is_control() && rule.policy == SpecialTokens::none)) continue;
    std::vector<Fragment> finer;
    for (const Fragment& fragment : fragments) {
      if (fragment.id != kNoId) {
        finer.push_back(fragment);
      } else {
        split_at(special_[i], fragment.text, rule, finer);
      }
    }
    fragments = std::move(finer);
  }
  return fragments;
}

void GgufTokenizer::split_at(std::int32_t id, std::string_view text, const SpecialRule& rule,
                             std::vector<Fragment>& fragments) const {
  const GgufVocabulary::Piece& token = at(id);
  std::size_t from = 0;
  for (std::size_t found = text.find(token.text); found != text.npos; found = text.find(token.text, from)) {
    if (token.is_control() && !rule.recognizes(text.substr(found, token.text.size()))) {
      from = found + 1;
      continue;
    }
    from = 0;
    std::string_view left = text.substr(0, found);
    while (token.strip_left && !left.empty() && is_space(left.back())) left.remove_suffix(1);
    if (!left.empty()) fragments.push_back({left});
    fragments.push_back({{}, id});
    text.remove_prefix(found + token.text.size());
    while (token.strip_right && !text.empty() && is_space(text.front())) text.remove_prefix(1);
  }
  if (!text.empty()) fragments.push_back({text});
}

}  // namespace vitrine
