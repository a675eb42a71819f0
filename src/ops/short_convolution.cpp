#include "ops/short_convolution.h"

#include <algorithm>
#include <vector>

#include "ops/describe.h"
#include "ops/state_bytes.h"

namespace vitrine {
namespace {

using ConvolutionParts = std::span<const ConvolutionParams>;

/// The inputs of one segment: the window, then its rows.
struct WindowedRows {
  const float* window = nullptr;  // row 0 is the oldest; null: zeros
  std::int64_t n_window = 0;
  const float* rows = nullptr;
  std::int64_t width = 0;

  /// The input `i` positions from the segment's first one; null: zeros.
  const float* at(std::int64_t i) const {
    if (i >= 0) return rows + i * width;
    return window == nullptr ? nullptr : window + (n_window + i) * width;
  }
};

WindowedRows inputs_of(const Segment& s, int layer, int number, const Tensor& x, std::int64_t k) {
  WindowedRows in{nullptr, k - 1, x.row(s.first_row), x.row_size()};
  if (s.cache != nullptr && s.position > 0) in.window = s.cache->state<float>(layer, number).data();
  return in;
}

void copy_input(const WindowedRows& in, std::int64_t position, float* to) {
  if (const float* const from = in.at(position)) {
    std::copy_n(from, in.width, to);
  } else {
    std::fill_n(to, in.width, 0.0f);
  }
}

/// The last k − 1 inputs become the window of the next pass.
void keep_window(const Segment& s, int layer, int number, const WindowedRows& in) {
  if (s.cache == nullptr) return;
  float* const to = s.cache->next_state<float>(layer, number).data();
  for (std::int64_t i = 0; i < in.n_window; ++i) copy_input(in, s.length - in.n_window + i, to + i * in.width);
}

/// Lets the cache compute the window after some tokens of this pass.
void keep_replay(const Segment& s, int layer, int number, const WindowedRows& in) {
  if (s.cache == nullptr || !s.cache->keeps_last_pass()) return;
  const auto replay = [rows = std::vector<float>(in.rows, in.rows + s.length * in.width), n = in.n_window,
                       width = in.width](std::int64_t length, std::span<const float> before, std::span<float> to) {
    const WindowedRows kept{before.empty() ? nullptr : before.data(), n, rows.data(), width};
    for (std::int64_t i = 0; i < n; ++i) copy_input(kept, length - n + i, to.data() + i * width);
  };
  s.cache->set_replay(layer, number, replay);
}

/// The weights of all parts as `[k, C]` floats.
Tensor transposed_weights(Pass& p, ConvolutionParts parts, std::int64_t channels) {
  const std::int64_t k = parts.front().weight.shape[1];
  const Tensor rows = p.tensor({k, channels});
  std::int64_t first = 0;
  for (const ConvolutionParams& part : parts) {
    const float* const from = p.vector(part.weight);
    p.for_rows(part.weight.shape[0], k, [&](std::int64_t c) {
      for (std::int64_t j = 0; j < k; ++j) rows.row(j)[first + c] = from[c * k + j];
    });
    first += part.weight.shape[0];
  }
  return rows;
}

/// The biases of all parts as one row; no data without them.
Tensor biases(Pass& p, ConvolutionParts parts, std::int64_t channels) {
  if (!parts.front().bias.present()) return {};
  const Tensor row = p.tensor({channels});
  std::int64_t first = 0;
  for (const ConvolutionParams& part : parts) {
    p.copy(p.vector(part.bias), part.bias.shape.count(), row.data + first);
    first += part.bias.shape.count();
  }
  return row;
}

void add_part_gradients(Pass& p, ConvolutionParts parts, const Tensor& dweight, const Tensor& dbias) {
  std::int64_t first = 0;
  for (const ConvolutionParams& part : parts) {
    const Tensor dw = p.grad(part.weight), db = p.grad(part.bias);
    const std::int64_t n = part.weight.shape[0], k = part.weight.shape[1];
    p.for_rows(n, k, [&](std::int64_t c) {
      for (std::int64_t j = 0; j < k && dw.data != nullptr; ++j) dw.data[c * k + j] += dweight.row(j)[first + c];
      if (db.data != nullptr) db.data[c] += dbias.data[first + c];
    });
    first += n;
  }
}

void convolution_backward(Pass& p, BlockSite at, ConvolutionParts parts, const Tensor& x, const Tensor& y) {
  const Tensor dx = p.grad(x), dy = p.grad(y);
  const ArenaScope scope(p.arena);
  const std::int64_t k = parts.front().weight.shape[1], channels = x.row_size();
  const Tensor weight = transposed_weights(p, parts, channels), dweight = p.filled({k, channels}, 0.0f);
  const Tensor dbias = p.filled({channels}, 0.0f);
  for (const Segment& s : p.segments_of(at.stack)) {
    p.for_columns(channels, 2 * k * s.length, [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t t = 0; t < s.length; ++t) {
        const float* const g = dy.row(s.first_row + t) + first;
        p.kernels.add(dbias.data + first, g, count, dbias.data + first);
        for (std::int64_t j = std::max<std::int64_t>(0, k - 1 - t); j < k; ++j) {
          const std::int64_t from = s.first_row + t - k + 1 + j;
          p.kernels.multiply_add(weight.row(j) + first, g, count, dx.row(from) + first);
          p.kernels.multiply_add(x.row(from) + first, g, count, dweight.row(j) + first);
        }
      }
    });
  }
  add_part_gradients(p, parts, dweight, dbias);
}

}  // namespace

