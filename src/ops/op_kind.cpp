#include "ops/op_kind.h"

namespace vitrine {

std::string_view name_of(OpKind kind) {
#define VITRINE_NAME(name) #name,
  constexpr std::string_view kNames[] = {VITRINE_DESCRIBED_OPS(VITRINE_NAME) VITRINE_OTHER_OPS(VITRINE_NAME)};
#undef VITRINE_NAME
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_linear(OpKind kind) {
  switch (kind) {
    case OpKind::embed:
    case OpKind::embed_positions:
    case OpKind::embed_sinusoids:
    case OpKind::linear:
    case OpKind::linear_transposed:
    case OpKind::norm_scale:  // a constant
    case OpKind::norm_divide:
    case OpKind::norm_weight:
    case OpKind::attend_mix:
    case OpKind::add:
    case OpKind::difference:
    case OpKind::scale:
    case OpKind::rescale:
    case OpKind::multiply_columns:
    case OpKind::copy:
    case OpKind::copy_for_tap:
    case OpKind::keep:
    case OpKind::take_rows:
    case OpKind::row_range:
    case OpKind::columns:
    case OpKind::concat:
    case OpKind::stack:
    case OpKind::spread:
    case OpKind::repeat:
    case OpKind::heads_in:
    case OpKind::heads_out:
    case OpKind::heads_rows:
    case OpKind::part_of_heads:
    case OpKind::first_of_groups:
    case OpKind::sum_of_heads:
    case OpKind::add_controls:
    case OpKind::attach_dictionary:
      return true;
    default:
      return false;
  }
}

}  // namespace vitrine
