#include "constrain/masker.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace vitrine::constrain {
namespace {

constexpr std::size_t kFewReturns = 64;
constexpr std::uint64_t kMuchWork = 100'000;

/// The shortest text from where one of the calls returns.
Length shortest_below(const Stacks& stacks, std::span<const Head> calls) {
  Length shortest = kNoWay;
  for (const Head& h : calls) shortest = std::min(shortest, stacks.node(h.node).below);
  return shortest;
}

bool fits(const Remaining& r, std::int64_t n) { return r.min <= n && (r.max == kUnlimited || n <= r.max); }

}  // namespace

std::size_t FrameMask::memory_bytes() const {
  std::size_t n = sizeof(*this) + all.words().size() * 8 + returns.capacity() * 4;
  for (const Level& level : levels) n += sizeof(Level) + level.ids.capacity() * 4;
  return n;
}

void Masker::charge(std::size_t bytes) {
  memory_ += bytes;
  if (memory_ <= kMaxMemory / 4) return;
  masks_.clear();  // they are made again when they are needed
  memory_ = bytes;
}

template <class Reached, class Wanted>
void Masker::walk(Stacks& stacks, const Heads& heads, std::int32_t begin, std::int32_t end, int depth, Reached reached,
                  Wanted is_wanted) {
  const auto trie = vocabulary_.trie();
  const auto base = static_cast<std::size_t>(depth);
  if (path_.size() <= static_cast<std::size_t>(vocabulary_.max_depth()) + 1) {
    path_.resize(static_cast<std::size_t>(vocabulary_.max_depth()) + 2);
    path_marks_.resize(path_.size());
  }
  path_marks_[base] = stacks.mark();
  for (std::int32_t i = begin; i < end;) {
    const Vocabulary::TrieNode& node = trie[static_cast<std::size_t>(i)];
    if (!is_wanted(i)) {
      i = node.end;
      continue;
    }
    const std::size_t d = node.depth;
    stacks.drop_to(path_marks_[d - 1]);
    Heads& here = path_[d];
    stepper_.step(stacks, d - 1 == base ? heads : path_[d - 1], node.byte, here);
    if (!here.alive()) {
      i = node.end;
      continue;
    }
    path_marks_[d] = stacks.mark();
    reached(i, here);
    ++i;
  }
  stacks.drop_to(path_marks_[base]);
}

void Masker::count_missing(const Mask& mask) {
  const auto n_nodes = static_cast<std::int32_t>(vocabulary_.trie().size());
  n_missing_.assign(static_cast<std::size_t>(n_nodes) + 1, 0);
  for (std::int32_t i = 0; i < n_nodes; ++i) {
    std::int32_t n = n_missing_[static_cast<std::size_t>(i)];
    for_each_token(vocabulary_, i, [&](std::int32_t id) { n += mask.test(id) ? 0 : 1; });
    n_missing_[static_cast<std::size_t>(i) + 1] = n;
  }
}

const FrameMask& Masker::frame_mask(FrameId frame) {
  if (const auto known = masks_.find(frame); known != masks_.end()) return *known->second;
  auto made = std::make_unique<FrameMask>();
  made->all = Mask(vocabulary_.size());
  std::map<Length, std::vector<std::int32_t>> levels;
  Stacks stacks;
  const Heads heads{{{Stacks::kBottom, frame}}, false};
  const std::uint64_t work = stepper_.work();  // the same for all texts
  const auto n_nodes = static_cast<std::int32_t>(vocabulary_.trie().size());
  walk(
      stacks, heads, 1, n_nodes, 0,
      [&](std::int32_t i, const Heads& here) {
        const Vocabulary::TrieNode& node = vocabulary_.trie()[static_cast<std::size_t>(i)];
        if (here.complete && node.end > i + 1) made->returns.push_back(i);
        if (node.first_token < 0) return;
        std::vector<std::int32_t>& level = levels[stepper_.shortest(stacks, here)];
        for_each_token(vocabulary_, i, [&](std::int32_t id) {
          made->all.set(id);
          level.push_back(id);
        });
      },
      [](std::int32_t) { return true; });
  stepper_.set_work(work);
  for (auto& [rest, ids] : levels) made->levels.push_back({rest, std::move(ids)});
  charge(made->memory_bytes());
  return *(masks_[frame] = std::move(made));
}

