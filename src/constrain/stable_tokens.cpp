#include "constrain/stable_tokens.h"

#include <algorithm>

#include "tokenizer/utf8.h"

namespace vitrine::constrain {
namespace {

constexpr std::size_t kMaxKnown = 1 << 14, kMaxSuffix = 32;
constexpr int kMaxOfSuffix = 16;

}  // namespace

std::vector<std::string> StableTokens::continuations_of(const std::string& text) const {
  std::vector<std::string> all = {"\n", "\t", "\n\n", "  ", "\u00e9", "\u4e2d", "\U0001F600"};
  for (char c = ' '; c < 127; ++c) all.emplace_back(1, c);
  const auto trie = vocabulary_.trie();
  for (std::size_t n = 1; n <= std::min(kMaxSuffix, text.size()); ++n) {
    const std::int32_t node = vocabulary_.find_node(std::string_view(text).substr(text.size() - n));
    if (node < 0) continue;
    int n_added = 0;
    for (std::int32_t i = node + 1; i < trie[static_cast<std::size_t>(node)].end && n_added < kMaxOfSuffix; ++i) {
      const std::int32_t id = trie[static_cast<std::size_t>(i)].first_token;
      if (id < 0) continue;
      const std::string_view rest = vocabulary_.bytes(id).substr(n);
      if (!is_valid_utf8(rest)) continue;
      all.emplace_back(rest);
      ++n_added;
    }
  }
  return all;
}

/// The number of ids before those that are `text`; all, if it does not begin at a token.
std::size_t StableTokens::n_before(std::span<const std::int32_t> ids, std::string_view text) const {
  std::size_t first = ids.size(), n = 0;
  while (first > 0 && n < text.size()) n += vocabulary_.bytes(ids[--first]).size();
  std::string bytes;
  for (const std::int32_t id : ids.subspan(first)) bytes += vocabulary_.bytes(id);
  return bytes == text ? first : ids.size();
}

std::vector<std::int32_t> StableTokens::of(const std::string& text) const {
  if (text.empty()) return {};
  {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(text);
    if (at != known_.end()) return at->second;
  }
  std::vector<std::int32_t> ids;
  // Some tokenizers write the first word of a text otherwise: there it comes after a line feed.
  for (const std::string before : {"", "\n"}) {
    ids = tokenizer_.encode(before + text, SpecialTokens::none);
    const auto first = static_cast<std::ptrdiff_t>(n_before(ids, text));
    for (const std::string& more : continuations_of(text)) {
      if (std::ssize(ids) <= first) break;
      const std::vector<std::int32_t> longer = tokenizer_.encode(before + text + more, SpecialTokens::none);
      ids.erase(std::mismatch(ids.begin(), ids.end(), longer.begin(), longer.end()).first, ids.end());
    }
    ids.erase(ids.begin(), ids.begin() + std::min(first, std::ssize(ids)));
    if (!ids.empty()) break;
  }
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.emplace(text, ids);
  return ids;
}

}  // namespace vitrine::constrain
