// A fixed set of byte strings, and a search for those that are prefixes of a text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace vitrine {

/// A trie whose nodes are stored level by level, so that the children of a node are adjacent and sorted by their bytes.
class PrefixTrie {
 public:
  using Key = std::pair<std::string_view, std::int32_t>;

  PrefixTrie() = default;
  /// Keys must not be empty, values not negative. Of equal keys, the last one is kept. The key strings are not
  /// referenced after construction.
  explicit PrefixTrie(std::vector<Key> keys);

  struct Match {
    std::size_t length = 0;  ///< 0 if no key matches.
    std::int32_t value = -1;
  };

  bool empty() const { return nodes_.size() <= 1; }

  /// Calls `visit(length, value)` for every key that is a prefix of `text`, the shortest first.
  template <class Visit>
  void each_prefix(std::string_view text, Visit&& visit) const {
    if (text.empty() || nodes_.empty()) return;
    std::uint32_t node = roots_[static_cast<unsigned char>(text[0])];
    for (std::size_t length = 1; node != 0; ++length) {
      if (nodes_[node].value >= 0) visit(length, nodes_[node].value);
      if (length == text.size()) return;
      node = child(node, static_cast<unsigned char>(text[length]));
    }
  }

  Match longest(std::string_view text) const {
    Match match;
    each_prefix(text, [&](std::size_t length, std::int32_t value) { match = {length, value}; });
    return match;
  }

  /// Calls `visit(begin, match)` for the matches in `text` from left to right, each the longest at its place. Matches
  /// do not overlap.
  template <class Visit>
  void each_match(std::string_view text, Visit&& visit) const {
    for (std::size_t i = 0; !empty() && i < text.size();) {
      const Match match = longest(text.substr(i));
      if (match.length != 0) visit(i, match);
      i += std::max<std::size_t>(match.length, 1);
    }
  }

 private:
  struct Node {
    std::int32_t value = -1;
    std::uint32_t first_child = 0;
    std::uint16_t n_children = 0;
    unsigned char byte = 0;  // of the edge from the parent
  };

  /// Returns 0, the root, if there is no such child.
  std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    const auto first = nodes_.begin() + nodes_[node].first_child;
    const auto last = first + nodes_[node].n_children;
    const auto found = std::lower_bound(first, last, byte, [](const Node& n, unsigned char b) { return n.byte < b; });
    return found != last && found->byte == byte ? static_cast<std::uint32_t>(found - nodes_.begin()) : 0;
  }

  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> roots_{};  // the children of the root, by byte
};

}  // namespace vitrine