const CharacterTable& Masker::table_of(std::int32_t rule) {
  std::shared_ptr<const CharacterTable>& table = tables_[rule];
  if (table == nullptr) table = character_table(stepper_.frames(), rule, vocabulary_);
  return *table;
}

void Masker::add(Stacks& stacks, const Heads& heads, Length budget, Mask& mask) {
  const Stacks::Mark mark = stacks.mark();
  bool has_named = false;
  std::vector<Head> calls = heads.list;
  std::sort(calls.begin(), calls.end(), [](const Head& a, const Head& b) { return a.frame < b.frame; });
  for (auto first = calls.begin(); first != calls.end();) {
    const FrameId f = first->frame;
    const auto end = std::find_if(first, calls.end(), [&](const Head& h) { return h.frame != f; });
    const Frame& frame = stepper_.frames().at(f);
    has_named |= frame.has_steps && !stepper_.frames().with_steps(f).token_steps.empty();
    const bool counts = stepper_.frames().at(f).body >= 0 && stepper_.frames().at(f).inside < 0;
    counts ? add_count(stacks, {first, end}, budget, mask) : add_frame(stacks, {first, end}, budget, mask);
    stacks.drop_to(mark);
    first = end;
  }
  if (has_named) add_named(stacks, heads, budget, mask);
  stacks.drop_to(mark);
}

void Masker::add_frame(Stacks& stacks, Calls calls, Length budget, Mask& mask) {
  const FrameMask& own = frame_mask(calls.front().frame);
  const Length below = shortest_below(stacks, calls);
  if (!own.levels.empty() && sum(own.levels.back().rest, below) <= budget) {
    mask |= own.all;
  } else {
    for (const FrameMask::Level& level : own.levels) {
      if (sum(level.rest, below) > budget) break;
      for (const std::int32_t id : level.ids) mask.set(id);
    }
  }
  if (own.returns.empty()) return;
  const auto returns_at = [&](std::int32_t i) { return std::binary_search(own.returns.begin(), own.returns.end(), i); };
  add_after_return(stacks, calls, &own.returns, returns_at, budget, mask);
}

void Masker::add_count(Stacks& stacks, Calls calls, Length budget, Mask& mask) {
  const FrameId frame = calls.front().frame;
  const std::int32_t body = stepper_.frames().at(frame).body;
  const std::vector<Remaining> remaining = stepper_.frames().at(frame).remaining;
  const CharacterTable& table = table_of(body);
  const Length one = stepper_.frames().network().rules[static_cast<std::size_t>(body)].shortest;
  const Length below = shortest_below(stacks, calls);
  for (const Remaining& r : remaining) {
    const auto allows = [&](const CharacterTable::Group& g) {
      const Length rest = sum(g.rest, product(std::max<std::int64_t>(r.min - g.n_begun, 0), one));
      return (r.max == kUnlimited || g.n_begun <= r.max) && sum(rest, below) <= budget;
    };
    std::size_t n_allowed = 0, n_all = 0;
    for (const auto& g : table.groups) n_all += g.ids.size(), n_allowed += allows(g) ? g.ids.size() : 0;
    if (n_allowed * 2 > n_all) {
      Mask most = table.all;
      for (const auto& g : table.groups) {
        if (allows(g)) continue;
        for (const std::int32_t id : g.ids) most.clear(id);
      }
      mask |= most;
    } else {
      for (const auto& g : table.groups) {
        if (!allows(g)) continue;
        for (const std::int32_t id : g.ids) mask.set(id);
      }
    }
  }
  const auto returns_at = [&](std::int32_t i) {
    const std::uint16_t n = table.counts[static_cast<std::size_t>(i)];
    return n != CharacterTable::kInside &&
           std::any_of(remaining.begin(), remaining.end(), [&](const Remaining& r) { return fits(r, n); });
  };
  add_after_return(stacks, calls, nullptr, returns_at, budget, mask);
}

