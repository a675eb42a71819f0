#include "train/lens/lens_config.h"

namespace vitrine {

LensTraining read_lens_training(ConfigSection& section) {
  constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30, kMaxCopies = 1 << 16;
  LensTraining lens;
  section.text("kind");  // required
  lens.kind = section.choice<LensKind>("kind", {{"tuned", LensKind::tuned}, {"jacobian", LensKind::jacobian}});
  if (lens.kind == LensKind::tuned) {
    for (const char* const key : {"skip_first_positions", "dim_batch"}) {
      section.refuse(key, "it applies to kind = \"jacobian\" only");
    }
  } else {
    section.refuse("start", "it applies to kind = \"tuned\" only");
  }
  lens.start = section.text("start", "");
  lens.skip_first_positions = section.integer("skip_first_positions", lens.skip_first_positions, 0, kMaxPositions);
  lens.dim_batch = section.integer("dim_batch", lens.dim_batch, 1, kMaxCopies);
  section.finish();
  return lens;
}

}  // namespace vitrine
