// The scan of a state whose sites are tapped (ops/state_scan.h): token by token, with the same kernel and so the same
// bits where taps change nothing.
//
//   W[t] = k wᵀ                     ─ tap write ─▶  W'[t]           only without the delta rule
//   S[t] = decay · C[t − 1] + W'[t] ─ tap state ─▶  S'[t]           o[t] = S'[t]ᵀ q
//   S[t]                            ─ tap carry ─▶  C[t]            token by token: the next one depends on it
//
// Backward, with the gradients dS' and dC of the taps' results and the derivatives f of their changes:
//   dS'[t] = q doᵀ,  dS[t] = f · dS'[t] + f · dC[t],  dW'[t] = dS[t],  dC[t − 1] by the scan
// If no tap replaces a value, both terms are added by one multiply-add, as in a scan that is not tapped. Else the
// states and the output are two ops of the tape.
#pragma once

#include <memory>
#include <vector>

#include "ops/state_parts.h"

namespace vitrine {

/// Where the elements of a state are in the value of a site.
struct StateLayout {
  std::int64_t heads, rows, lanes;
  bool lanes_first, has_heads;

  /// `[T, H, K, P]`, `[T, H, P, K]`, or, of Mamba, `[T, P, K]`.
  Shape shape(std::int64_t tokens) const;
  std::int64_t size() const { return heads * rows * lanes; }
  /// Copies n lanes of a head at one token, whose elements begin at `token`, to or from rows `stride` floats apart.
  void load(const float* token, std::int64_t head, std::int64_t lane, int n, float* to, std::int64_t stride) const;
  void store(const float* from, std::int64_t stride, std::int64_t head, std::int64_t lane, int n, float* token) const;

 private:
  template <class Visit>
  void each(std::int64_t head, std::int64_t lane, int n, std::int64_t stride, Visit&& visit) const;
};

class TappedStates : public std::enable_shared_from_this<TappedStates> {
 public:
  static bool are_wanted(const Pass& p, BlockSite at, const StateSites& sites);

  TappedStates(Pass& p, BlockSite at, const StateShape& shape, const StateSites& sites, const StateInputs& in,
               int number);

  /// Computes and records the output.
  Tensor run();

  /// The states and the output are two ops.
  bool reads_apart() const { return reads_apart_; }
  /// Of one block of lanes, as StateRun::block_backward.
  void block_backward(std::size_t segment, std::int64_t head, std::int64_t lane, const StateRun::Parts& parts,
                      float* scratch) const;

 private:
  bool is_rewritten() const { return written_.data != write_.data; }
  std::vector<Tensor> scanned() const;
  void tap_write();
  Tensor writes_of(WantedRows rows) const;
  void keep(const Tensor& value, const std::optional<WantedRows>& rows, std::int64_t row, const float* state,
            std::int64_t head, std::int64_t lane, int n) const;
  void scan();
  void scan_segment(const Segment& s);
  void scan_token(const Segment& s, std::int64_t t, std::int64_t head, std::int64_t lane, const Tensor& current,
                  float* scratch) const;
  void read(const float* query, int n, float* state, const float* zeros, float* to) const;
  void tap_states();
  void read_again() const;
  void write_backward() const;
  void read_backward() const;
  void scan_backward();

  Pass& p_;
  BlockSite at_;
  StateSites sites_;
  StateRun run_;
  StateLayout layout_;
  Tensor write_, written_;                                    // before and after the tap
  Tensor states_, read_;                                      // the same
  Tensor carried_;                                            // after the tap; with a tape also without one
  std::optional<WantedRows> rows_of_states_, rows_of_carry_;  // if no others are kept
  Tensor carry_factor_, carry_gradient_;
  bool steps_carry_;  // the tap may change each before the next token
  bool reads_apart_ = false;
  Tensor dstates_, dwrite_;  // during the backward
};

}  // namespace vitrine
