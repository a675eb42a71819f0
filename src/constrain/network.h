// A recursive transition network: for each rule of a grammar an automaton over bytes, whose edges may call rules.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "constrain/grammar.h"

namespace vitrine::constrain {

/// The length in bytes of the shortest way to an end; kNoWay if there is none. Sums of lengths stay below kNoWay.
using Length = std::int64_t;
constexpr Length kNoWay = std::numeric_limits<std::int64_t>::max() / 4;

inline Length sum(Length a, Length b) { return a >= kNoWay || b >= kNoWay ? kNoWay : a + b; }
Length product(std::int64_t count, Length length);

struct NetworkEdge {
  enum class Kind : std::uint8_t { bytes, nothing, call, token };
  std::int32_t to;
  std::int32_t next;  ///< The next edge from the same state; -1: none.
  Kind kind;
  std::uint8_t first = 0, last = 0;  ///< bytes: both included.
  std::int32_t index = 0;            ///< call: the rule; token: the set.
};

struct NetworkRule {
  std::int32_t entry = -1, exit = -1;  ///< States; -1 in a counted rule.
  std::int32_t body = -1;              ///< Of a counted rule: the rule that is repeated `min` to `max` times.
  std::int64_t min = 0, max = 0;
  Length shortest = kNoWay;
};

struct Network {
  std::vector<std::int32_t> first_edge;  ///< One a state; -1: none.
  std::vector<NetworkEdge> edges;
  std::vector<Length> shortest;  ///< From each state to the exit of its rule.
  std::vector<NetworkRule> rules;
  std::vector<TokenSet> tokens;
  std::int32_t root = 0;
  std::array<std::uint8_t, 256> byte_class{};  ///< Bytes of one class are on the same edges.
  int n_classes = 0;

  std::size_t memory_bytes() const;
};

/// The automaton of `grammar`, whose texts consist of `alphabet`. Throws OutOfCapacity if it is too large.
Network compile_network(const Grammar& grammar, const CharSet& alphabet);

/// The shortest lengths of all states and rules.
void find_shortest(Network& network);

}  // namespace vitrine::constrain