Tensor short_convolution(Pass& p, BlockSite at, ConvolutionParts parts, const Tensor& x, int number) {
  const std::int64_t k = parts.front().weight.shape[1], width = x.row_size();
  const Tensor y = p.tensor(x.shape);
  {
    const ArenaScope scope(p.arena);
    const Tensor weight = transposed_weights(p, parts, width), bias = biases(p, parts, width);
    for (const Segment& s : p.segments_of(at.stack)) {
      if (p.shapes_only) break;
      const WindowedRows in = inputs_of(s, at.layer, number, x, k);
      p.for_rows(s.length, 2 * k * width, [&](std::int64_t t) {
        float* const to = y.row(s.first_row + t);
        if (bias.data == nullptr) {
          std::fill_n(to, width, 0.0f);
        } else {
          std::copy_n(bias.data, width, to);
        }
        for (std::int64_t j = 0; j < k; ++j) {
          const float* const from = in.at(t - k + 1 + j);
          if (from != nullptr) p.kernels.multiply_add(weight.row(j), from, width, to);
        }
      });
      keep_window(s, at.layer, number, in);
      keep_replay(s, at.layer, number, in);
    }
  }
  p.record(OpKind::short_convolution, {x}, y, [&p, parts, at, x, y] { convolution_backward(p, at, parts, x, y); });
  if (p.ledger != nullptr) {
    for (const ConvolutionParams& part : parts) {
      p.ledger->reads(part.weight);
      if (part.bias.present()) p.ledger->reads(part.bias);
    }
    const double flops = 2 * static_cast<double>(x.count() * k);
    const double window = state_bytes(p, at, (k - 1) * width);
    p.ledger->charge({.flops = flops, .visible_flops = flops, .kv_bytes = window});
  }
  return y;
}

constexpr OpDescription short_convolution_op{"src/ops/short_convolution.cpp",
                                             {"$y_{t,c} = b_{c} + Σ_{j} w_{c,j} · x_{t−k+1+j,c}"},
                                             {"Σ_{j} w_{c,j} · d$y_{t+k−1−j,c}"},
                                             {"Σ_{t} d$y_{t,c} · x_{t−k+1+j,c}"}};

}  // namespace vitrine
