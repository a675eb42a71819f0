#include "constrain/stacks.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine::constrain {
namespace {

constexpr std::size_t kFewHeads = 24;

/// Whether two nodes call the same rule and return to the same places; false for many of them.
bool are_alike(const Stacks& stacks, std::int32_t a, std::int32_t b) {
  constexpr int kMany = 8;
  if (stacks.node(a).rule != stacks.node(b).rule) return false;
  const auto has_all_of = [&](std::int32_t node, std::int32_t other) {
    int n = 0;
    for (std::int32_t e = stacks.node(other).first_edge; e >= 0; e = stacks.edge(e).next) {
      if (++n > kMany) return false;
      std::int32_t own = stacks.node(node).first_edge;
      while (own >= 0 &&
             (stacks.edge(own).after != stacks.edge(e).after || stacks.edge(own).parent != stacks.edge(e).parent)) {
        own = stacks.edge(own).next;
      }
      if (own < 0) return false;
    }
    return true;
  };
  return has_all_of(a, b) && has_all_of(b, a);
}

std::uint64_t head_key(const Head& h) {
  return std::uint64_t{static_cast<std::uint32_t>(h.node)} << 32 | static_cast<std::uint32_t>(h.frame);
}

}  // namespace

Stacks::Stacks() {
  nodes_.push_back({.first_edge = 0, .rule = -1, .below = 0, .born = 0, .popped = 0});
  edges_.push_back({.after = kExit, .parent = -1, .next = -1});
}

void Stacks::compact(Heads& heads) {
  std::vector<std::int32_t> moved(nodes_.size(), -1), order{kBottom};
  moved[kBottom] = 0;
  const auto reach = [&](std::int32_t n) {
    if (n < 0 || moved[static_cast<std::size_t>(n)] >= 0) return;
    moved[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(order.size());
    order.push_back(n);
  };
  for (const Head& h : heads.list) reach(h.node);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::int32_t e = node(order[i]).first_edge; e >= 0; e = edge(e).next) reach(edge(e).parent);
  }
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  for (const std::int32_t n : order) {
    nodes.push_back(node(n));
    std::int32_t last = -1;
    nodes.back().first_edge = -1;
    for (std::int32_t e = node(n).first_edge; e >= 0; e = edge(e).next) {
      const std::int32_t parent = edge(e).parent < 0 ? -1 : moved[static_cast<std::size_t>(edge(e).parent)];
      const auto at = static_cast<std::int32_t>(edges.size());
      edges.push_back({edge(e).after, parent, -1});
      (last < 0 ? nodes.back().first_edge : edges[static_cast<std::size_t>(last)].next) = at;
      last = at;
    }
  }
  for (Head& h : heads.list) h.node = moved[static_cast<std::size_t>(h.node)];
  nodes_ = std::move(nodes);
  edges_ = std::move(edges);
}

Stepper::Stepper(Frames& frames)
    : frames_(frames), called_at_(frames.network().rules.size(), 0), called_node_(frames.network().rules.size(), -1) {}

Heads Stepper::begin(Stacks& stacks) {
  begin_step();
  Heads heads;
  const FrameId root = frames_.entry(frames_.network().root);
  if (root >= 0) add({Stacks::kBottom, root});
  close(stacks, {}, heads);
  return heads;
}

void Stepper::step(Stacks& stacks, const Heads& heads, std::uint8_t byte, Heads& after) {
  after.list.clear();
  after.complete = false;
  if (heads.list.size() == 1) {  // the usual case: one frame, which neither calls nor returns
    const Head& h = heads.list[0];
    const FrameId next = frames_.next(h.frame, byte);
    if (next < 0) return;
    const Frame& frame = frames_.at(next);
    if (!frame.ends && !frame.has_calls) {
      ++work_;
      after.list.push_back({h.node, next});
      return;
    }
  }
  begin_step();
  for (const Head& h : heads.list) {
    const FrameId next = frames_.next(h.frame, byte);
    if (next >= 0) add({h.node, next});
  }
  if (!pending_.empty() || !repetitions_.empty()) close(stacks, heads.list, after);
}

void Stepper::step_token(Stacks& stacks, const Heads& heads, std::int32_t id, bool is_text, Heads& after) {
  after = {};
  begin_step();
  for (const Head& h : heads.list) {
    for (const Frame::TokenStep& s : std::vector(frames_.with_steps(h.frame).token_steps)) {
      const TokenSet& set = frames_.network().tokens[static_cast<std::size_t>(s.tokens)];
      const bool is_named = std::find(set.ids.begin(), set.ids.end(), id) != set.ids.end();
      if (set.is_negated ? is_text && !is_named : is_named) add({h.node, s.after});
    }
  }
  if (!pending_.empty() || !repetitions_.empty()) close(stacks, heads.list, after);
}

