#include "ops/probe_run.h"

#include "base/error.h"
#include "base/exchanged.h"
#include "ops/linear.h"
#include "pass/dictionary_sites.h"

namespace vitrine {

void run_probe(Pass& p, const Dictionary& probe, const Tensor& value) {
  const PassScope scope(p);
  const Exchanged<Tape*> without_tape(p.training.tape, nullptr);
  const Exchanged exact(p.compute, Compute::f32);
  const Tensor logits = product(p, probe.encoder, value.reshaped({value.rows(), value.row_size()}));
  add_bias(p, probe.encoder_bias, logits);
  const SiteId id = probe.at(kProbeValue);
  if (p.tap(id, logits).data != logits.data) throw BadInput(name_of(id), "a probe is only read");
}

}  // namespace vitrine
