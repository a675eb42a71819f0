#include "ops/unfold.h"

#include <algorithm>
#include <vector>

#include "ops/op_kind.h"

namespace vitrine {
namespace {

/// By row: the first row of its text, and the end. Rows of padding have texts of their own.
struct TextOfRow {
  std::int64_t first = 0, end = 0;
};

std::vector<TextOfRow> texts_of_rows(const std::vector<Segment>& segments, std::int64_t n_rows) {
  std::vector<TextOfRow> texts(static_cast<std::size_t>(n_rows));
  for (std::int64_t t = 0; t < n_rows; ++t) texts[static_cast<std::size_t>(t)] = {t, t + 1};
  for (const Segment& s : segments) {
    const std::int64_t end = s.first_row + s.length - s.n_padding;
    std::fill(texts.begin() + s.first_row, texts.begin() + end, TextOfRow{s.first_row, end});
  }
  return texts;
}

}  // namespace

Tensor unfold(Pass& p, Stack stack, const Tensor& x, std::int64_t width) {
  const std::int64_t n = x.row_size(), before = (width - 1) / 2;
  const std::vector<TextOfRow> texts = texts_of_rows(p.segments_of(stack), x.rows());
  const Tensor y = p.tensor({x.rows(), n * width});
  p.for_rows(x.rows(), n * width, [&](std::int64_t t) {
    const TextOfRow text = texts[static_cast<std::size_t>(t)];
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t from = t + j - before;
      const bool is_inside = from >= text.first && from < text.end;
      for (std::int64_t c = 0; c < n; ++c) y.row(t)[c * width + j] = is_inside ? x.row(from)[c] : 0.0f;
    }
  });
  p.record(OpKind::unfold, {x}, y, [&p, x, y, n, width, before, texts] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    // A row of dx adds what its neighbours have of it, from the earliest to the latest.
    p.for_rows(x.rows(), n * width, [&](std::int64_t t) {
      const TextOfRow text = texts[static_cast<std::size_t>(t)];
      for (std::int64_t j = width - 1; j >= 0; --j) {
        const std::int64_t to = t - j + before;
        if (to < text.first || to >= text.end) continue;
        for (std::int64_t c = 0; c < n; ++c) dx.row(t)[c] += dy.row(to)[c * width + j];
      }
    });
  });
  return y;
}

}  // namespace vitrine
