#include "tokenizer/gguf_special.h"

#include <algorithm>
#include <utility>

namespace vitrine {
namespace {

/// isspace of the C locale.
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

GgufSpecialTokens::GgufSpecialTokens(const std::vector<GgufVocabulary::Piece>& pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const GgufVocabulary::Piece& p = pieces[i];
    const bool is_control = p.type == PieceType::control || p.type == PieceType::unknown;
    if (!is_control && p.type != PieceType::user_defined) continue;
    tokens_.push_back({static_cast<std::int32_t>(i), p.text, is_control, p.strip_left, p.strip_right});
  }
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const Token& a, const Token& b) { return a.text.size() > b.text.size(); });
  std::vector<PrefixTrie::Key> keys;
  for (std::size_t i = 0; i < tokens_.size(); ++i) keys.emplace_back(tokens_[i].text, static_cast<std::int32_t>(i));
  trie_ = PrefixTrie(std::move(keys));
}

/// A first pass finds which tokens occur; only those are searched for in the fragments.
std::vector<GgufSpecialTokens::Fragment> GgufSpecialTokens::split(std::string_view text, bool recognize_control) const {
  std::vector<bool> occurs(tokens_.size());
  for (std::size_t i = 0; i < text.size() && !trie_.empty(); ++i) {
    trie_.each_prefix(text.substr(i),
                      [&](std::size_t, std::int32_t token) { occurs[static_cast<std::size_t>(token)] = true; });
  }
  std::vector<Fragment> fragments;
  if (!text.empty()) fragments.push_back({text});
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (!occurs[i] || (tokens_[i].is_control && !recognize_control)) continue;
    std::vector<Fragment> finer;
    for (const Fragment& fragment : fragments) {
      if (fragment.id != kNoId) {
        finer.push_back(fragment);
      } else {
        split_at(tokens_[i], fragment.text, finer);
      }
    }
    fragments = std::move(finer);
  }
  return fragments;
}

void GgufSpecialTokens::split_at(const Token& token, std::string_view text, std::vector<Fragment>& fragments) const {
  for (std::size_t found = text.find(token.text); found != text.npos; found = text.find(token.text)) {
    std::string_view left = text.substr(0, found);
    while (token.strip_left && !left.empty() && is_space(left.back())) left.remove_suffix(1);
    if (!left.empty()) fragments.push_back({left});
    fragments.push_back({{}, token.id});
    text.remove_prefix(found + token.text.size());
    while (token.strip_right && !text.empty() && is_space(text.front())) text.remove_prefix(1);
  }
  if (!text.empty()) fragments.push_back({text});
}

}  // namespace vitrine
