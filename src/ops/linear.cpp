#include "ops/linear.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kUninterrupted = std::int64_t{1} << 30;  // operations between two checks of the interrupt
constexpr std::int64_t kBlock = 48;                             // rows of w that justify a kernel call
constexpr std::int64_t kPartSize = std::size(RoundedPart{}.q);
constexpr std::int64_t kPanel = std::int64_t{1} << 16;  // floats of a dequantized panel: 256 KiB

/// How the rows of a weight are divided: into multiples of `unit`, at most `most` at a time. A panel of a quantized
/// weight is small; if the weight is transposed, a panel holds whole blocks of each stored row.
struct Division {
  std::int64_t unit, most;

  explicit Division(const MatrixView& weight) : unit(1), most(weight.rows) {
    if (!is_blocks(weight.dtype)) return;
    if (weight.col_stride != 1) unit = block_size(weight.dtype).elements;
    most = std::max(weight.col_stride != 1 ? unit : kBlock, kPanel / weight.cols / unit * unit);
  }
};

/// The weight in a type that the kernels accept: itself, or, if it is quantized, its elements as floats in `panel`.
MatrixView multipliable(const Pass& p, const MatrixView& weight, float* panel) {
  if (!is_blocks(weight.dtype)) return weight;
  const bool is_transposed = weight.col_stride != 1;
  const MatrixView stored = is_transposed ? transposed(weight) : weight;
  for (std::int64_t r = 0; r < stored.rows; ++r) {
    p.widen(stored.at(r, 0), stored.dtype, stored.cols, panel + r * stored.cols);
  }
  const MatrixView floats = view_of(panel, stored.rows, stored.cols, stored.cols);
  return is_transposed ? transposed(floats) : floats;
}

/// Whether products with this weight are computed with integers.
bool is_of_integers(const Pass& p, const MatrixView& weight) {
  return p.compute == Compute::automatic && !p.is_taped() && is_blocks(weight.dtype) && weight.col_stride == 1 &&
         weight.cols % block_size(weight.dtype).elements == 0;
}

/// x, whose rows have whole parts, rounded to 8 bits.
RoundedPart* rounded(Pass& p, const MatrixView& x) {
  const std::int64_t parts = x.cols / kPartSize;
  auto* const to = reinterpret_cast<RoundedPart*>(
      p.tensor({x.rows, parts * std::int64_t{sizeof(RoundedPart) / sizeof(float)}}).data);
  p.for_rows(x.rows, 4 * x.cols, [&](std::int64_t t) {
    p.kernels.blocks.round_to_int8(reinterpret_cast<const float*>(x.at(t, 0)), x.cols, to + t * parts);
  });
  return to;
}

/// The product with a quantized weight, computed with integers.
void multiply_blocks(Pass& p, const MatrixView& x, const MatrixView& weight, float* y, std::int64_t ldy) {
  constexpr std::int64_t kUnit = 64;  // rows of w: a panel
  const RoundedPart* const parts = rounded(p, x);
  const std::int64_t operations = x.rows * weight.cols + 1, n_units = (weight.rows + kUnit - 1) / kUnit;
  const std::int64_t most = std::max<std::int64_t>(1, kUninterrupted / operations / kUnit) * kUnit;
  p.parallel_for(n_units, Machine::kOperationsPerThread / operations / kUnit + 1,
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   end = std::min(end * kUnit, weight.rows);
                   for (std::int64_t first = begin * kUnit; first < end; first += most) {
                     p.check_interrupt();
                     p.kernels.blocks.multiply(parts, x.rows, weight.row_range(first, std::min(most, end - first)),
                                               y + first, ldy, p.scratch(thread));
                   }
                 });
}

