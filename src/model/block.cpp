#include "model/block.h"

#include "base/exchanged.h"
#include "ops/control.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/streams.h"

namespace vitrine {
namespace {

/// The number that the stream is multiplied by after the block.
float scalar_of(Pass& p, const BlockConfig& c, const BlockParams& w) {
  constexpr float kAnyButOne = 2;  // the op is part of a dry run
  return !c.scalar ? 1.0f : p.shapes_only ? kAnyButOne : *p.vector(w.scalar);
}

/// Whether the output of a sublayer is a constant of a linear pass, so that its ops need no tape.
bool is_constant(const Pass& p, const SiteId& output) {
  return p.is_taped() && p.training.linearizes && p.attached != nullptr && p.attached->is_output(output);
}

/// The stream x, or all streams, plus the output y of a sublayer, times `factor`.
Tensor join(Pass& p, BlockSite at, const Sublayer& c, const SublayerNormParams& w, const SumSites& sites,
            const Tensor& x, Tensor y, float factor) {
  const SublayerNames names = names_of(c);
  y = scale(p, c.scale, norm(p, at(names.post), c.norms.post, w.post, y));
  y = p.tap(at(names.out), dropout(p, at(names.out), y));
  const Tensor added = c.input == Sublayer::Input::corrected ? add_to_streams(p, x, y, 1) : add(p, x, y);
  Tensor sum = scale(p, factor, scale(p, c.sum_scale, added));
  if (sites.sum == Site::resid_post) sum = add_controls(p, at, sum);
  if (sites.sum) sum = p.tap(at(*sites.sum), sum);
  if (!c.norms.sum) return sum;
  return p.tap(at(sites.normalized), norm(p, at(sites.norm), c.norms.sum, w.sum, sum));
}

}  // namespace

Tensor block(Pass& p, BlockSite at, const BlockConfig& c, const BlockParams& w, const StackContext& context,
             const Tensor& x) {
  Tensor before = p.tap(at(Site::resid_pre), x), predicted;
  if (context.altup != nullptr) {
    if (p.ends_before(at(AltUpSite::predicted))) return before;
    predicted = predict(p, at, *context.altup, w.altup, before);
    before = active_stream(p, *context.altup, predicted);
  }
  Tensor stream = before, normed;
  for (std::size_t i = 0; i < c.sublayers.size(); ++i) {
    const Sublayer& sublayer = c.sublayers[i];
    const SublayerParams& own = w.sublayers[i];
    const SublayerNames names = names_of(sublayer);
    const BlockSite here = names.is_cross ? at.of_cross() : at;
    const bool is_corrected = sublayer.input == Sublayer::Input::corrected;
    if (p.ends_before(is_corrected ? here(AltUpSite::corrected) : here(names.in))) return stream;

    if (is_corrected) {
      stream = correct(p, at, *context.altup, w.altup, predicted, stream);
      before = corrected_stream(p, *context.altup, w.altup, stream);
    }
    SublayerInput in{sublayer.input == Sublayer::Input::stream ? stream : before, normed, context.encoded};
    in.bias = context.bias;
    in.positions = context.positions;
    in.rope = &context.rope;
    in.shared = context.shared;
    in.per_layer = context.per_layer;
    in.norm_config = &sublayer.norms.pre;
    in.norm_params = &own.norms.pre;
    const Tensor y = visit_sublayer(sublayer, own, [&](const auto& kind, const auto& params) {
      if (sublayer.input != Sublayer::Input::previous) {
        tap_input(p, here, kind, in);
        normed = norm(p, here(names.pre), sublayer.norms.pre, own.norms.pre, in.stream);
      }
      in.scale = sublayer.input_scale;
      in.normed = scale(p, in.scale, normed);
      if (!is_constant(p, here(names.out))) return forward(p, here, kind, params, in);
      const Exchanged<Tape*> without_tape(p.training.tape, nullptr);
      return forward(p, here, kind, params, in);
    });
    if (is_constant(p, here(names.out))) p.training.tape->record("input", {}, y, [] {});
    if (p.ends_before(here(names.post).scale)) continue;  // one that runs next to it may still be needed
    const float factor = i + 1 == c.sublayers.size() ? scalar_of(p, c, w) : 1.0f;
    stream = join(p, here, sublayer, own.norms, sum_sites(c, i), stream, y, factor);
  }
  return stream;
}

}  // namespace vitrine
