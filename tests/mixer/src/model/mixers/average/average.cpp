#include "model/mixers/average/average.h"

#include <algorithm>

#include "base/error.h"
#include "model/checks.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

/// h from x, both `[T, d]`. The states of segments with a cache go on from it, and return to it.
Tensor moving_sum(Pass& p, BlockSite at, const Param& decay, const Tensor& x) {
  const Tensor h = p.tensor(x.shape);
  const std::int64_t d = x.row_size();
  const float* const a = p.vector(decay);
  const std::vector<Segment>& segments = p.segments_of(at.stack);
  for (const Segment& s : segments) {
    const bool continues = s.cache != nullptr && s.position > 0;
    const float* const before = continues && !p.shapes_only ? s.cache->state<float>(at.layer, 0).data() : nullptr;
    p.for_columns(d, s.length, [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) {
        const float* const last = t > s.first_row ? h.row(t - 1) : before;
        for (std::int64_t i = first; i < first + count; ++i) {
          h.row(t)[i] = last == nullptr ? x.row(t)[i] : a[i] * last[i] + x.row(t)[i];
        }
      }
    });
    if (s.cache == nullptr || p.shapes_only) continue;
    std::copy_n(h.row(s.first_row + s.length - 1), d, s.cache->next_state<float>(at.layer, 0).begin());
  }
  // g[t] = dh[t] + a ⊙ g[t+1]; dx[t] = g[t]; da = Σ_t g[t] ⊙ h[t−1]
  p.record(OpKind::scan, {x}, h, [&p, &segments, &decay, a, d, x, h] {
    const Tensor dx = p.grad(x), dh = p.grad(h), da = p.grad(decay);
    for (const Segment& s : segments) {
      p.for_columns(d, s.length, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t i = first; i < first + count; ++i) {
          float g = 0;
          for (std::int64_t t = s.first_row + s.length - 1; t >= s.first_row; --t) {
            g = dh.row(t)[i] + a[i] * g;
            dx.row(t)[i] += g;
            if (da.data != nullptr && t > s.first_row) da.data[i] += g * h.row(t - 1)[i];
          }
        }
      });
    }
  });
  if (p.ledger != nullptr) p.ledger->reads(decay);
  return h;
}

}  // namespace

void check(std::string_view where, const AverageConfig& c) { check_size(where, "width", c.width); }

void list_params(ParamList& list, const std::string& at, const AverageConfig& c, AverageParams& w, Widths d) {
  list.add(w.decay, at + ".decay", Shape{d.stream});
  list.linear(w.wo, at + ".wo", d.stream, d.stream, c.bias);
}

CacheLayerConfig cache_layer(const AverageConfig& c) { return std::vector<StateConfig>{{"h", {c.width}}}; }

void tap_input(Pass& p, BlockSite at, const AverageConfig&, SublayerInput& in) {
  tap_stream(p, at(AverageSite::average_in), in);
}

Tensor forward(Pass& p, BlockSite at, const AverageConfig&, const AverageParams& w, const SublayerInput& in) {
  const Tensor h = p.tap(at(AverageSite::average_state), moving_sum(p, at, w.decay, in.normed));
  return p.tap(at(AverageSite::average_proj), linear(p, w.wo, h));
}

std::optional<double> gguf_word(const AverageConfig&, std::string_view) { return {}; }

void divide(WeightDivider&, AverageConfig&, AverageParams&) {
  throw Unsupported("--split", "heads: a moving average is not divided");
}

}  // namespace vitrine