/// x in the order in which the kernels read it.
const float* packed(Pass& p, const MatrixView& x) {
  float* const to = p.tensor({packed_size(p.kernels, x.rows, x.cols)}).data;
  const std::int64_t tile = p.kernels.packed_rows, n_tiles = (x.rows + tile - 1) / tile;
  const std::int64_t grain = Machine::kOperationsPerThread / (tile * x.cols + 1) + 1;
  p.parallel_for(n_tiles, grain, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t first = begin * tile, n = std::min(end * tile, x.rows) - first;
    p.kernels.pack(x.row_range(first, n), to + packed_size(p.kernels, first, x.cols));
  });
  return to;
}

MatrixView rows_of(const Tensor& x) { return view_of(x.data, x.rows(), x.row_size(), x.row_size()); }

/// The rows that have an element other than zero; in a dry run, all.
std::vector<std::int64_t> rows_with_values(const Pass& p, const Tensor& x) {
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    const float* const row = x.data + t * x.row_size();
    if (p.shapes_only || std::any_of(row, row + x.row_size(), [](float v) { return v != 0; })) rows.push_back(t);
  }
  return rows;
}

/// These rows of x, in memory of the arena unless they are all.
Tensor gathered(Pass& p, const Tensor& x, const std::vector<std::int64_t>& rows) {
  const auto n = static_cast<std::int64_t>(rows.size());
  if (n == x.rows()) return x;
  const Tensor y = p.tensor({n, x.row_size()});
  p.for_rows(n, x.row_size(),
             [&](std::int64_t i) { std::copy_n(x.row(rows[static_cast<std::size_t>(i)]), x.row_size(), y.row(i)); });
  return y;
}

}  // namespace

Tensor product(Pass& p, const Param& weight, const Tensor& x, std::int64_t first) {
  const MatrixView w =
      first == 0 && x.row_size() == weight.view.cols ? weight.view : weight.view.col_range(first, x.row_size());
  const Tensor y = p.tensor({x.rows(), w.rows});
  multiply(p, rows_of(x), w, y.data, w.rows);
  p.record("linear", {x}, y, [&p, &weight, w, x, y, first] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    add_weight_gradient(p, x, dy, weight, first);
    multiply(p, rows_of(dy), transposed(w), dx.data, x.row_size(), Into::add);
  });
  if (p.ledger != nullptr) {
    const double flops = 2 * static_cast<double>(x.rows()) * static_cast<double>(w.cols) * static_cast<double>(w.rows);
    p.ledger->reads(weight);
    p.ledger->charge({.flops = flops, .visible_flops = flops});
  }
  return y;
}

void multiply(Pass& p, const MatrixView& x, const MatrixView& weight, float* y, std::int64_t ldy, Into into) {
  const ArenaScope scope(p.arena);
  if (into == Into::set && x.col_stride == 1 && is_of_integers(p, weight)) return multiply_blocks(p, x, weight, y, ldy);
  const bool adds = into == Into::add, packs = x.col_stride != 1 || worth_packing(p.kernels, x.rows, weight);
  if (adds && !packs) {
    const Tensor sum = p.tensor({x.rows, weight.rows});
    multiply(p, x, weight, sum.data, weight.rows);
    return p.for_rows(x.rows, weight.rows,
                      [&](std::int64_t t) { p.kernels.add(y + t * ldy, sum.row(t), weight.rows, y + t * ldy); });
  }
  const float* const rows_of_x = packs ? packed(p, x) : reinterpret_cast<const float*>(x.data);

  const std::int64_t operations = x.rows * weight.cols + 1, between_checks = kUninterrupted / operations;
  const Division division(weight);
  const std::int64_t unit = division.unit, n_units = (weight.rows + unit - 1) / unit;
  const std::int64_t most =
      std::min(division.most, std::max<std::int64_t>(1, between_checks / kBlock / unit) * kBlock * unit);
  const Tensor panels =
      is_blocks(weight.dtype) ? p.tensor({p.pool.size(), std::min(weight.rows, most) * weight.cols}) : Tensor{};
  p.parallel_for(n_units, Machine::kOperationsPerThread / operations / unit + 1,
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   float* const panel = panels.data != nullptr ? panels.row(thread) : nullptr;
                   end = std::min(end * unit, weight.rows);
                   for (std::int64_t first = begin * unit; first < end; first += most) {
                     p.check_interrupt();
                     const MatrixView w = multipliable(p, weight.row_range(first, std::min(most, end - first)), panel);
                     if (packs) {
                       p.kernels.matmul_packed(rows_of_x, x.rows, w, y + first, ldy, adds, p.scratch(thread));
                     } else {
                       p.kernels.matmul(rows_of_x, x.row_stride, x.rows, w, y + first, ldy, p.scratch(thread));
                     }
                   }
                 });
}

