#include "model/mixers/mixer.h"

#include "ops/elementwise.h"

namespace vitrine {

void tap_stream(Pass& p, const SiteId& at, SublayerInput& in) {
  // A copy, so that the gradient at this site comes from the sublayer alone.
  const bool copies = p.is_taped() && p.wants(at);
  in.stream = p.tap(at, copies ? row_range(p, in.stream, 0, in.stream.rows()) : in.stream);
}

}  // namespace vitrine
