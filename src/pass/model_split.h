// A model that several processes run together. All run the same passes in the same order, and each value has the bits
// of one process.
//
//   by layers   process 0     embedding ─▶ blocks 0 …  ─▶ send(stream)
//               process 1     receive(stream) ─▶ blocks … ─▶ head ─▶ share(logits)
//   by heads    each process computes some rows of every weight, so some columns of the result (heads, and parts of
//               the FFN, of the stream and of the logits);
//               gather() completes what the next weight reads
#pragma once

#include "tensor/tensor.h"

namespace vitrine {

class ModelSplit {
 public:
  virtual ~ModelSplit() = default;

  /// The blocks of this process: first() to end() − 1.
  virtual int first() const = 0;
  virtual int end() const = 0;
  /// Whether this process computes logits.
  virtual bool has_head() const = 0;
  /// Fills the stream before block first(), which is not 0.
  virtual void receive(const Tensor& stream) = 0;
  /// Passes the stream after block end() − 1, which is not the last, on. The caller may change it at once.
  virtual void send(const Tensor& stream) = 0;
  /// Fills `logits` in the processes that do not compute them.
  virtual void share(const Tensor& logits) = 0;

  /// Fills `whole`, whose columns the processes have computed in consecutive parts; this one has `own`. Parts of whole
  /// heads consist of units of head_dim columns; others have unit 1.
  virtual void gather(const Tensor& own, const Tensor& whole, std::int64_t unit) = 0;
};

}  // namespace vitrine
