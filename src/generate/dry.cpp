#include "generate/dry.h"

#include <algorithm>

namespace vitrine {
namespace {

constexpr std::size_t kMaxTail = 20;  // tokens of a breaker after its first one, as in llama.cpp

}  // namespace

DryBreakers::DryBreakers(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(tokenizer.vocab_size()); ++id) {
    const std::string word = tokenizer.bytes(id);
    for (const std::string& text : texts) {
      if (word.empty() || text.empty()) continue;
      if (word.find(text) != std::string::npos) {
        tails_[id].emplace_back();
        continue;
      }
      for (std::size_t n = std::min(word.size(), text.size() - 1); n > 0; --n) {
        if (!word.ends_with(std::string_view(text).substr(0, n))) continue;
        std::vector<std::int32_t> tail = tokenizer.encode(text.substr(n), SpecialTokens::none);
        tail.resize(std::min(tail.size(), kMaxTail));
        tails_[id].push_back(std::move(tail));
      }
    }
  }
}

std::size_t DryBreakers::limit(std::span<const std::int32_t> ids) const {
  for (std::size_t back = 0; back < ids.size(); ++back) {
    const auto known = tails_.find(ids[ids.size() - 1 - back]);
    if (known == tails_.end()) continue;
    std::ptrdiff_t longest = -1;
    for (const std::vector<std::int32_t>& tail : known->second) {
      const bool fits =
          tail.size() <= back && std::equal(tail.begin(), tail.end(), ids.end() - static_cast<std::ptrdiff_t>(back));
      if (fits) longest = std::max(longest, std::ssize(tail));
    }
    if (longest >= 0) return back - static_cast<std::size_t>(longest);
  }
  return ids.size();
}

std::map<std::int32_t, std::size_t> dry_repeats(std::span<const std::int32_t> ids, std::size_t allowed,
                                                std::size_t limit) {
  std::map<std::int32_t, std::size_t> repeats;
  const std::size_t n = ids.size();
  if (n <= allowed || limit < allowed) return repeats;
  // Z-function of the reversed text: how much of the text's end is also the end of its first n − k tokens.
  const auto last = [&](std::size_t i) { return ids[n - 1 - i]; };
  std::vector<std::size_t> z(n, 0);
  for (std::size_t k = 1, left = 0, right = 0; k < n; ++k) {
    if (k < right) z[k] = std::min(right - k, z[k - left]);
    while (k + z[k] < n && last(z[k]) == last(k + z[k])) ++z[k];
    if (k + z[k] > right) left = k, right = k + z[k];
    const std::size_t length = std::min(z[k], limit);
    if (length < allowed || length == 0) continue;
    std::size_t& most = repeats[last(k - 1)];  // what came after this occurrence
    most = std::max(most, length);
  }
  return repeats;
}

}  // namespace vitrine
