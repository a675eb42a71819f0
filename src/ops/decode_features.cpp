#include "ops/decode_features.h"

#include <algorithm>

#include "base/exchanged.h"
#include "kernels/widen_row.h"
#include "ops/linear.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

/// Row `i` of a matrix of any layout as floats: in place if it is stored so, else in `memory`.
const float* row_of_decoder(const Pass& p, const MatrixView& w, std::int64_t i, float* memory) {
  if (w.col_stride == 1 && w.dtype == DType::f32) return reinterpret_cast<const float*>(w.at(i, 0));
  if (w.col_stride == 1) {
    p.widen(w, i, w.cols, memory);
    return memory;
  }
  for (std::int64_t c = 0; c < w.cols; ++c) p.kernels.widen(w.at(i, c), w.dtype, 1, memory + c);
  return memory;
}

/// Adds the gradients of a term, given dr.
void backward_term(Pass& p, const DecoderTerm& term, const Tensor& dr) {
  const ArenaScope scope(p.arena);
  const std::vector<float>& f = *term.factors;
  const std::int64_t n = dr.row_size();
  if (term.features.dense.data != nullptr) {
    const Tensor da = p.grad(term.features.dense), sum = p.tensor(da.shape);
    multiply(p, view_of(dr.data, dr.rows(), n, n), term.weight->view, sum.data, da.row_size());
    p.for_rows(da.rows(), da.row_size(), [&](std::int64_t t) {
      if (!f.empty()) p.kernels.multiply(sum.row(t), f.data(), da.row_size(), sum.row(t));
      p.kernels.add(da.row(t), sum.row(t), da.row_size(), da.row(t));
    });
  }
  if (term.features.values.data == nullptr) return;
  const FeatureColumns& columns = *term.features.columns;
  const Tensor da = p.grad(term.features.values), memory = p.tensor({p.pool.size(), n});
  p.parallel_for(dr.rows(), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t t = begin; t < end; ++t) {
      std::int64_t at = columns.first_of_row[static_cast<std::size_t>(t)];
      for (const auto& [i, value] : term.features.rows->row(t)) {
        const float sum = p.kernels.dot(dr.row(t), row_of_decoder(p, term.weight->view, i, memory.row(thread)), n);
        da.data[at++] += f.empty() ? sum : sum * f[static_cast<std::size_t>(i)];
      }
    }
  });
  add_decoder_gradient(p, *term.weight, f, *term.features.rows, columns, dr);
}

Tensor sum_features(Pass& p, std::int64_t n, const Param& bias, std::span<const DecoderTerm> terms,
                    std::int64_t n_rows) {
  const Tensor r = p.filled({n_rows, n}, 0.0f);
  std::vector<Tensor> inputs;
  for (const DecoderTerm& term : terms) {
    if (!p.shapes_only) add_decoded(p, *term.weight, *term.factors, *term.features.rows, r);
    if (term.features.dense.data != nullptr) inputs.push_back(term.features.dense);
    if (term.features.values.data != nullptr) inputs.push_back(term.features.values);
  }
  if (bias.present()) {
    const float* const b = p.vector(bias);
    p.for_rows(n_rows, n, [&](std::int64_t t) { p.kernels.add(r.row(t), b, n, r.row(t)); });
  }
  if (!p.is_taped()) return r;
  p.record(OpKind::decode_features, inputs, r, [&p, r, &bias, all = std::vector(terms.begin(), terms.end())] {
    const Tensor dr = p.grad(r);
    for (const DecoderTerm& term : all) backward_term(p, term, dr);
    if (bias.present()) add_bias_gradient(p, dr, bias);
  });
  return r;
}

}  // namespace

void add_decoded(Pass& p, const Param& weight, const std::vector<float>& factors, const SparseRows& rows,
                 const Tensor& y) {
  const ArenaScope scope(p.arena);
  const std::int64_t n = y.row_size();
  const Tensor memory = p.tensor({p.pool.size(), n});
  p.parallel_for(y.rows(), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (const auto& [i, value] : rows.row(t)) {
        const float factor = factors.empty() ? value : value * factors[static_cast<std::size_t>(i)];
        p.kernels.add_scaled(row_of_decoder(p, weight.view, i, memory.row(thread)), n, factor, y.row(t));
      }
    }
  });
}

Tensor decode_features(Pass& p, const Dictionary& dictionary, std::span<const DecoderTerm> terms, std::int64_t n_rows) {
  return sum_features(p, dictionary.d_out(), dictionary.decoder_bias, terms, n_rows);
}

Tensor decode_without_bias(Pass& p, const Dictionary& dictionary, const DecoderTerm& term, std::int64_t n_rows) {
  static const Param kNone{};
  return sum_features(p, dictionary.d_out(), kNone, {&term, 1}, n_rows);
}

}  // namespace vitrine
