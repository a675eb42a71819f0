#include "ops/additive.h"

#include <algorithm>

namespace vitrine {

AdditiveAttention::AdditiveAttention(Pass& p, BlockSite at, const AdditiveParams& w, const Tensor& keys,
                                     const Tensor& values, const std::vector<KeySource>& sources)
    : p_(p),
      at_(at),
      w_(w),
      keys_(keys),
      values_(values),
      d_keys_(w.key.weight.shape[0]),
      d_values_(w.key.weight.shape[1]),
      v_(p.vector(w.v.weight)) {
  std::int64_t n_rows = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    sources_.push_back(source_of(sources[i], i));
    n_rows += p.segments_of(at.stack)[i].length;
  }
  queries_ = p.tensor({n_rows, d_keys_});
  if (!p.is_taped()) return;
  dqueries_ = p.filled({n_rows, d_keys_}, 0.0f);
  dv_ = p.filled({static_cast<std::int64_t>(sources.size()), d_keys_}, 0.0f);
}

AdditiveAttention::Source AdditiveAttention::source_of(const KeySource& source, std::size_t segment) {
  if (source.types() != KvTypes()) p_.refuse_tape("keys and values that are not f32");
  const Segment& s = p_.segments_of(at_.stack)[segment];
  Source result;
  result.n_positions = source.n_positions();
  result.n = result.n_positions - source.n_padding;
  result.first_row = s.first_row;
  result.first_key = source.first_row;
  const Shape shape{1, s.length, result.n_positions};
  result.pattern = p_.tensor(shape);
  if (p_.wants(site(segment))) {
    result.tapped = p_.filled(shape, 0.0f);
    if (p_.is_taped()) {
      result.factor = p_.filled(shape, 1.0f);
      result.dpattern = p_.filled(shape, 0.0f);
    }
  }
  const KvSpans spans = source.spans(0);
  result.keys = widened(spans, &KvSpan::keys, result.n_positions, d_keys_);
  result.values = widened(spans, &KvSpan::values, result.n_positions, d_values_);
  return result;
}

/// The rows of all spans as floats `[n, width]`: the rows themselves if they are floats in one piece.
const float* AdditiveAttention::widened(const KvSpans& spans, const KvRows KvSpan::*side, std::int64_t n,
                                        std::int64_t width) {
  const auto is_whole = [&](const KvSpan& span) {
    const KvRows& rows = span.*side;
    return rows.type == KvType::f32 && rows.rows == n && rows.stride == width * size_of(DType::f32);
  };
  if (!spans.empty() && is_whole(*spans.begin())) {
    return reinterpret_cast<const float*>(((*spans.begin()).*side).data);
  }
  const Tensor all = p_.filled({n, width}, 0.0f), rotated = p_.tensor({width});
  std::int64_t at = 0;
  for (const KvSpan& span : spans) {
    const KvRows& rows = span.*side;
    for (std::int64_t i = 0; i < rows.rows && !p_.shapes_only; ++i, ++at) {
      constexpr float kOne = 1;
      p_.kernels.kv.mix(&kOne, 1, 1, rows.range(i, 1), all.row(at), width);
      if (!is_integer(rows.type)) continue;
      std::copy_n(all.row(at), width, rotated.data);
      p_.kernels.kv.rotate(rotated.data, width, all.row(at));
    }
  }
  return all.data;
}

/// strip[s] = v · tanh(query + key[s]). Leaves the tanh in `scratch` `[n, d_keys]`.
void AdditiveAttention::score(const Source& s, const float* query, float* strip, float* scratch) const {
  for (std::int64_t i = 0; i < s.n; ++i) p_.kernels.add(query, s.keys + i * d_keys_, d_keys_, scratch + i * d_keys_);
  p_.kernels.activate(Activation::tanh, scratch, s.n * d_keys_, scratch);
  for (std::int64_t i = 0; i < s.n; ++i) strip[i] = p_.kernels.dot(v_, scratch + i * d_keys_, d_keys_);
}

void AdditiveAttention::read_row(const Row& row, const float* query, float* context, float* scratch) {
  const Source& s = sources_[row.segment];
  const std::int64_t first = (row.row - s.first_row) * s.n_positions;
  float* strip = s.pattern.data + first;
  score(s, query, strip, scratch);
  const float sum = p_.kernels.exp_sum(strip, s.n, p_.kernels.max(strip, s.n), strip);
  p_.kernels.normalize(strip, s.n, 0.0f, sum, strip);
  std::fill(strip + s.n, strip + s.n_positions, 0.0f);
  if (s.tapped.data != nullptr) {
    std::copy_n(strip, s.n_positions, s.tapped.data + first);
    p_.tap_step(site(row.segment), s.tapped, first, s.n_positions, s.factor);
    strip = s.tapped.data + first;
  }
  std::fill_n(context, d_values_, 0.0f);
  p_.kernels.weighted_rows(strip, s.n_positions, 1, view_of(s.values, s.n_positions, d_values_, d_values_), context,
                           d_values_);
}

