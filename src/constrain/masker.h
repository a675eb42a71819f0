// Which tokens may follow: masks that depend on the top frame alone are kept, the rest of the trie is walked.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "constrain/character_table.h"
#include "constrain/stacks.h"
#include "constrain/vocabulary.h"

namespace vitrine::constrain {

/// The tokens that a frame allows whatever is below it, and where it returns inside a token.
struct FrameMask {
  /// Tokens after which the frame needs the same number of bytes to return.
  struct Level {
    Length rest;
    std::vector<std::int32_t> ids;
  };
  Mask all;
  std::vector<Level> levels;          ///< Ascending.
  std::vector<std::int32_t> returns;  ///< Nodes of the trie at whose end the frame may return, ascending.
  std::size_t memory_bytes() const;
};

/// Makes masks for one automaton and one vocabulary. One thread at a time.
class Masker {
 public:
  Masker(Stepper& stepper, const Vocabulary& vocabulary) : stepper_(stepper), vocabulary_(vocabulary) {}

  /// Sets the bits of all text tokens that `heads` allow, after which the answer can be completed by at most `budget`
  /// bytes. Named tokens are among them. The nodes that it adds to `stacks` are dropped again.
  void add(Stacks& stacks, const Heads& heads, Length budget, Mask& mask);

  std::size_t memory_bytes() const { return memory_; }

 private:
  const FrameMask& frame_mask(FrameId frame);
  const CharacterTable& table_of(std::int32_t rule);
  /// Calls of one rule that are at the same frame: where they return to differs.
  using Calls = std::span<const Head>;
  void add_frame(Stacks& stacks, Calls calls, Length budget, Mask& mask);
  void add_count(Stacks& stacks, Calls calls, Length budget, Mask& mask);
  void add_named(Stacks& stacks, const Heads& heads, Length budget, Mask& mask);
  /// The tokens that go on after one of the calls has returned; `returns_at(trie node)` says where it may.
  template <class ReturnsAt>
  void add_after_return(Stacks& stacks, Calls calls, const std::vector<std::int32_t>* places, ReturnsAt returns_at,
                        Length budget, Mask& mask);
  /// Visits the trie nodes [begin, end), descendants of one node that `heads` have reached at `depth`, in order:
  /// `reached(trie node, heads)` for those that the automaton reaches. A node for which `is_wanted(trie node)` is false
  /// is left out with all below it.
  template <class Reached, class Wanted>
  void walk(Stacks& stacks, const Heads& heads, std::int32_t begin, std::int32_t end, int depth, Reached reached,
            Wanted is_wanted);
  /// Counts the tokens that `mask` lacks, so that has_missing() can tell where they are.
  void count_missing(const Mask& mask);
  /// Whether the mask lacked a token at the node or below it.
  bool has_missing(std::int32_t node) const {
    const auto end = static_cast<std::size_t>(vocabulary_.trie()[static_cast<std::size_t>(node)].end);
    return n_missing_[end] > n_missing_[static_cast<std::size_t>(node)];
  }
  void charge(std::size_t bytes);

  Stepper& stepper_;
  const Vocabulary& vocabulary_;
  std::unordered_map<FrameId, std::unique_ptr<FrameMask>> masks_;
  std::unordered_map<std::int32_t, std::shared_ptr<const CharacterTable>> tables_;
  std::vector<Heads> path_;  // of walk(), by depth
  std::vector<Stacks::Mark> path_marks_;
  std::vector<std::int32_t> n_missing_;  // before each node of the trie
  std::size_t memory_ = 0;
};

}  // namespace vitrine::constrain
