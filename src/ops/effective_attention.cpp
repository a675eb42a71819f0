#include "ops/effective_attention.h"

#include <algorithm>

#include "base/error.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

constexpr int kMapColumns = StateKernels::kLanes;

/// The operands of the scans, one for each head of M.
class EffectiveAttention {
 public:
  EffectiveAttention(Pass& p, const StateShape& shape, const StateInputs& in, const Tensor& steps)
      : p_(p), shape_(shape), in_(in), steps_(steps), of_lanes_(shape.decay == StateDecay::element) {
    if (in.rates) rates_ = rates(p, *in.rates);
    const Shape logarithms{in.decays.rows(), in.decays.row_size() * (of_lanes_ ? shape.rows : 1)};
    decays_ = p.tensor(logarithms);
    p.for_rows(decays_.rows(), 8 * decays_.row_size(), [&](std::int64_t t) { set_decays(t); });
    if (shape.decay != StateDecay::row || in.betas.data == nullptr) return;
    decayed_keys_ = p.tensor(decays_.shape);
    p.for_rows(decays_.rows(), decays_.row_size(), [&](std::int64_t t) {
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        const std::int64_t first = h * shape.rows;
        p.kernels.multiply(in.keys.row(t) + group(h), decays_.row(t) + first, shape.rows, decayed_keys_.row(t) + first);
      }
    });
  }

  /// Those of M: of elements, every lane has its own decays.
  std::int64_t heads() const { return of_lanes_ ? shape_.lanes : shape_.heads; }

  /// Columns [first, first + kMapColumns) of one head of rows of a segment's M, `[rows, H, T]`. Those of earlier tokens
  /// are 0.
  void fill(const Segment& s, WantedRows rows, std::int64_t head, std::int64_t first, const Tensor& to,
            float* scratch) const {
    const std::int64_t n = std::min<std::int64_t>(kMapColumns, s.length - first), stride = to.row_size();
    float *const state = scratch, *const units = state + shape_.rows * kMapColumns,
                 *const zeros = units + n * kMapColumns, *const unseen = zeros + kMapColumns;
    std::fill_n(scratch, shape_.rows * kMapColumns + (n + 1) * kMapColumns, 0.0f);
    for (std::int64_t j = 0; j < n; ++j) {
      const float step = steps_.data == nullptr ? 1.0f : steps_.row(s.first_row + first + j)[head];
      units[j * kMapColumns + j] = step;
    }
    float* const m = to.data + head * s.length + first;
    for (std::int64_t t = rows.first; t < std::min(first, rows.end); ++t) {
      std::fill_n(m + (t - rows.first) * stride, n, 0.0f);
    }
    const StateScan all = operands(s.first_row, head);
    const auto scan = [&](std::int64_t begin, std::int64_t end, TokenVectors values, float* out, std::int64_t step) {
      if (begin >= end) return;
      StateScan part = all.from(begin, end - begin);
      part.values = values;
      p_.kernels.states.scan(part, static_cast<int>(n), state, out, step);
    };
    /// The rows before those that are wanted are computed, but not kept.
    const auto scan_rows = [&](std::int64_t begin, std::int64_t end, const float* values, std::int64_t step) {
      const std::int64_t middle = std::clamp(rows.first, begin, end), last = std::clamp(rows.end, middle, end);
      scan(begin, middle, {values, step}, unseen, 0);
      scan(middle, last, {values + (middle - begin) * step, step}, m + (middle - rows.first) * stride, stride);
    };
    scan_rows(first, first + n, units, kMapColumns);
    scan_rows(first + n, s.length, zeros, 0);
  }

 private:
  std::int64_t group(std::int64_t head) const { return of_lanes_ ? 0 : shape_.group_of(head) * shape_.rows; }

  /// exp of the logarithms; of elements, exp(step · rate) `[P, K]`, whose rates are stored in this order.
  void set_decays(std::int64_t t) const {
    float* const to = decays_.row(t);
    const std::int64_t n = decays_.row_size(), k = shape_.rows;
    if (!of_lanes_) {
      p_.kernels.exp_sum(in_.decays.row(t), n, 0.0f, to);
      return;
    }
    for (std::int64_t l = 0; l < shape_.lanes; ++l) {
      p_.kernels.scale(rates_.data + l * k, k, in_.decays.row(t)[l], to + l * k);
    }
    p_.kernels.exp_sum(to, n, 0.0f, to);
  }

  StateScan operands(std::int64_t row, std::int64_t head) const {
    const auto of = [&](const Tensor& x, std::int64_t element) {
      return x.data == nullptr ? TokenVectors{} : TokenVectors{x.row(row) + element, x.row_size()};
    };
    const bool by_head = shape_.decay == StateDecay::head;
    StateScan scan{0, shape_.rows, by_head ? StateDecay::head : StateDecay::row};
    scan.keys = of(in_.keys, group(head));
    scan.queries = of(in_.queries, group(head));
    scan.betas = of(in_.betas, head);
    scan.decays = of(decays_, by_head ? head : head * shape_.rows);
    scan.decayed_keys = of(decayed_keys_, head * shape_.rows);
    return scan;
  }

  Pass& p_;
  const StateShape& shape_;
  const StateInputs& in_;
  Tensor steps_;
  bool of_lanes_;
  Tensor rates_, decays_, decayed_keys_;
};