void AdditiveAttention::read(std::span<const Row> rows, const Tensor& h, const Tensor& contexts) {
  const ArenaScope scope(p_.arena);
  const auto n = static_cast<std::int64_t>(rows.size());
  std::int64_t most = 0;
  bool is_tapped = false;
  for (const Row& row : rows) {
    most = std::max(most, sources_[row.segment].n_positions);
    is_tapped = is_tapped || sources_[row.segment].tapped.data != nullptr;
  }
  const Tensor queries = p_.tensor({n, d_keys_}), scratch = p_.tensor({p_.pool.size(), most * d_keys_});
  multiply(p_, view_of(h.data, n, h.row_size(), h.row_size()), w_.query.weight.view, queries.data, d_keys_);
  const auto body = [&](std::int64_t i, int thread) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    std::copy_n(queries.row(i), d_keys_, queries_.row(row.row));
    read_row(row, queries.row(i), contexts.row(i), scratch.row(thread));
  };
  if (is_tapped && !p_.shapes_only) {  // taps are called on this thread
    for (std::int64_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  p_.parallel_for(n, ExecutionContext::kOperationsPerThread / (most * (16 * d_keys_ + d_values_) + 1) + 1,
                  [&](std::int64_t begin, std::int64_t end, int thread) {
                    for (std::int64_t i = begin; i < end; ++i) body(i, thread);
                  });
}

void AdditiveAttention::row_backward(const Row& row, const float* dcontext, float* dquery, float* dv,
                                     float* scratch) const {
  const Source& s = sources_[row.segment];
  const std::int64_t first = (row.row - s.first_row) * s.n_positions;
  const float* const pattern = s.pattern.data + first;
  const float* const used = s.tapped.data != nullptr ? s.tapped.data + first : pattern;
  float* const tanhs = scratch + s.n_positions;
  float* const de = scratch;
  score(s, queries_.row(row.row), de, tanhs);
  for (std::int64_t i = 0; i < s.n; ++i) {
    de[i] = p_.kernels.dot(dcontext, s.values + i * d_values_, d_values_);
    p_.kernels.add_scaled(dcontext, d_values_, used[i], dvalues_.row(s.first_key + i));
  }
  if (s.dpattern.data != nullptr) {
    std::copy_n(de, s.n, s.dpattern.data + first);
    p_.kernels.multiply(de, s.factor.data + first, s.n, de);
  }
  const float mean = p_.kernels.dot(pattern, de, s.n);
  for (std::int64_t i = 0; i < s.n; ++i) {
    de[i] = pattern[i] * (de[i] - mean);
    float* const t = tanhs + i * d_keys_;
    p_.kernels.add_scaled(t, d_keys_, de[i], dv);
    for (std::int64_t j = 0; j < d_keys_; ++j) t[j] = de[i] * v_[j] * (1.0f - t[j] * t[j]);
    p_.kernels.add(dquery, t, d_keys_, dquery);
    float* const dkey = dkeys_.row(s.first_key + i);
    p_.kernels.add(dkey, t, d_keys_, dkey);
  }
}

void AdditiveAttention::read_backward(std::span<const Row> rows, const Tensor& dcontexts, const Tensor& dh) {
  dkeys_ = p_.grad(keys_);
  dvalues_ = p_.grad(values_);
  const ArenaScope scope(p_.arena);
  const auto n = static_cast<std::int64_t>(rows.size());
  std::int64_t most = 0;
  for (const Row& row : rows) most = std::max(most, sources_[row.segment].n_positions);
  const Tensor dqueries = p_.tensor({n, d_keys_}), scratch = p_.tensor({p_.pool.size(), most * (d_keys_ + 1)});
  p_.parallel_for(n, ExecutionContext::kOperationsPerThread / (most * (24 * d_keys_ + 2 * d_values_) + 1) + 1,
                  [&](std::int64_t begin, std::int64_t end, int thread) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const Row& row = rows[static_cast<std::size_t>(i)];
                      std::fill_n(dqueries.row(i), d_keys_, 0.0f);
                      row_backward(row, dcontexts.row(i), dqueries.row(i),
                                   dv_.row(static_cast<std::int64_t>(row.segment)), scratch.row(thread));
                      std::copy_n(dqueries.row(i), d_keys_, dqueries_.row(row.row));
                    }
                  });
  multiply(p_, view_of(dqueries.data, n, d_keys_, d_keys_), transposed(w_.query.weight.view), dh.data, dh.row_size(),
           Into::add);
}

void AdditiveAttention::finish() {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].tapped.data != nullptr) p_.tap_steps(site(i), sources_[i].tapped);
  }
}

void AdditiveAttention::finish_backward(const Tensor& h) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].dpattern.data == nullptr || !p_.taps->wants_gradient(site(i))) continue;
    p_.taps->visit_gradient(p_, site(i), sources_[i].dpattern);
  }
  add_weight_gradient(p_, h, dqueries_, w_.query.weight);
  const Tensor dv = p_.grad(w_.v.weight);
  if (dv.data == nullptr) return;
  for (std::int64_t i = 0; i < dv_.rows() && !p_.shapes_only; ++i) {
    p_.kernels.add(dv.data, dv_.row(i), d_keys_, dv.data);
  }
}

}  // namespace vitrine
