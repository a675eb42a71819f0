#include "cli/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "generate/context.h"

namespace vitrine::cli {
namespace {

constexpr double kGiga = 1e9;

/// Seconds per byte of a weight, multiplied by one row, and per operation, with many rows: of the model's mix of types.
struct ProductCost {
  double per_byte = 0, per_operation = 0;
};

ProductCost product_cost(const ModelFacts& facts, MachineRates& rates) {
  double bytes = 0, weights = 0;
  for (const auto& [type, stored] : facts.multiplied) {
    bytes += static_cast<double>(stored);
    weights += static_cast<double>(stored) / static_cast<double>(block_size(type).bytes) *
               static_cast<double>(block_size(type).elements);
  }
  ProductCost cost;
  for (const auto& [type, stored] : facts.multiplied) {
    const BlockSize size = block_size(type);
    const ProductRates of_type = rates.products(type, facts.compute);
    const double of_weights =
        static_cast<double>(stored) / static_cast<double>(size.bytes) * static_cast<double>(size.elements) / weights;
    cost.per_byte += static_cast<double>(stored) / bytes / std::min(of_type.read_bytes_per_s, rates.read_bytes_per_s());
    cost.per_operation += of_weights / of_type.operations_per_s;
  }
  return cost;
}

/// Calls visit(op, number of layers that have it) for all ops.
template <class Visit>
void for_each_op(const Account& account, Visit visit) {
  for (const Op& op : account.first) visit(op, 1);
  for (const Account::Layers& layers : account.layers) {
    for (const Op& op : layers.ops) visit(op, layers.group.count());
  }
  for (const Op& op : account.last) visit(op, 1);
}

/// The expected seconds of a pass of `rows` rows.
double seconds_of(const Account& account, double rows, const ProductCost& cost, double read, double f32_operations) {
  double seconds = 0;
  for_each_op(account, [&](const Op& op, std::int64_t times) {
    double of_op = op.cost.kv_bytes / read;
    if (op.cost.weight_bytes > 0) {
      // Few rows wait for the weights, many for the arithmetic.
      of_op += std::max(op.cost.weight_bytes * cost.per_byte, rows > 1 ? op.cost.flops * cost.per_operation : 0);
    } else {
      of_op = std::max(of_op, 2 * op.cost.visible_flops / f32_operations);
    }
    seconds += of_op * static_cast<double>(times);
  });
  return seconds;
}

}  // namespace

Fit fit_of(const InfoRequest& request, const ModelFacts& facts, MachineRates& rates) {
  const Workload prompt = workload_of(request, facts, Phase::prefill);
  Fit fit;
  fit.needed_bytes = estimate_memory(facts.config, prompt, kPrefillChunk).total();
  fit.available_bytes = static_cast<double>(available_memory());
  fit.read_bytes_per_s = rates.read_bytes_per_s();
  const ProductCost cost = product_cost(facts, rates);
  const double f32 = rates.products(DType::f32, Compute::f32).operations_per_s;
  const auto expected = [&](const Workload& w, double rows) {
    return seconds_of(account(facts.config, w), rows, cost, fit.read_bytes_per_s, f32);
  };
  const auto batch = static_cast<double>(prompt.batch);
  const double tokens =
      batch * static_cast<double>(facts.config.encoder ? prompt.source_length.value_or(prompt.length) : prompt.length);
  fit.prefill_tokens_per_s = tokens / expected(prompt, tokens);
  const std::vector<Phase> phases = phases_of(facts.config);
  if (std::find(phases.begin(), phases.end(), Phase::decode) != phases.end()) {
    fit.decode_tokens_per_s = batch / expected(workload_of(request, facts, Phase::decode), batch);
  }
  return fit;
}

Json json_of(const Fit& fit) {
  return {{"needed_bytes", fit.needed_bytes},
          {"available_bytes", fit.available_bytes},
          {"fits", fit.fits()},
          {"read_gb_per_s", fit.read_bytes_per_s / kGiga},
          {"prefill_tokens_per_s", fit.prefill_tokens_per_s},
          {"decode_tokens_per_s", fit.decode_tokens_per_s ? Json(*fit.decode_tokens_per_s) : Json()}};
}

std::string text_of(const Fit& fit, const InfoRequest& request, const ModelFacts& facts) {
  const Workload w = workload_of(request, facts, Phase::prefill);
  std::string text = fmt::format("Memory: {} needed for {} of {} tokens: {:.2f} of {:.2f} GB available",
                                 fit.fits() ? "fits," : "does not fit,",
                                 fmt::format("{} sequence{}", w.batch, w.batch == 1 ? "" : "s"), w.length,
                                 fit.needed_bytes / kGiga, fit.available_bytes / kGiga);
  text += fmt::format("\nExpected here: {:.3g} prompt tokens/s", fit.prefill_tokens_per_s);
  if (fit.decode_tokens_per_s) text += fmt::format(", {:.3g} decoded tokens/s", *fit.decode_tokens_per_s);
  return text + fmt::format(" (memory: {:.1f} GB/s)", fit.read_bytes_per_s / kGiga);
}

}  // namespace vitrine::cli
