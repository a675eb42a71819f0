// The values and ops of one forward, copied while it runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/config.h"
#include "ops/describe.h"
#include "pass/ledger.h"

namespace vitrine {

struct ForwardFacts : OpTrace {
  const ModelConfig* config = nullptr;
  std::vector<std::string> forward;               ///< Names of sites in the order of the forward.
  std::map<std::string, std::size_t> operand_of;  ///< By name of the site; several sites may share an operand.

  const Operand& operand_at(const std::string& site) const { return operands[operand_of.at(site)]; }
};

/// A copy of a value.
Seen seen(const SiteId& id, const Tensor& value);

/// Copies the ops of a ledger with their operands, while the forward still has them. Taps pass it every site.
class OpLog {
 public:
  OpLog(const Ledger& ledger, ForwardFacts& facts) : ledger_(ledger), f_(facts) {}

  void see(const SiteId& id, const Tensor& value);
  /// Gradients arrive in reverse order.
  void see_gradient(const SiteId& id, const Tensor& gradient);

 private:
  void take_new_ops();
  /// The last operand with the elements of `value`.
  std::optional<std::size_t> find(const Tensor& value) const;
  /// The operand of an input; an op that computes in place has overwritten it by its output.
  std::size_t input_at(const Tensor& value, const Tensor& output);
  /// The operand with the elements of `value`. Between blocks a forward without a tape copies the stream to other
  /// memory, which is no op.
  std::size_t operand_with(const Tensor& value);
  std::size_t add(const Tensor& value);

  const Ledger& ledger_;
  ForwardFacts& f_;
  std::size_t taken_ = 0;
  std::map<std::string, std::vector<std::size_t>> visits_;  // operands at each site
  std::unordered_map<const float*, std::size_t> at_;        // memory may be reused: the last operand there
};

}  // namespace vitrine
