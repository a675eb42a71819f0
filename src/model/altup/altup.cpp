#include "model/altup/altup.h"

#include "base/error.h"
#include "base/exchanged.h"
#include "model/checks.h"
#include "ops/elementwise.h"
#include "ops/streams.h"

namespace vitrine {
namespace {

/// Stream `i` of x.
Tensor stream_of(Pass& p, const AltUpConfig& c, const Tensor& x, std::int64_t i) {
  const std::int64_t d = x.row_size() / c.n_streams;
  return columns(p, x, i * d, d);
}

/// tanh(router · norm(x) / d), `[T, n]`.
Tensor route(Pass& p, BlockSite at, const AltUpConfig& c, const AltUpParams& w, const Tensor& x) {
  const WithoutSites without_sites(p);
  const Tensor normed = norm(p, at(norms::embed), c.norm, w.norm, x);
  return tanh(p, linear(p, w.router, scale(p, 1.0f / static_cast<float>(x.row_size()), normed)));
}

/// Taps all streams as `[T, n, d]`.
Tensor tap_streams(Pass& p, const SiteId& at, const AltUpConfig& c, const Tensor& x) {
  return p.tap(at, x.reshaped({x.rows(), c.n_streams, x.row_size() / c.n_streams})).reshaped(x.shape);
}

}  // namespace

void check(std::string_view where, const AltUpConfig& c, std::int64_t d_model) {
  if (c.n_streams < 2) throw BadInput(where, "expected at least 2 streams, got {}", c.n_streams);
  check_size(where, "number of streams", c.n_streams, kMaxStreams);
  check_size(where, "n_streams × d_model", c.n_streams * d_model);
  if (c.active < 0 || c.active >= c.n_streams) {
    throw BadInput(where, "expected an active stream from 0 to {}, got {}", c.n_streams - 1, c.active);
  }
  check_norm(where, "the norm of the router of streams", c.norm);
  if (c.coef_limit) check_number(where, "coef_limit", *c.coef_limit);
}

void list_params(ParamList& list, const std::string& at, const AltUpConfig& c, AltUpParams& w, std::int64_t d_model) {
  const std::int64_t n = c.n_streams;
  list.norm(w.norm, at + "altup.ln", c.norm, d_model);
  list.linear(w.router, at + "altup.router", n, d_model, false);
  list.linear(w.predict, at + "altup.predict", n * n, n, false);
  list.linear(w.correct, at + "altup.correct", n, n, false);
  if (c.scaled) list.add(w.scale, at + "altup.scale.weight", Shape{d_model});
}

void list_params(ParamList& list, const std::string& prefix, const AltUpConfig& c, StreamsParams& w,
                 std::int64_t d_model) {
  const auto n = static_cast<std::size_t>(c.n_streams - 1);
  w.in.resize(n);
  w.out.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    list.linear(w.in[i], prefix + "stream_in." + std::to_string(i), d_model, d_model, false);
  }
  for (std::size_t i = 0; i < n; ++i) {
    list.linear(w.out[i], prefix + "stream_out." + std::to_string(i), d_model, d_model, false);
  }
}

Tensor split_streams(Pass& p, const AltUpConfig&, const StreamsParams& w, const Tensor& x) {
  Tensor streams = x;
  for (const LinearParams& map : w.in) streams = concat(p, streams, match_magnitude(p, linear(p, map, x), x));
  return streams;
}

Tensor merge_streams(Pass& p, const AltUpConfig& c, const StreamsParams& w, const Tensor& x) {
  const Tensor first = stream_of(p, c, x, 0);
  Tensor sum = first;
  for (std::size_t i = 0; i < w.out.size(); ++i) {
    const Tensor mapped = linear(p, w.out[i], stream_of(p, c, x, static_cast<std::int64_t>(i) + 1));
    sum = add(p, sum, match_magnitude(p, mapped, first));
  }
  return scale(p, 1.0f / static_cast<float>(c.n_streams), sum);
}

Tensor predict(Pass& p, BlockSite at, const AltUpConfig& c, const AltUpParams& w, const Tensor& x) {
  const Tensor coefs = linear(p, w.predict, route(p, at, c, w, active_stream(p, c, x)));
  return tap_streams(p, at(AltUpSite::predicted), c, predict_streams(p, x, coefs));
}

Tensor correct(Pass& p, BlockSite at, const AltUpConfig& c, const AltUpParams& w, const Tensor& predicted,
               const Tensor& made) {
  const Tensor coefs = linear(p, w.correct, route(p, at, c, w, made));
  return tap_streams(p, at(AltUpSite::corrected), c, correct_streams(p, predicted, coefs, made, c.active));
}

Tensor active_stream(Pass& p, const AltUpConfig& c, const Tensor& x) { return stream_of(p, c, x, c.active); }

Tensor corrected_stream(Pass& p, const AltUpConfig& c, const AltUpParams& w, const Tensor& corrected) {
  const Tensor active = active_stream(p, c, corrected);
  return c.scaled ? multiply_columns(p, active, w.scale) : active;
}

}  // namespace vitrine
