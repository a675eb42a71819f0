// A model that several processes run together. All run the same passes in the same order, and each value has the bits
// of one process.
//
//   by layers   process 0     embedding ─▶ blocks 0 …  ─▶ send(stream)
//               process 1     receive(stream) ─▶ blocks … ─▶ share(rows with logits)
//               each computes some rows of the head's weight; gather() completes the logits
//   by heads    each process computes some rows of every weight, so some columns of the result (heads, and parts of
//               the FFN, of the stream and of the logits);
//               gather() completes what the next weight reads
#pragma once

#include "pass/sites.h"
#include "tensor/tensor.h"

namespace vitrine {

struct Pass;

class ModelSplit {
 public:
  /// The parts of a value's columns: equal ones, or whole query or K/V heads.
  enum class Parts : std::uint8_t { columns, heads, kv_heads };

  virtual ~ModelSplit() = default;

  /// The blocks of this process: first() to end() − 1.
  virtual int first() const = 0;
  virtual int end() const = 0;
  /// Fills the stream before block first(), which is not 0.
  virtual void receive(const Tensor& stream) = 0;
  /// Called after block end() − 1: passes the stream on, if another process has later blocks. The caller may change it
  /// at once.
  virtual void send(Pass& p, const Tensor& stream) = 0;
  /// Copies rows of the stream after the last block to the processes that have not computed it.
  virtual void share(const Tensor& rows) = 0;

  /// Fills `whole`, whose columns the processes have computed in consecutive parts; this one has `own`.
  virtual void gather(const Tensor& own, const Tensor& whole, Parts parts) = 0;

  /// Shows a value, of which this process may have a part, to the taps: as a whole, to those of process 0. Those of the
  /// others decide which sites are visited, and may see values, too. Returns the value, or the part, to continue with.
  virtual Tensor visit(Pass& p, const SiteId& id, const Tensor& value) = 0;
};

}  // namespace vitrine
