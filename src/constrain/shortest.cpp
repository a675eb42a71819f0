// The shortest texts of states and rules: Knuth's generalization of Dijkstra's algorithm to grammars.
//
// Source: Knuth 1977, A generalization of Dijkstra's algorithm.
#include <algorithm>
#include <queue>
#include <utility>

#include "constrain/network.h"

namespace vitrine::constrain {
namespace {

class Shortest {
 public:
  explicit Shortest(Network& network) : network_(network) {
    const std::size_t n = network.first_edge.size();
    network.shortest.assign(n, kNoWay);
    entry_of_.assign(n, -1);
    callers_.resize(network.rules.size());
    counted_by_.resize(network.rules.size());
    index_incoming_edges();
  }

  void run() {
    for (std::size_t r = 0; r < network_.rules.size(); ++r) {
      const NetworkRule& rule = network_.rules[r];
      if (rule.body < 0) {
        entry_of_[static_cast<std::size_t>(rule.entry)] = static_cast<std::int32_t>(r);
        queue_.push({0, false, rule.exit});
      } else if (rule.min == 0) {
        queue_.push({0, true, static_cast<std::int32_t>(r)});
      } else {
        counted_by_[static_cast<std::size_t>(rule.body)].push_back(static_cast<std::int32_t>(r));
      }
    }
    while (!queue_.empty()) {
      const Item item = queue_.top();
      queue_.pop();
      item.is_rule ? settle_rule(item.id, item.length) : settle_state(item.id, item.length);
    }
  }

 private:
  struct Item {
    Length length;
    bool is_rule;
    std::int32_t id;
    bool operator<(const Item& other) const { return length > other.length; }  // the shortest first
  };
  struct Caller {
    std::int32_t state;
    Length after;
  };

  void index_incoming_edges() {
    incoming_.assign(network_.first_edge.size() + 1, 0);
    for (const NetworkEdge& e : network_.edges) ++incoming_[static_cast<std::size_t>(e.to) + 1];
    for (std::size_t i = 1; i < incoming_.size(); ++i) incoming_[i] += incoming_[i - 1];
    sources_.resize(network_.edges.size());
    std::vector<std::int32_t> next(incoming_.begin(), incoming_.end() - 1);
    for (std::size_t s = 0; s < network_.first_edge.size(); ++s) {
      for (std::int32_t e = network_.first_edge[s]; e >= 0; e = network_.edges[static_cast<std::size_t>(e)].next) {
        const auto to = static_cast<std::size_t>(network_.edges[static_cast<std::size_t>(e)].to);
        sources_[static_cast<std::size_t>(next[to]++)] = {static_cast<std::int32_t>(s), e};
      }
    }
  }

  void settle_state(std::int32_t state, Length length) {
    Length& known = network_.shortest[static_cast<std::size_t>(state)];
    if (known <= length) return;
    known = length;
    if (const std::int32_t rule = entry_of_[static_cast<std::size_t>(state)]; rule >= 0) {
      queue_.push({length, true, rule});
    }
    for (auto i = incoming_[static_cast<std::size_t>(state)]; i < incoming_[static_cast<std::size_t>(state) + 1]; ++i) {
      const auto [source, edge] = sources_[static_cast<std::size_t>(i)];
      const NetworkEdge& e = network_.edges[static_cast<std::size_t>(edge)];
      if (e.kind == NetworkEdge::Kind::call) {
        const NetworkRule& rule = network_.rules[static_cast<std::size_t>(e.index)];
        if (rule.shortest < kNoWay) queue_.push({sum(rule.shortest, length), false, source});
        if (rule.shortest == kNoWay) callers_[static_cast<std::size_t>(e.index)].push_back({source, length});
      } else {
        queue_.push({length + (e.kind == NetworkEdge::Kind::nothing ? 0 : 1), false, source});
      }
    }
  }

  void settle_rule(std::int32_t rule, Length length) {
    Length& known = network_.rules[static_cast<std::size_t>(rule)].shortest;
    if (known <= length || length >= kNoWay) return;
    known = length;
    for (const Caller& c : callers_[static_cast<std::size_t>(rule)])
      queue_.push({sum(length, c.after), false, c.state});
    for (const std::int32_t counted : counted_by_[static_cast<std::size_t>(rule)]) {
      queue_.push({product(network_.rules[static_cast<std::size_t>(counted)].min, length), true, counted});
    }
  }

  Network& network_;
  std::vector<std::int32_t> entry_of_;                          // the rule whose entry a state is, or -1
  std::vector<std::int32_t> incoming_;                          // the first of each state's sources
  std::vector<std::pair<std::int32_t, std::int32_t>> sources_;  // state, edge
  std::vector<std::vector<Caller>> callers_;                    // of a rule that is not settled
  std::vector<std::vector<std::int32_t>> counted_by_;
  std::priority_queue<Item> queue_;
};

}  // namespace

void find_shortest(Network& network) { Shortest(network).run(); }

}  // namespace vitrine::constrain