/// Columns of all heads of a segment's M, by all threads.
void fill(Pass& p, const EffectiveAttention& m, const Segment& s, WantedRows rows, const Tensor& to) {
  const std::int64_t blocks = (s.length + kMapColumns - 1) / kMapColumns;
  p.parallel_for(m.heads() * blocks, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t b = begin; b < end; ++b) {
      p.check_interrupt();
      m.fill(s, rows, b / blocks, b % blocks * kMapColumns, to, p.scratch(thread));
    }
  });
}

void show_map(Pass& p, const SiteId& id, const Tensor& value) {
  if (p.is_taped()) p.record(OpKind::effective_attention, std::initializer_list<Tensor>{}, value, [] {});
  const Tensor seen = p.tap(id, value);
  if (p.shapes_only || seen.data == value.data || std::ranges::equal(seen.values(), value.values())) return;
  throw BadInput(name_of(id), "expected no value to write: nothing is computed from this site");
}

}  // namespace

void show_effective_attention(Pass& p, BlockSite at, Site site, const StateShape& shape, const StateInputs& in,
                              const Tensor& steps) {
  const std::vector<Segment>& segments = p.segments_of(at.stack);
  const auto n_segments = static_cast<int>(segments.size());
  const bool joins = p.taps != nullptr && p.taps->joins_segments() && p.wants(at(site));
  bool is_wanted = joins;
  for (int i = 0; i < n_segments; ++i) is_wanted = is_wanted || p.wants(at(site, i));
  if (!is_wanted || p.training.recomputing) return;
  const PassScope scope(p);
  const EffectiveAttention m(p, shape, in, steps);
  Tensor all;
  const std::int64_t length = segments.front().length;
  if (joins) all = p.tensor({n_segments, length, m.heads(), length});
  for (int i = 0; i < n_segments; ++i) {
    if (!joins && !p.wants(at(site, i))) continue;
    const PassScope of_segment(p);
    const Segment& s = segments[static_cast<std::size_t>(i)];
    if (const std::optional<WantedRows> rows = joins ? std::nullopt : p.wanted_rows(at(site, i))) {
      const Tensor some = p.tensor({rows->end - rows->first, m.heads(), s.length});
      fill(p, m, s, *rows, some);
      p.taps->visit_rows(p, at(site, i), some);
      continue;
    }
    const Shape own{s.length, m.heads(), s.length};
    const Tensor value = joins ? Tensor{all.row(i), own} : p.tensor(own);
    fill(p, m, s, {0, s.length}, value);
    if (!joins) show_map(p, at(site, i), value);
  }
  if (joins) show_map(p, at(site), all);
}

}  // namespace vitrine