template <class ReturnsAt>
void Masker::add_after_return(Stacks& stacks, Calls calls, const std::vector<std::int32_t>* places,
                              ReturnsAt returns_at, Length budget, Mask& mask) {
  Heads after, next;
  stepper_.pop(stacks, calls, after);
  if (after.list.empty()) return;
  const auto trie = vocabulary_.trie();
  const bool is_anywhere = places == nullptr || places->size() > kFewReturns;
  bool prunes = false;  // a token that is known to be allowed need not be found again
  const std::uint64_t work = stepper_.work();
  const auto is_wanted = [&](std::int32_t i) { return !prunes || has_missing(i); };
  const auto go_on = [&](std::int32_t i) {  // from node i, which `next` has read
    if (!prunes && stepper_.work() > work + kMuchWork) prunes = true, count_missing(mask);
    if (stepper_.shortest(stacks, next) <= budget)
      for_each_token(vocabulary_, i, [&](std::int32_t id) { mask.set(id); });
    const Vocabulary::TrieNode& n = trie[static_cast<std::size_t>(i)];
    if (n.end == i + 1) return;
    walk(
        stacks, next, i + 1, n.end, n.depth,
        [&](std::int32_t k, const Heads& here) {
          if (trie[static_cast<std::size_t>(k)].first_token < 0 || stepper_.shortest(stacks, here) > budget) return;
          for_each_token(vocabulary_, k, [&](std::int32_t id) { mask.set(id); });
        },
        is_wanted);
  };
  const Stacks::Mark mark = stacks.mark();
  for (int byte = 0; byte < 256; ++byte) {
    const auto nodes = vocabulary_.nodes_of(static_cast<std::uint8_t>(byte));
    if (nodes.empty()) continue;
    stepper_.step(stacks, after, static_cast<std::uint8_t>(byte), next);
    if (next.alive()) {
      if (!is_anywhere) {
        for (const std::int32_t place : *places) {
          const std::int32_t end = trie[static_cast<std::size_t>(place)].end;
          for (std::int32_t i = place + 1; i < end; i = trie[static_cast<std::size_t>(i)].end) {
            if (trie[static_cast<std::size_t>(i)].byte == byte) go_on(i);
          }
        }
      } else {
        for (const std::int32_t i : nodes) {
          const std::int32_t parent = trie[static_cast<std::size_t>(i)].parent;
          if (parent > 0 && is_wanted(i) && returns_at(parent)) go_on(i);
        }
      }
    }
    stacks.drop_to(mark);
  }
}

void Masker::add_named(Stacks& stacks, const Heads& heads, Length budget, Mask& mask) {
  const Stacks::Mark mark = stacks.mark();
  Heads after;
  const auto offer = [&](std::int32_t id) {
    stepper_.step_token(stacks, heads, id, vocabulary_.is_text(id), after);
    if (after.alive() && stepper_.shortest(stacks, after) <= budget) mask.set(id);
    stacks.drop_to(mark);
  };
  bool has_negated = false;
  std::vector<std::int32_t> named;
  for (const Head& h : heads.list) {
    for (const Frame::TokenStep& s : stepper_.frames().with_steps(h.frame).token_steps) {
      const TokenSet& set = stepper_.frames().network().tokens[static_cast<std::size_t>(s.tokens)];
      has_negated |= set.is_negated;
      named.insert(named.end(), set.ids.begin(), set.ids.end());
    }
  }
  for (const std::int32_t id : named) offer(id);
  if (!has_negated) return;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(vocabulary_.size()); ++id) {
    if (vocabulary_.is_text(id)) offer(id);
  }
}

}  // namespace vitrine::constrain
