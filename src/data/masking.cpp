#include "data/masking.h"

#include "base/rng.h"

namespace vitrine {

Batch masked(Batch batch, const MaskOptions& o, std::uint64_t number, std::optional<std::int32_t> kept) {
  constexpr std::uint64_t kMaskStream = 0x6D61736B;  // "mask": separate from the random numbers of the order
  batch.targets = batch.inputs;
  for (std::size_t row = 0; row < batch.inputs.size(); ++row) {
    const auto draw = [&](std::uint64_t which) {
      return uniform(o.seed ^ (kMaskStream << 32), number, row * 3 + which);
    };
    std::int32_t& id = batch.inputs[row];
    const bool is_chosen = draw(0) < o.fraction && id != kept;
    batch.counts[row] = is_chosen ? 1 : 0;
    if (!is_chosen) continue;
    const double action = draw(1);
    if (action < 0.8) {
      id = o.mask_id;
    } else if (action < 0.9) {
      id = static_cast<std::int32_t>(draw(2) * static_cast<double>(o.vocab_size));
    }
  }
  return batch;
}

}  // namespace vitrine
