#include "generate/context.h"

#include "base/error.h"

namespace vitrine {

void GenerateContext::check_ids(std::span<const std::int32_t> ids) const {
  const std::int64_t vocab_size = model->config().vocab_size;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size) throw BadInput("ids", "expected ids from 0 to {}, got {}", vocab_size - 1, id);
  }
}

}  // namespace vitrine
