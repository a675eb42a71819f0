// The ledger of a forward: every op that ran, in order, with its operands, its result and its cost.
//
// Code that lists the ops of a model (the account, the memory estimate, the worked example) reads a ledger, so that it
// does not duplicate the structure of a block.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pass/op.h"
#include "pass/sites.h"
#include "tensor/param.h"
#include "tensor/tensor.h"

namespace vitrine {

/// A product has 2 FLOPs per multiply-add. Norms, softmax and activation functions have bytes but no FLOPs.
struct OpCost {
  double flops = 0;
  double visible_flops = 0;  ///< Excludes the query–key pairs that the mask hides.
  double weights = 0;        ///< Elements of parameters that the op reads, each counted once.
  double activations = 0;    ///< float32 elements that the op reads and writes.
  double kv_bytes = 0;       ///< What is read from caches and written to them: keys and values, states.
  double maps = 0;           ///< H · n · S: elements of the attention maps, which other engines store.

  OpCost& operator+=(const OpCost& other);
};

struct LedgerOp {
  OpCall call;
  int layer = -1;  ///< −1: outside the blocks.
  Stack stack = Stack::only;
  std::string name{};              ///< That of its parameter (`attn.wq`), else of its first site; without the layer.
  const Param* weight = nullptr;   ///< The matrix or vector that it multiplies by, if any.
  const Param* part_of = nullptr;  ///< The matrix of which each head multiplies by rows of its own, if any,
  std::int64_t first_row = 0;      ///< and the first of them among the rows of a head.
  std::string shape{};             ///< The operands as text, if inputs and output do not show them.
  std::vector<Tensor> inputs{};
  Tensor output{};
  OpCost cost{};
};

class Ledger {
 public:
  std::span<const LedgerOp> ops() const { return ops_; }

  /// The following ops belong to this layer.
  void enter_layer(int layer, Stack stack = Stack::only) {
    layer_ = layer;
    stack_ = stack;
  }
  void enter(const OpCall& call, std::span<const Tensor> inputs, const Tensor& output);
  /// The last op reads `param`.
  void reads(const Param& param);
  /// The last op reads `weight` and multiplies `rows` rows by it, or by some of its columns.
  void multiplies(const Param& weight, std::int64_t rows, std::int64_t columns);
  /// The last op reads, for each head, rows of `weight` from `first_row` of the head on, `elements` of it altogether,
  /// and multiplies `rows` rows by them.
  void multiplies_part(const Param& weight, std::int64_t first_row, std::int64_t rows, std::int64_t elements);
  /// Names the last op, which reads `elements` of a table.
  void looks_up(std::string_view name, std::int64_t elements);
  /// Adds to the cost of the last op, which already includes its inputs and output.
  void charge(const OpCost& cost) { ops_.back().cost += cost; }
  /// Calls `receive` for every op that reads a parameter or a part of one, when it has run and its operands still
  /// exist.
  void watch(std::function<void(const LedgerOp& op)> receive) { receive_ = std::move(receive); }
  /// Names the last op and sets its shape.
  void name(std::string_view name, std::string shape = {});
  /// Names the last op after the site `id` if it has no name and `value` is its output.
  void name_after(const SiteId& id, const Tensor& value);

 private:
  std::vector<LedgerOp> ops_;
  std::function<void(const LedgerOp&)> receive_;
  int layer_ = -1;
  Stack stack_ = Stack::only;
};

}  // namespace vitrine
