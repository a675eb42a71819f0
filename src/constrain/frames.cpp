#include "constrain/frames.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace vitrine::constrain {
namespace {

using EdgeKind = NetworkEdge::Kind;

/// The union of counts. Counts that touch are one: n to m times, or m + 1 to k times, is n to k times.
std::vector<Remaining> joined(std::vector<Remaining> parts) {
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.min < b.min; });
  std::vector<Remaining> all;
  for (const Remaining& r : parts) {
    if (all.empty() || (all.back().max != kUnlimited && all.back().max + 1 < r.min)) {
      all.push_back(r);
    } else if (all.back().max != kUnlimited) {
      all.back().max = r.max == kUnlimited ? kUnlimited : std::max(all.back().max, r.max);
    }
  }
  return all;
}

template <class Visit>
void for_each_edge(const Network& network, std::int32_t state, Visit visit) {
  for (std::int32_t e = network.first_edge[static_cast<std::size_t>(state)]; e >= 0;) {
    const NetworkEdge& edge = network.edges[static_cast<std::size_t>(e)];
    visit(edge);
    e = edge.next;
  }
}

bool is_possible(const Network& network, const NetworkEdge& edge) {
  return network.shortest[static_cast<std::size_t>(edge.to)] < kNoWay &&
         (edge.kind != EdgeKind::call || network.rules[static_cast<std::size_t>(edge.index)].shortest < kNoWay);
}

}  // namespace

std::size_t Frames::KeyHash::operator()(const std::vector<std::int64_t>& key) const {
  std::uint64_t h = 0xCBF29CE484222325ULL;
  for (const std::int64_t v : key) h = (h ^ static_cast<std::uint64_t>(v)) * 0x9E3779B97F4A7C15ULL, h ^= h >> 29;
  return h;
}

Frames::Frames(const Network& network)
    : network_(network),
      entries_(network.rules.size(), kUnknown),
      is_character_(network.rules.size(), -1),
      visited_(network.first_edge.size(), 0) {}

FrameId Frames::entry(std::int32_t rule) {
  FrameId& known = entries_[static_cast<std::size_t>(rule)];
  if (known != kUnknown) return known;
  const NetworkRule& r = network_.rules[static_cast<std::size_t>(rule)];
  if (r.shortest >= kNoWay) return known = kDead;
  if (r.body < 0) return known = of_states({&r.entry, 1});
  const Length body = network_.rules[static_cast<std::size_t>(r.body)].shortest;
  // A text without the body is all that is left of a body that has none; an empty body may occur any number of times.
  const FrameId frame = of_count(r.body, kDead, {{body == 0 ? 0 : r.min, body >= kNoWay ? 0 : r.max}});
  return entries_[static_cast<std::size_t>(rule)] = frame;
}

bool Frames::is_character(std::int32_t rule) {
  signed char& known = is_character_[static_cast<std::size_t>(rule)];
  if (known >= 0) return known != 0;
  known = 0;
  if (network_.rules[static_cast<std::size_t>(rule)].body >= 0 || entry(rule) < 0) return false;
  constexpr std::size_t kMaxFrames = 2048;
  std::vector<FrameId> all{entry(rule)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (at(all[i]).ends && at(all[i]).reads) return false;
    if (at(all[i]).has_steps || all.size() > kMaxFrames) return false;
    if (i == 0 && at(all[i]).ends) return false;
    for (int byte = 0; byte < 256; ++byte) {
      const FrameId after = next(all[i], static_cast<std::uint8_t>(byte));
      if (after >= 0 && std::find(all.begin(), all.end(), after) == all.end()) all.push_back(after);
    }
  }
  is_character_[static_cast<std::size_t>(rule)] = 1;
  return true;
}

void Frames::visit(std::int32_t state) {
  std::uint32_t& seen = visited_[static_cast<std::size_t>(state)];
  if (seen == search_ || network_.shortest[static_cast<std::size_t>(state)] >= kNoWay) return;
  seen = search_;
  pending_.push_back(state);
}

FrameId Frames::of_states(std::span<const std::int32_t> states) {
  ++search_;
  reached_.clear();
  for (const std::int32_t s : states) visit(s);
  while (!pending_.empty()) {
    const std::int32_t s = pending_.back();
    pending_.pop_back();
    bool matters = network_.first_edge[static_cast<std::size_t>(s)] < 0;  // an exit
    for_each_edge(network_, s, [&](const NetworkEdge& e) {
      if (e.kind == EdgeKind::nothing) {
        visit(e.to);
      } else {
        matters |= is_possible(network_, e);
      }
    });
    if (matters) reached_.push_back(s);
  }
  if (reached_.empty()) return kDead;
  Frame frame;
  frame.states = reached_;
  std::sort(frame.states.begin(), frame.states.end());
  std::vector<std::int64_t> key(frame.states.begin(), frame.states.end());
  return intern(std::move(key), std::move(frame));
}

FrameId Frames::of_count(std::int32_t body, FrameId inside, std::vector<Remaining> remaining) {
  Frame frame;
  frame.body = body;
  frame.inside = inside;
  frame.remaining = std::move(remaining);
  std::vector<std::int64_t> key{-1, body, inside};
  for (const Remaining& r : frame.remaining) key.insert(key.end(), {r.min, r.max});
  return intern(std::move(key), std::move(frame));
}

