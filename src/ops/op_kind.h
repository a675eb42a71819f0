// The kinds of ops.
//
// An op is a forward, a backward and a description, which are in one file of ops/. A new kind is a name in one of these
// lists. Those of the first have a description NAME_op (ops/describe.h), without which the program does not link.
#pragma once

#include "pass/op.h"

namespace vitrine {

// clang-format off
#define VITRINE_DESCRIBED_OPS(KIND)                                                                       \
  KIND(embed) KIND(embed_positions) KIND(linear) KIND(norm_scale) KIND(norm_divide) KIND(norm_weight)     \
  KIND(rope) KIND(attend_score) KIND(attend_mask) KIND(attend_softmax) KIND(attend_mix)                   \
  KIND(activate) KIND(gated) KIND(sigmoid) KIND(softcap) KIND(add) KIND(scale) KIND(multiply_rows)        \
  KIND(softmax_rows) KIND(chosen_weights) KIND(shares_of) KIND(take_rows) KIND(run_experts)               \
  KIND(mix_results) KIND(next_token_loss) KIND(clamp) KIND(multiply_columns)                                \
  KIND(query_scales) KIND(xielu) KIND(clamped_swiglu) KIND(hadamard)                                      \
  KIND(predict_streams) KIND(correct_streams) KIND(add_to_streams) KIND(match_magnitude) KIND(gaussian_topk) \
  KIND(short_convolution) KIND(state_scan) KIND(copy)
#define VITRINE_OTHER_OPS(KIND)                                                                           \
  KIND(embed_sinusoids) KIND(heads_in) KIND(heads_out) KIND(rescale) KIND(difference) KIND(spread)        \
  KIND(norm) KIND(relative_bias) KIND(scores) KIND(mix) KIND(scan) KIND(dropout) KIND(concat) KIND(stack) \
  KIND(row_range) KIND(repeat) KIND(first_of_groups) KIND(copy_for_tap) KIND(sum_of_heads) KIND(write)    \
  KIND(log_partition) KIND(keep) KIND(columns) KIND(attend_sink) KIND(heads_rows) KIND(part_of_heads)       \
  KIND(linear_transposed) KIND(state_steps) KIND(log_decays) KIND(scale_values) KIND(add_skipped)            \
  KIND(unit_vectors) KIND(state_write) KIND(states) KIND(effective_attention) KIND(add_controls) KIND(mean_of_segments) \
  KIND(position_products) KIND(unfold) KIND(pool_texts) KIND(divide_by_length) KIND(features_in) KIND(features_out)     \
  KIND(gate_features) KIND(select_features) KIND(decode_features) KIND(attach_dictionary)
// clang-format on

enum class OpKind : std::uint8_t {
#define VITRINE_ENUMERATOR(name) name,
  VITRINE_DESCRIBED_OPS(VITRINE_ENUMERATOR) VITRINE_OTHER_OPS(VITRINE_ENUMERATOR)
#undef VITRINE_ENUMERATOR
};

}  // namespace vitrine
