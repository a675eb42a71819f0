#include "tokenizer/algorithms/prefix_trie.h"

namespace vitrine {

PrefixTrie::PrefixTrie(std::vector<Key> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.first < b.first; });
  std::size_t max_nodes = 1;
  for (const Key& key : keys) max_nodes += key.first.size();
  nodes_.reserve(max_nodes);  // unused pages take no memory
  nodes_.resize(1);

  struct Range {  // the keys below a node
    std::size_t begin, end;
  };
  std::vector<Range> level = {{0, keys.size()}}, next_level;
  std::size_t node = 0;
  for (std::size_t depth = 0; !level.empty(); ++depth) {
    next_level.clear();
    for (auto [begin, end] : level) {
      for (; begin < end && keys[begin].first.size() == depth; ++begin) nodes_[node].value = keys[begin].second;
      nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
      while (begin < end) {
        const auto byte = static_cast<unsigned char>(keys[begin].first[depth]);
        std::size_t last = begin;
        while (last < end && static_cast<unsigned char>(keys[last].first[depth]) == byte) ++last;
        if (depth == 0) roots_[byte] = static_cast<std::uint32_t>(nodes_.size());
        nodes_.push_back({-1, 0, 0, byte});
        next_level.push_back({begin, last});
        ++nodes_[node].n_children;
        begin = last;
      }
      ++node;
    }
    std::swap(level, next_level);
  }
}

}  // namespace vitrine
