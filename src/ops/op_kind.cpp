#include "ops/op_kind.h"

namespace vitrine {

std::string_view name_of(OpKind kind) {
#define VITRINE_NAME(name) #name,
  constexpr std::string_view kNames[] = {VITRINE_DESCRIBED_OPS(VITRINE_NAME) VITRINE_OTHER_OPS(VITRINE_NAME)};
#undef VITRINE_NAME
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace vitrine