Tensor as_multiplied(Pass& p, const Tensor& x, const MatrixView& weight) {
  if (!is_of_integers(p, weight)) return x;
  const Tensor y = p.tensor(x.shape);
  const MatrixView rows = view_of(x.data, x.count() / weight.cols, weight.cols, weight.cols);
  const RoundedPart* const parts = rounded(p, rows);
  p.for_rows(rows.rows * rows.cols / kPartSize, kPartSize, [&](std::int64_t i) {
    for (std::int64_t k = 0; k < kPartSize; ++k) {
      y.data[i * kPartSize + k] = parts[i].scale * static_cast<float>(parts[i].q[k]);
    }
  });
  return y;
}

/// Sums t in 16-lane order. Rows that add nothing are left out, so that the sum has the same bits in a pass that does
/// not compute them. Blocks of kRows rows of the gradient limit the packed dy.
void add_weight_gradient(Pass& p, const Tensor& all_x, const Tensor& all_dy, const Param& weight, std::int64_t first) {
  constexpr std::int64_t kRows = 768;
  const Tensor dw = p.grad(weight);
  if (dw.data == nullptr) return;
  const ArenaScope scope(p.arena);
  const std::vector<std::int64_t> counted = rows_with_values(p, all_dy);
  if (counted.empty()) return;
  const Tensor x = gathered(p, all_x, counted), dy = gathered(p, all_dy, counted);
  const MatrixView all = rows_of(dy);
  for (std::int64_t row = 0; row < all.cols; row += kRows) {
    const MatrixView columns = all.col_range(row, std::min(kRows, all.cols - row));
    multiply(p, transposed(columns), transposed(rows_of(x)), dw.row(row) + first, weight.view.cols, Into::add);
  }
}

void add_bias_gradient(Pass& p, const Tensor& dy, const Param& bias) {
  const Tensor db = p.grad(bias);
  if (db.data == nullptr) return;
  p.for_columns(dy.row_size(), dy.rows(), [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t t = 0; t < dy.rows(); ++t) {
      p.kernels.add(db.data + first, dy.row(t) + first, count, db.data + first);
    }
  });
}

void add_bias(Pass& p, const Param& bias, const Tensor& y) {
  if (!bias.present()) return;
  const float* b = p.vector(bias);
  if (p.ledger != nullptr) p.ledger->reads(bias);
  const std::int64_t n = y.row_size();
  p.for_rows(y.rows(), n, [&](std::int64_t t) { p.kernels.add(y.row(t), b, n, y.row(t)); });
  if (!p.is_taped()) return;
  p.training.tape->watch(y, [&p, &bias](const Tensor& dy) { add_bias_gradient(p, dy, bias); });
}

Tensor linear(Pass& p, const LinearParams& params, const Tensor& x, const std::optional<AddedSite>& added,
              const Param* shared) {
  const Param& weight = shared != nullptr ? *shared : params.weight;
  if (x.row_size() != weight.view.cols) {
    throw InternalError("linear", "expected rows of {} elements, got {}", weight.view.cols, to_string(x.shape));
  }
  const Tensor y = adapted(p, params.weight.name, x, product(p, weight, x), added);
  add_bias(p, params.bias, y);
  return y;
}

Tensor linear_part(Pass& p, const LinearParams& w, const Tensor& x, std::int64_t first) {
  const Tensor y = product(p, w.weight, x, first);
  add_bias(p, w.bias, y);
  return y;
}

}  // namespace vitrine
