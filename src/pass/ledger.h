// The ledger of a forward: every op that ran, in order, with its operands, its result and its cost.
//
// Whatever lists the ops of a model (the account, the memory estimate, the worked example) reads a ledger instead of
// knowing what a block consists of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pass/sites.h"
#include "tensor/param.h"
#include "tensor/tensor.h"

namespace vitrine {

/// FLOPs are 2 per multiply-add of a product; norms, softmax and activation functions are counted by their bytes.
struct OpCost {
  double flops = 0;
  double visible_flops = 0;  ///< Without the pairs of query and key that the mask hides.
  double weights = 0;        ///< Elements of parameters that the op reads, each once.
  double activations = 0;    ///< Elements of float32 that the op reads and writes.
  double kv_bytes = 0;       ///< Keys and values that attention reads and appends, in the cache's type.
  double maps = 0;           ///< H · n · S: what an engine that stores attention's maps would write.

  OpCost& operator+=(const OpCost& other);
};

struct LedgerOp {
  std::string_view op;            ///< `linear`, `norm`, `add`: the name that it has on a tape.
  int layer = -1;                 ///< −1: outside the blocks.
  std::string name{};             ///< Without the layer: that of its parameter (`attn.wq`), else of its first site.
  const Param* weight = nullptr;  ///< The matrix or vector that it multiplies by, if any.
  std::string shape{};            ///< What it makes of what, where inputs and output do not tell.
  std::vector<Tensor> inputs{};
  Tensor output{};
  OpCost cost{};
};

class Ledger {
 public:
  std::span<const LedgerOp> ops() const { return ops_; }

  /// Ops from here on belong to this layer.
  void enter_layer(int layer) { layer_ = layer; }
  void enter(std::string_view op, std::span<const Tensor> inputs, const Tensor& output);
  /// The op entered last reads `param`.
  void reads(const Param& param);
  /// The op entered last costs so much besides its inputs and output.
  void charge(const OpCost& cost) { ops_.back().cost += cost; }
  /// Names the op entered last, unless it has a name already.
  void name(std::string_view name, std::string shape = {});
  /// The op that made `value`, if it is the one entered last and has no parameter, has the site's name.
  void see(const SiteId& id, const Tensor& value);

 private:
  std::vector<LedgerOp> ops_;
  int layer_ = -1;
};

}  // namespace vitrine
