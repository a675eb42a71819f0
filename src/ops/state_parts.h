// The parts of a state's scan (ops/state_scan.h): the operands of one pass, and the loops over heads and lanes.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/state_scan.h"

namespace vitrine {

class TappedStates;

class StateRun {
 public:
  /// `keeps`: with a tape, the forward keeps states for the backward.
  StateRun(Pass& p, BlockSite at, const StateShape& shape, const StateInputs& in, int number, bool keeps = true);

  void forward();
  /// `taps`: of a forward that has been theirs; null without.
  void backward(const TappedStates* taps = nullptr);

  Tensor out;  // [T, H, P]

 private:
  friend class TappedStates;

  /// The gradients that sums over lanes give, by head, or, of one head, by block of lanes: a part of the work each.
  struct Parts {
    std::int64_t n;
    Tensor out{};              // the gradient of the output
    Tensor queries{}, keys{};  // [T, n, K]
    Tensor decays{}, betas{};  // [T, n, 1 or K], [T, n]
    Tensor rates{};            // of elements: [segments, blocks, K, kBackwardLanes]
  };

  StateScan operands(const Segment& s, std::int64_t head, std::int64_t lane) const;
  void scan_block(std::size_t segment, std::int64_t head, std::int64_t lane, float* state) const;
  /// Lets the caches compute the states after some tokens of this pass.
  void keep_replays() const;
  void block_backward(std::size_t segment, std::int64_t head, std::int64_t lane, const Parts& parts,
                      float* scratch) const;
  void keep_rates(std::size_t segment, std::int64_t lane, const Parts& parts, const float* drates) const;
  void gather(const Parts& parts);
  StateScanGradients gradients(const Segment& s, std::int64_t head, std::int64_t lane, const Parts& parts,
                               float* rates) const;
  /// S of a head before token `number` · interval of a segment, with a tape.
  float* kept(std::size_t segment, std::int64_t number, std::int64_t head) const {
    return kept_.row(first_kept_[segment] + number - 1) + head * shape_.rows * shape_.lanes;
  }
  std::vector<Segment>& segments() const { return p_.segments_of(at_.stack); }

  /// The state of a segment before its first token `[H, K, P]`, as the cache has it; null: zeros.
  const float* first_state(const Segment& s) const {
    return s.cache != nullptr && s.position > 0 ? s.cache->state<float>(at_.layer, number_).data() : nullptr;
  }

  Pass& p_;
  BlockSite at_;
  StateShape shape_;
  StateInputs in_;
  int number_;
  std::int64_t interval_;
  Tensor factors_;       // what the state is multiplied by, [T, H] or [T, H, K]; of elements the steps
  Tensor decayed_keys_;  // [T, H, K], of the delta rule with a decay of each row
  Tensor rates_;         // [K, P]
  Tensor kept_;          // [n, H, K, P]
  std::vector<std::int64_t> first_kept_;
};

/// The gradients of the tokens from `token` on.
inline StateScanGradients from_token(const StateScanGradients& all, std::int64_t token) {
  StateScanGradients d = all;
  d.out = all.out.from(token);
  for (TokenGradients* const g : {&d.keys, &d.queries, &d.decays, &d.values, &d.betas}) *g = g->from(token);
  return d;
}

/// The lanes from `first` on that a block of `most` has.
inline int lanes_from(const StateShape& shape, std::int64_t first, int most) {
  return static_cast<int>(std::min<std::int64_t>(most, shape.lanes - first));
}

}  // namespace vitrine
