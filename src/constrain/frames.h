// The states of rules: sets of states of the network, made when they are first reached.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "constrain/network.h"

namespace vitrine::constrain {

using FrameId = std::int32_t;
constexpr FrameId kDead = -1;  ///< No frame: no text goes on here.
constexpr FrameId kExit = -2;  ///< Where the bottom of a stack returns to.

/// How often a repeated rule may still occur: at least `min`, at most `max` times, which may be kUnlimited.
struct Remaining {
  std::int64_t min, max;
  bool operator==(const Remaining&) const = default;
};

/// Where a rule is: what it may read next, which rules it may call, whether it may end.
struct Frame {
  struct Call {
    std::int32_t rule;
    FrameId after;  ///< Where the caller continues.
  };
  struct TokenStep {
    std::int32_t tokens;  ///< Index of Network::tokens.
    FrameId after;
  };
  std::vector<std::int32_t> states;  ///< Of the network, ascending; those with bytes, calls or tokens, and the exit.
  std::int32_t body = -1;            ///< Of a repetition: the repeated rule;
  FrameId inside = kDead;            ///< the frame of the body, inside a character;
  std::vector<Remaining> remaining;  ///< and the counts, ascending, that do not touch.
  bool ends = false;                 ///< Whether the rule may end here.
  bool reads = false;                ///< Whether it may read a byte or a token here.
  bool has_calls = false;
  bool has_steps = false;  ///< Whether it has calls or reads tokens as such.
  bool is_only_end = false;
  Length shortest = kNoWay;
  std::vector<Call> calls;  ///< See Frames::with_steps().
  std::vector<TokenStep> token_steps;
  std::vector<FrameId> next;  ///< By class of bytes; empty or kUnknown until needed.
};

class Frames {
 public:
  explicit Frames(const Network& network);

  const Frame& at(FrameId f) const { return frames_[static_cast<std::size_t>(f)]; }
  /// The same with its calls and token steps, which are made when they are first needed.
  const Frame& with_steps(FrameId f) {
    const Frame& frame = at(f);
    if (frame.has_steps && frame.calls.empty() && frame.token_steps.empty()) make_steps(f);
    return at(f);
  }
  /// Where a rule begins. kDead if it has no text.
  FrameId entry(std::int32_t rule);
  /// Where `f` is after a byte.
  FrameId next(FrameId f, std::uint8_t byte) {
    Frame& frame = frames_[static_cast<std::size_t>(f)];
    const std::size_t c = network_.byte_class[byte];
    if (!frame.next.empty() && frame.next[c] != kUnknown) return frame.next[c];
    return make_next(f, byte);
  }
  /// The frame of all ways of two frames of one rule, neither or both of which are inside the same character.
  FrameId merged(FrameId a, FrameId b);
  bool can_merge(FrameId a, FrameId b) const { return at(a).inside == at(b).inside; }
  /// Whether all texts of a rule are characters, none of which begins another, read without calls. A repetition of such
  /// a rule is counted inside one frame.
  bool is_character(std::int32_t rule);
  const Network& network() const { return network_; }
  std::size_t n_frames() const { return frames_.size(); }
  /// Bytes that the frames take.
  std::size_t memory_bytes() const { return memory_; }

 private:
  static constexpr FrameId kUnknown = -3;
  struct KeyHash {
    std::size_t operator()(const std::vector<std::int64_t>& key) const;
  };

  FrameId make_next(FrameId f, std::uint8_t byte);
  FrameId next_states(const Frame& frame, std::uint8_t byte);
  FrameId next_count(const Frame& frame, std::uint8_t byte);
  /// The frame of the closure of `states`.
  FrameId of_states(std::span<const std::int32_t> states);
  FrameId of_count(std::int32_t body, FrameId inside, std::vector<Remaining> remaining);
  void describe_states(Frame& frame) const;
  void describe_count(FrameId f);
  void make_steps(FrameId f);
  FrameId intern(std::vector<std::int64_t> key, Frame frame);
  void visit(std::int32_t state);
  std::vector<Remaining> one_less(const std::vector<Remaining>& remaining) const;

  const Network& network_;
  std::vector<Frame> frames_;
  std::unordered_map<std::vector<std::int64_t>, FrameId, KeyHash> known_;
  std::vector<FrameId> entries_;           // by rule; kUnknown until needed
  std::vector<signed char> is_character_;  // by rule; -1 until needed
  std::vector<std::uint32_t> visited_;     // by state: the search that has reached it
  std::uint32_t search_ = 0;
  std::vector<std::int32_t> reached_, pending_;  // of the search
  std::size_t memory_ = 0;
};

}  // namespace vitrine::constrain
