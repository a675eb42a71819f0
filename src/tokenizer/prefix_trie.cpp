#include "tokenizer/prefix_trie.h"

namespace vitrine {

PrefixTrie::PrefixTrie(std::vector<Key> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.first < b.first; });
  struct Range {  // of the keys below a node, which share their first `depth` bytes
    std::size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, keys.size(), 0}};
  nodes_.resize(1);
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    for (; begin < end && keys[begin].first.size() == depth; ++begin) nodes_[node].value = keys[begin].second;
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const auto byte = static_cast<unsigned char>(keys[begin].first[depth]);
      std::size_t last = begin;
      while (last < end && static_cast<unsigned char>(keys[last].first[depth]) == byte) ++last;
      if (depth == 0) roots_[byte] = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({-1, 0, 0, byte});
      ranges.push_back({begin, last, depth + 1});
      ++nodes_[node].n_children;
      begin = last;
    }
  }
  nodes_.shrink_to_fit();
}

}  // namespace vitrine