void Stepper::begin_step() {
  ++now_;
  pending_.clear();
  repetitions_.clear();
  seen_.clear();
  if (!seen_set_.empty()) seen_set_.clear();
}

void Stepper::pop(Stacks& stacks, std::span<const Head> calls, Heads& after) {
  after.list.clear();
  after.complete = false;
  begin_step();
  for (const Head& h : calls) return_from(stacks, h.node, after);
  close(stacks, calls, after);
}

void Stepper::offer(Head head) {
  if (frames_.at(head.frame).body < 0 || !frames_.at(head.frame).has_calls) return add(head);
  for (Head& known : repetitions_) {
    if (known.node != head.node) continue;
    if (known.frame != head.frame) known.frame = frames_.merged(known.frame, head.frame);
    return;
  }
  repetitions_.push_back(head);
}

void Stepper::add(Head head) {
  if (seen_.size() < kFewHeads) {
    for (const Head& h : seen_) {
      if (h.node == head.node && h.frame == head.frame) return;
    }
    seen_.push_back(head);
  } else {
    if (seen_set_.empty()) {
      for (const Head& h : seen_) seen_set_.insert(head_key(h));
    }
    if (!seen_set_.insert(head_key(head)).second) return;
  }
  pending_.push_back(head);
}

void Stepper::close(Stacks& stacks, std::span<const Head> before, Heads& after) {
  const std::size_t first_node = stacks.nodes_.size();
  for (std::size_t i = 0; i < pending_.size() || !repetitions_.empty(); ++i) {
    if (i == pending_.size()) {
      for (const Head& repetition : repetitions_) add(repetition);
      repetitions_.clear();
      if (i == pending_.size()) break;
    }
    const Head head = pending_[i];
    if (++work_ > kMaxWork) {
      throw Unsupported("constraint", "the grammar is too ambiguous: a step visits more than {} states", kMaxWork);
    }
    const Frame& frame = frames_.at(head.frame);
    if (frame.reads) after.list.push_back(head);
    if (frame.ends) return_from(stacks, head.node, after);
    if (!frame.has_calls) continue;
    const std::size_t n_calls = frames_.with_steps(head.frame).calls.size();
    for (std::size_t c = 0; c < n_calls; ++c) {
      const Frame::Call call = frames_.at(head.frame).calls[c];
      std::int32_t& node = called_node_[static_cast<std::size_t>(call.rule)];
      if (std::uint64_t& at = called_at_[static_cast<std::size_t>(call.rule)]; at != now_) {
        at = now_;
        node = static_cast<std::int32_t>(stacks.nodes_.size());
        stacks.nodes_.push_back({.first_edge = -1, .rule = call.rule, .below = kNoWay, .born = now_, .popped = 0});
        add({node, frames_.entry(call.rule)});
      }
      add_edge(stacks, node, call.after, head.node, after);
    }
  }
  pending_.clear();
  if (stacks.nodes_.size() > first_node) {
    update_lengths(stacks, first_node);
    share_nodes(stacks, before, first_node, after);
  }
  if (after.list.size() > 1) merge_heads(after);
}

void Stepper::add_edge(Stacks& stacks, std::int32_t node, FrameId frame, std::int32_t parent, Heads& after) {
  // A caller that only returns is left out: the call returns to where its caller returns. Callers may be in a cycle.
  const auto only_returns = [&](FrameId of, std::int32_t caller) {
    return of >= 0 && frames_.at(of).is_only_end && stacks.node(caller).born != now_;
  };
  if (!only_returns(frame, parent)) return insert_edge(stacks, node, frame, parent, after);
  std::vector<std::int32_t> callers{parent};
  for (std::size_t i = 0; i < callers.size(); ++i) {
    for (std::int32_t e = stacks.node(callers[i]).first_edge; e >= 0;) {
      const Stacks::Edge edge = stacks.edge(e);
      if (!only_returns(edge.after, edge.parent)) {
        insert_edge(stacks, node, edge.after, edge.parent, after);
      } else if (std::find(callers.begin(), callers.end(), edge.parent) == callers.end()) {
        callers.push_back(edge.parent);
      }
      ++work_;
      e = edge.next;
    }
  }
}

void Stepper::insert_edge(Stacks& stacks, std::int32_t node, FrameId frame, std::int32_t parent, Heads& after) {
  Stacks::Node& n = stacks.nodes_[static_cast<std::size_t>(node)];
  for (std::int32_t e = n.first_edge; e >= 0; e = stacks.edge(e).next) {
    ++work_;
    if (stacks.edge(e).after == frame && stacks.edge(e).parent == parent) return;
  }
  stacks.edges_.push_back({frame, parent, n.first_edge});
  n.first_edge = static_cast<std::int32_t>(stacks.edges_.size() - 1);
  if (n.popped == now_) follow(stacks, node, frame, parent, after);
}

