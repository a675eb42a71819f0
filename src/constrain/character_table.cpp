#include "constrain/character_table.h"

#include <map>
#include <string>
#include <utility>

namespace vitrine::constrain {
namespace {

/// The automaton of the characters, in a form that does not depend on the network: equal for equal characters.
std::string signature(Frames& frames, std::int32_t rule) {
  std::string all;
  std::map<FrameId, std::size_t> numbers{{frames.entry(rule), 0}};
  std::vector<FrameId> order{frames.entry(rule)};
  for (std::size_t i = 0; i < order.size(); ++i) {
    all += frames.at(order[i]).ends ? '+' : '-';
    int last = -1, run = 0;
    for (int byte = 0; byte < 256; ++byte) {
      const FrameId after = frames.next(order[i], static_cast<std::uint8_t>(byte));
      int number = -1;
      if (after >= 0) {
        const auto [known, is_new] = numbers.try_emplace(after, order.size());
        if (is_new) order.push_back(after);
        number = static_cast<int>(known->second);
      }
      if (number != last) {
        all += std::to_string(run) + ':' + std::to_string(number) + ' ';
        last = number;
        run = 0;
      }
      ++run;
    }
  }
  return all;
}

std::shared_ptr<const CharacterTable> make_table(Frames& frames, std::int32_t rule, const Vocabulary& vocabulary) {
  auto made = std::make_shared<CharacterTable>();
  made->all = Mask(vocabulary.size());
  const auto trie = vocabulary.trie();
  made->counts.assign(trie.size(), CharacterTable::kInside);
  std::map<std::pair<std::int64_t, Length>, std::vector<std::int32_t>> groups;
  const FrameId entry = frames.entry(rule);
  struct Place {
    FrameId inside;
    std::uint16_t n_whole;
  };
  std::vector<Place> path(static_cast<std::size_t>(vocabulary.max_depth()) + 1, {kDead, 0});
  for (std::size_t i = 1; i < trie.size();) {
    const Place& before = path[trie[i].depth - 1U];
    const FrameId after = frames.next(before.inside < 0 ? entry : before.inside, trie[i].byte);
    if (after < 0) {
      i = static_cast<std::size_t>(trie[i].end);
      continue;
    }
    const bool is_whole = frames.at(after).ends;
    Place& here = path[trie[i].depth];
    here = {is_whole ? kDead : after, static_cast<std::uint16_t>(before.n_whole + (is_whole ? 1 : 0))};
    if (is_whole) made->counts[i] = here.n_whole;
    if (trie[i].first_token >= 0) {
      auto& group = groups[{here.n_whole + (is_whole ? 0 : 1), is_whole ? 0 : frames.at(after).shortest}];
      for_each_token(vocabulary, static_cast<std::int32_t>(i), [&](std::int32_t id) {
        made->all.set(id);
        group.push_back(id);
      });
    }
    ++i;
  }
  for (auto& [key, ids] : groups) made->groups.push_back({key.first, key.second, std::move(ids)});
  return made;
}

}  // namespace

std::shared_ptr<const CharacterTable> character_table(Frames& frames, std::int32_t rule, const Vocabulary& vocabulary) {
  const std::string key = signature(frames, rule);
  if (auto known = vocabulary.known_table(key)) return known;
  auto made = make_table(frames, rule, vocabulary);
  vocabulary.keep_table(key, made);
  return made;
}

}  // namespace vitrine::constrain
