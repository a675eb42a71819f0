// A model that several processes run together. All run the same passes in the same order, and each value has the bits
// of one process.
//
//   by layers   process 0     embedding ─▶ blocks 0 …  ─▶ send(stream)
//               process 1     receive(stream) ─▶ blocks … ─▶ share(rows with logits)
//               each computes some rows of the head's weight; gather() completes the logits
//   by heads    each process computes some rows of every weight, so some columns of the result (heads, and parts of
//               the FFN, of the stream and of the logits);
//               gather() completes what the next weight reads
//
// In an encoder–decoder, both stacks are divided; every process receives the encoder's output.
#pragma once

#include "pass/sites.h"
#include "tensor/tensor.h"

namespace vitrine {

struct Pass;

class ModelSplit {
 public:
  /// The parts of a value's columns: equal ones, or query or K/V heads of the attention sublayer `at`.
  struct Parts {
    enum class Of : std::uint8_t { columns, heads, kv_heads };
    Of of = Of::columns;
    BlockSite at{};
  };

  virtual ~ModelSplit() = default;

  /// The blocks of a stack that this process has: first() to end() − 1.
  virtual int first(Stack stack) const = 0;
  virtual int end(Stack stack) const = 0;
  /// Fills the stream before block first(), which is not 0.
  virtual void receive(const Tensor& stream) = 0;
  /// Called after block end() − 1: passes the stream on, if another process has later blocks. The caller may change it
  /// at once.
  virtual void send(Pass& p, const Tensor& stream) = 0;
  /// Copies rows of the stream after the last block to the processes that have not computed it.
  virtual void share(const Tensor& rows) = 0;

  /// Fills `whole`, whose columns the processes have computed in consecutive parts; this one has `own`. A K/V head may
  /// be a part of several processes.
  virtual void gather(const Tensor& own, const Tensor& whole, const Parts& parts) = 0;
  /// The opposite: copies the columns of this process.
  virtual void take_part(const Tensor& whole, const Tensor& own, const Parts& parts) const = 0;

  /// Shows a value, of which this process may have a part, to the taps: as a whole, to those of process 0. Those of the
  /// others decide which sites are visited, and may see values, too. Returns the value, or the part, to continue with.
  virtual Tensor visit(Pass& p, const SiteId& id, const Tensor& value) = 0;
  /// The same for elements of a value whose rows are computed one after another (Taps::visit_step), and for the
  /// complete value. Process 0 changes the elements that the caller then has.
  virtual void visit_step(Pass& p, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count) = 0;
  virtual void visit_steps(Pass& p, const SiteId& id, const Tensor& value) = 0;
};

}  // namespace vitrine
