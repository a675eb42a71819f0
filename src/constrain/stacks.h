// All ways in which a text may have been read so far: sets of stacks of frames, which share their lower parts.
//
// A call is one node for all callers at one position of the text (a graph-structured stack), so that an ambiguous
// grammar takes polynomial time and left recursion ends. Sources: Tomita 1986; Scott and Johnstone 2010, GLL parsing.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "constrain/frames.h"

namespace vitrine::constrain {

/// A call in progress: its node, and where its rule is.
struct Head {
  std::int32_t node;
  FrameId frame;
};

/// What may follow a text: the calls that may read on, and whether the bottom may return, so that the text is complete.
struct Heads {
  std::vector<Head> list;
  bool complete = false;
  bool alive() const { return complete || !list.empty(); }
};

/// The nodes and edges of the graph. Nodes made later are on top, so they can be dropped together.
class Stacks {
 public:
  struct Node {
    std::int32_t first_edge;
    std::int32_t rule;     ///< That is called.
    Length below;          ///< The shortest text from where the call returns to the bottom.
    std::uint64_t born;    ///< The step that made the node.
    std::uint64_t popped;  ///< The last step in which the call returned.
  };
  struct Edge {
    FrameId after;        ///< Where the caller continues; kExit at the bottom.
    std::int32_t parent;  ///< The node of the caller.
    std::int32_t next;    ///< The next edge of the same node; -1: none.
  };
  struct Mark {
    std::size_t nodes = 0, edges = 0;
  };

  /// One node, which returns to nothing.
  Stacks();
  static constexpr std::int32_t kBottom = 0;

  Mark mark() const { return {nodes_.size(), edges_.size()}; }
  void drop_to(const Mark& m) {
    nodes_.resize(m.nodes);
    edges_.resize(m.edges);
  }
  const Node& node(std::int32_t n) const { return nodes_[static_cast<std::size_t>(n)]; }
  const Edge& edge(std::int32_t e) const { return edges_[static_cast<std::size_t>(e)]; }
  std::size_t memory_bytes() const { return nodes_.capacity() * sizeof(Node) + edges_.capacity() * sizeof(Edge); }
  /// Removes all nodes that `heads` do not reach.
  void compact(Heads& heads);

 private:
  friend class Stepper;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

/// Moves heads over bytes. One thread at a time.
class Stepper {
 public:
  explicit Stepper(Frames& frames);

  /// What may be read at the beginning of an answer.
  Heads begin(Stacks& stacks);
  /// `after` becomes what may follow `byte` where `heads` might be read.
  void step(Stacks& stacks, const Heads& heads, std::uint8_t byte, Heads& after);
  /// The same for a token that a grammar names, or `!<token>`; `is_text`: the token is not a special one.
  void step_token(Stacks& stacks, const Heads& heads, std::int32_t id, bool is_text, Heads& after);
  /// What may follow where one of the calls returns.
  void pop(Stacks& stacks, std::span<const Head> calls, Heads& after);
  /// The length of the shortest text that completes the answer.
  Length shortest(const Stacks& stacks, const Heads& heads) const;

  Frames& frames() { return frames_; }
  /// The work since it was last set, in frames visited. Beyond kMaxWork all functions throw Unsupported: the grammar
  /// is too ambiguous.
  std::uint64_t work() const { return work_; }
  void set_work(std::uint64_t work) { work_ = work; }
  static constexpr std::uint64_t kMaxWork = 4'000'000;

 private:
  /// Adds what calls and returns reach from the heads that have been added, until nothing is new. `before`: the heads
  /// of the step before.
  void close(Stacks& stacks, std::span<const Head> before, Heads& after);
  void begin_step();
  /// Adds a head, or for a repetition, its counts to those of the same call: they are followed together.
  void offer(Head head);
  void add(Head head);
  void add_edge(Stacks& stacks, std::int32_t node, FrameId frame, std::int32_t parent, Heads& after);
  void insert_edge(Stacks& stacks, std::int32_t node, FrameId frame, std::int32_t parent, Heads& after);
  void follow(const Stacks& stacks, std::int32_t node, FrameId frame, std::int32_t parent, Heads& after);
  void return_from(Stacks& stacks, std::int32_t node, Heads& after);
  void update_lengths(Stacks& stacks, std::size_t first_node);
  void share_nodes(Stacks& stacks, std::span<const Head> before, std::size_t first_node, Heads& after);
  void merge_heads(Heads& after);

  Frames& frames_;
  std::uint64_t now_ = 0;  // the step
  std::uint64_t work_ = 0;
  std::vector<std::uint64_t> called_at_;   // by rule: the last step that called it,
  std::vector<std::int32_t> called_node_;  // and the node that it made
  std::vector<Head> pending_;
  std::vector<Head> repetitions_;    // heads that count calls, one a node, which come after the others
  std::vector<std::int32_t> alike_;  // nodes that new ones may be like
  std::vector<Head> seen_;           // in this step, while they are few
  std::unordered_set<std::uint64_t> seen_set_;
};

}  // namespace vitrine::constrain