void Stepper::follow(const Stacks& stacks, std::int32_t node, FrameId frame, std::int32_t parent, Heads& after) {
  if (frame == kExit) {
    after.complete = true;
    return;
  }
  // A repetition of the empty text changes nothing.
  if (frames_.at(frame).body >= 0 && stacks.node(node).born == now_) return;
  offer({parent, frame});
}

void Stepper::return_from(Stacks& stacks, std::int32_t node, Heads& after) {
  Stacks::Node& n = stacks.nodes_[static_cast<std::size_t>(node)];
  if (n.popped == now_) return;
  n.popped = now_;
  for (std::int32_t e = n.first_edge; e >= 0; e = stacks.edge(e).next) {
    follow(stacks, node, stacks.edge(e).after, stacks.edge(e).parent, after);
  }
}

void Stepper::update_lengths(Stacks& stacks, std::size_t first_node) {
  for (bool changed = true; changed;) {  // a few rounds: calls of one step may be in a cycle
    changed = false;
    for (std::size_t i = first_node; i < stacks.nodes_.size(); ++i) {
      Stacks::Node& n = stacks.nodes_[i];
      for (std::int32_t e = n.first_edge; e >= 0; e = stacks.edge(e).next) {
        const Stacks::Edge& edge = stacks.edge(e);
        ++work_;
        const Length way =
            edge.after == kExit ? 0 : sum(frames_.at(edge.after).shortest, stacks.node(edge.parent).below);
        if (way < n.below) n.below = way, changed = true;
      }
    }
  }
}

/// Replaces each new node by an older one that calls the same rule and returns to the same places, if the step before
/// had one: what follows is the same. Without this, a repetition of a part that may end anywhere would have a node for
/// every place where the part may have begun.
void Stepper::share_nodes(Stacks& stacks, std::span<const Head> before, std::size_t first_node, Heads& after) {
  constexpr std::size_t kFew = 16;
  alike_.clear();
  const auto offer_node = [&](std::int32_t n) {
    if (n >= 0 && alike_.size() < kFew && std::find(alike_.begin(), alike_.end(), n) == alike_.end())
      alike_.push_back(n);
  };
  for (const Head& h : before.first(std::min(before.size(), kFew))) offer_node(h.node);
  for (std::size_t i = 0; i < alike_.size(); ++i) {
    for (std::int32_t e = stacks.node(alike_[i]).first_edge; e >= 0; e = stacks.edge(e).next) {
      offer_node(stacks.edge(e).parent);
      ++work_;
    }
  }
  std::vector<std::int32_t> shared;  // of the new nodes
  const auto moved = [&](std::int32_t n) {
    const std::size_t i = static_cast<std::size_t>(n) - first_node;
    return n >= 0 && static_cast<std::size_t>(n) >= first_node && i < shared.size() ? shared[i] : n;
  };
  bool has_shared = false;
  for (std::size_t i = first_node; i < stacks.nodes_.size(); ++i) {
    for (std::int32_t e = stacks.nodes_[i].first_edge; e >= 0; e = stacks.edge(e).next) {
      Stacks::Edge& edge = stacks.edges_[static_cast<std::size_t>(e)];
      edge.parent = moved(edge.parent);
    }
    const auto is_like = [&](std::int32_t n) { return are_alike(stacks, static_cast<std::int32_t>(i), n); };
    const auto known = std::find_if(alike_.begin(), alike_.end(), is_like);
    shared.push_back(known != alike_.end() ? *known : static_cast<std::int32_t>(i));
    has_shared = has_shared || known != alike_.end();
  }
  if (!has_shared) return;
  for (Head& h : after.list) h.node = moved(h.node);
}

void Stepper::merge_heads(Heads& after) {
  std::sort(after.list.begin(), after.list.end(),
            [](const Head& a, const Head& b) { return a.node != b.node ? a.node < b.node : a.frame < b.frame; });
  std::size_t n = 0;
  for (std::size_t i = 0; i < after.list.size(); ++i) {
    if (n > 0 && after.list[n - 1].node == after.list[i].node &&
        frames_.can_merge(after.list[n - 1].frame, after.list[i].frame)) {
      after.list[n - 1].frame = frames_.merged(after.list[n - 1].frame, after.list[i].frame);
    } else {
      after.list[n++] = after.list[i];
    }
  }
  after.list.resize(n);
}

Length Stepper::shortest(const Stacks& stacks, const Heads& heads) const {
  if (heads.complete) return 0;
  Length shortest = kNoWay;
  for (const Head& h : heads.list) {
    shortest = std::min(shortest, sum(frames_.at(h.frame).shortest, stacks.node(h.node).below));
  }
  return shortest;
}

}  // namespace vitrine::constrain
