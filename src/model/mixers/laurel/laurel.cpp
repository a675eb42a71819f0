#include "model/mixers/laurel/laurel.h"

#include "model/checks.h"
#include "ops/elementwise.h"

namespace vitrine {

Tensor forward(Pass& p, BlockSite at, const LaurelConfig& c, const LaurelParams& w, const SublayerInput& in) {
  const Tensor pre = p.tap(at(LaurelSite::laurel_pre), linear(p, w.w_left, in.normed));
  const Tensor mapped = norm(p, at(names_of(c).post), c.norm, w.ln, linear(p, w.w_right, pre));
  return add(p, in.normed, mapped);
}

void check(std::string_view where, const LaurelConfig& c) {
  check_size(where, "rank of LAuReL", c.rank);
  check_norm(where, "the norm of LAuReL", c.norm);
}

void list_params(ParamList& list, const std::string& at, const LaurelConfig& c, LaurelParams& w, Widths d) {
  list.linear(w.w_left, at + ".w_left", c.rank, d.stream, false);
  list.linear(w.w_right, at + ".w_right", d.stream, c.rank, false);
  list.norm(w.ln, at + ".ln", c.norm, d.stream);
}

}  // namespace vitrine
