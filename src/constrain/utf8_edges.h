// The bytes of a set of characters as edges of an automaton.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "constrain/char_set.h"

namespace vitrine::constrain {

/// Builds the ways from one state to another that read one character of a set in UTF-8. States that would have the same
/// ways to the end are shared.
template <class AddState, class AddEdge>
class Utf8Edges {
 public:
  Utf8Edges(std::int32_t to, AddState add_state, AddEdge add_edge)
      : to_(to), add_state_(std::move(add_state)), add_edge_(std::move(add_edge)) {}

  void add(const CharSet& set, std::int32_t from) {
    constexpr std::uint32_t kEnd[] = {0x80, 0x800, 0x10000, 0x110000};  // after the characters of 1, 2, 3, 4 bytes
    constexpr std::uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
    std::uint32_t begin = 0;
    for (int n_more = 0; n_more < 4; ++n_more) {
      add_level(from, (set & CharSet::range(begin, kEnd[n_more] - 1)).ranges(), n_more, kLead[n_more]);
      begin = kEnd[n_more];
    }
  }

 private:
  using Ranges = std::vector<CharRange>;
  static bool before(const CharRange& a, const CharRange& b) {
    return std::pair(a.first, a.last) < std::pair(b.first, b.last);
  }
  struct Less {
    bool operator()(const std::pair<int, Ranges>& a, const std::pair<int, Ranges>& b) const {
      if (a.first != b.first) return a.first < b.first;
      return std::lexicographical_compare(a.second.begin(), a.second.end(), b.second.begin(), b.second.end(), before);
    }
  };

  /// The state from which the `n_more` last bytes of `ranges` lead to the end.
  std::int32_t state_of(const Ranges& ranges, int n_more) {
    if (n_more == 0) return to_;
    const auto known = states_.find({n_more, ranges});
    if (known != states_.end()) return known->second;
    const std::int32_t state = add_state_();
    states_.emplace(std::pair(n_more, ranges), state);
    add_level(state, ranges, n_more - 1, 0x80);
    return state;
  }

  /// Edges from `from` for the first byte of `ranges`, which `n_more` bytes follow; `lead` is added to it.
  void add_level(std::int32_t from, const Ranges& ranges, int n_more, std::uint32_t lead) {
    const int shift = 6 * n_more;
    const std::uint32_t mask = (1U << shift) - 1;
    std::vector<std::pair<CharRange, Ranges>> parts;  // first bytes, and what follows each of them
    const auto put = [&](std::uint32_t first, std::uint32_t last, CharRange rest) {
      if (!parts.empty() && parts.back().first.first == first && parts.back().first.last == last) {
        parts.back().second.push_back(rest);
      } else {
        parts.push_back({{first, last}, {rest}});
      }
    };
    for (const CharRange& r : ranges) {
      std::uint32_t first = r.first >> shift;
      const std::uint32_t last = r.last >> shift;
      if (first == last) {
        put(first, first, {r.first & mask, r.last & mask});
        continue;
      }
      if ((r.first & mask) != 0) put(first, first, {r.first & mask, mask}), ++first;
      const bool has_tail = (r.last & mask) != mask;
      const std::uint32_t end = has_tail ? last : last + 1;
      if (first < end) put(first, end - 1, {0, mask});
      if (has_tail) put(last, last, {0, r.last & mask});
    }
    for (const auto& [bytes, rest] : parts) {
      add_edge_(from, static_cast<std::uint8_t>(lead + bytes.first), static_cast<std::uint8_t>(lead + bytes.last),
                state_of(rest, n_more));
    }
  }

  std::int32_t to_;
  AddState add_state_;
  AddEdge add_edge_;
  std::map<std::pair<int, Ranges>, std::int32_t, Less> states_;
};

template <class AddState, class AddEdge>
void add_utf8_edges(const CharSet& set, std::int32_t from, std::int32_t to, AddState add_state, AddEdge add_edge) {
  Utf8Edges<AddState, AddEdge>(to, std::move(add_state), std::move(add_edge)).add(set, from);
}

}  // namespace vitrine::constrain