FrameId Frames::intern(std::vector<std::int64_t> key, Frame frame) {
  const auto [known, is_new] = known_.try_emplace(std::move(key), static_cast<FrameId>(frames_.size()));
  if (!is_new) return known->second;
  const FrameId f = known->second;
  memory_ += sizeof(Frame) + 96 + known->first.size() * 12 + frame.remaining.size() * sizeof(Remaining);
  if (memory_ > kMaxMemory / 2) {
    throw Unsupported("constraint", "the states reached take more than {} MiB", kMaxMemory / 2 >> 20);
  }
  frames_.push_back(std::move(frame));
  frames_.back().body >= 0 ? describe_count(f) : describe_states(frames_.back());
  return f;
}

void Frames::describe_states(Frame& frame) const {
  for (const std::int32_t s : frame.states) {
    frame.shortest = std::min(frame.shortest, network_.shortest[static_cast<std::size_t>(s)]);
    frame.ends |= network_.first_edge[static_cast<std::size_t>(s)] < 0;
    for_each_edge(network_, s, [&](const NetworkEdge& e) {
      if (e.kind == EdgeKind::nothing || !is_possible(network_, e)) return;
      frame.has_steps |= e.kind == EdgeKind::call || e.kind == EdgeKind::token;
      frame.has_calls |= e.kind == EdgeKind::call;
      frame.reads |= e.kind != EdgeKind::call;
    });
  }
  frame.is_only_end = frame.ends && !frame.reads && !frame.has_calls;
}

void Frames::describe_count(FrameId f) {
  const bool is_counted_here = is_character(at(f).body);  // before the reference: it may make frames
  Frame& frame = frames_[static_cast<std::size_t>(f)];
  const Length one = network_.rules[static_cast<std::size_t>(frame.body)].shortest;
  for (const Remaining& r : frame.remaining) frame.shortest = std::min(frame.shortest, product(r.min, one));
  if (frame.inside >= 0) frame.shortest = sum(frame.shortest, at(frame.inside).shortest);
  const bool has_more = frame.remaining.back().max != 0;
  frame.ends = frame.inside < 0 && frame.remaining[0].min == 0;
  frame.reads = is_counted_here && (has_more || frame.inside >= 0);
  frame.has_calls = frame.has_steps = has_more && !is_counted_here;
  frame.is_only_end = frame.ends && !has_more;
}

void Frames::make_steps(FrameId f) {
  if (at(f).body >= 0) {
    const std::int32_t body = at(f).body;
    const FrameId after = of_count(body, kDead, one_less(at(f).remaining));
    frames_[static_cast<std::size_t>(f)].calls.push_back({body, after});
    return;
  }
  std::map<std::int32_t, std::vector<std::int32_t>> calls, tokens;  // what is called or read → where it leads
  for (const std::int32_t s : at(f).states) {
    for_each_edge(network_, s, [&](const NetworkEdge& e) {
      if (e.kind == EdgeKind::call && is_possible(network_, e)) calls[e.index].push_back(e.to);
      if (e.kind == EdgeKind::token && is_possible(network_, e)) tokens[e.index].push_back(e.to);
    });
  }
  for (const auto& [rule, to] : calls) {
    const FrameId after = of_states(to);
    frames_[static_cast<std::size_t>(f)].calls.push_back({rule, after});
  }
  for (const auto& [set, to] : tokens) {
    const FrameId after = of_states(to);
    frames_[static_cast<std::size_t>(f)].token_steps.push_back({set, after});
  }
}

std::vector<Remaining> Frames::one_less(const std::vector<Remaining>& remaining) const {
  std::vector<Remaining> less;
  for (const Remaining& r : remaining) {
    if (r.max == 0) continue;
    less.push_back({std::max<std::int64_t>(r.min - 1, 0), r.max == kUnlimited ? kUnlimited : r.max - 1});
  }
  return joined(std::move(less));
}

FrameId Frames::make_next(FrameId f, std::uint8_t byte) {
  const FrameId after = at(f).body >= 0 ? next_count(at(f), byte) : next_states(at(f), byte);
  Frame& frame = frames_[static_cast<std::size_t>(f)];
  if (frame.next.empty()) {
    frame.next.assign(static_cast<std::size_t>(network_.n_classes), kUnknown);
    memory_ += frame.next.size() * sizeof(FrameId);
  }
  return frame.next[network_.byte_class[byte]] = after;
}

FrameId Frames::next_states(const Frame& frame, std::uint8_t byte) {
  std::vector<std::int32_t> after;
  for (const std::int32_t s : frame.states) {
    for_each_edge(network_, s, [&](const NetworkEdge& e) {
      if (e.kind == EdgeKind::bytes && e.first <= byte && byte <= e.last) after.push_back(e.to);
    });
  }
  return after.empty() ? kDead : of_states(after);
}

FrameId Frames::next_count(const Frame& frame, std::uint8_t byte) {
  if (!is_character(frame.body)) return kDead;
  const std::int32_t body = frame.body;
  const bool begins = frame.inside < 0;
  if (begins && frame.remaining.back().max == 0) return kDead;
  std::vector<Remaining> remaining = begins ? one_less(frame.remaining) : frame.remaining;
  const FrameId inside = next(begins ? entry(body) : frame.inside, byte);
  if (inside < 0) return kDead;
  return of_count(body, at(inside).ends ? kDead : inside, std::move(remaining));
}

FrameId Frames::merged(FrameId a, FrameId b) {
  if (at(a).body < 0) {
    std::vector<std::int32_t> states = at(a).states;
    states.insert(states.end(), at(b).states.begin(), at(b).states.end());
    return of_states(states);
  }
  std::vector<Remaining> remaining = at(a).remaining;
  remaining.insert(remaining.end(), at(b).remaining.begin(), at(b).remaining.end());
  return of_count(at(a).body, at(a).inside, joined(std::move(remaining)));
}

}  // namespace vitrine::constrain
