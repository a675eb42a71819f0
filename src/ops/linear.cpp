#include "ops/linear.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "ops/describe.h"

namespace vitrine {
namespace {

constexpr std::int64_t kUninterrupted = std::int64_t{1} << 30;  // operations between two checks of the interrupt
constexpr std::int64_t kBlock = 48;                             // rows of w that justify a kernel call
constexpr std::int64_t kPartSize = std::size(RoundedPart{}.q);
constexpr std::int64_t kColumnsAtOnce = 16;             // of a transposed weight that are widened at once
constexpr std::int64_t kPanel = std::int64_t{1} << 16;  // floats of a dequantized panel: 256 KiB

/// How the rows of a weight are divided: into multiples of `unit`, at most `most` at a time. A panel of a quantized
/// weight is small; if the weight is transposed, a panel holds whole blocks of each stored row.
struct Division {
  std::int64_t unit, most;

  Division(const MatrixView& weight, bool has_panel, bool packs) : unit(packs ? kBlock : 1), most(weight.rows) {
    if (!has_panel) return;
    unit = 1;
    if (weight.col_stride != 1) unit = is_blocks(weight.dtype) ? block_size(weight.dtype).elements : kColumnsAtOnce;
    most = std::max(weight.col_stride != 1 ? unit : kBlock, kPanel / weight.cols / unit * unit);
  }
};

/// Whether the kernels multiply few rows of x by a weight in FP8, nf4 or fp4 as it is stored: by rows, with one scale
/// for each 16 columns that they read together.
bool is_multiplied_in_place(const MatrixView& w, std::int64_t rows) {
  constexpr std::int64_t kFewRows = 4, kGroup = 16;
  const bool is_table = w.dtype == DType::nf4 || w.dtype == DType::fp4;
  if ((w.dtype != DType::f8_e4m3 && !is_table) || w.col_stride != 1 || rows > kFewRows) return false;
  const BlockScales& s = w.scales;
  if (is_table && s.first_col % block_size(w.dtype).elements != 0) return false;
  const bool is_one_block = s.first_col % s.block_cols + w.cols <= s.block_cols;
  return is_one_block || (s.block_cols % kGroup == 0 && s.first_col % kGroup == 0);
}

/// The weight in a type that the kernels accept: itself, or, if there is a panel, its elements as floats there.
MatrixView multipliable(const Pass& p, const MatrixView& weight, float* panel) {
  if (panel == nullptr) return weight;
  const bool is_transposed = weight.col_stride != 1;
  const MatrixView stored = is_transposed ? transposed(weight) : weight;
  for (std::int64_t r = 0; r < stored.rows; ++r) {
    p.widen(stored, r, stored.cols, panel + r * stored.cols);
  }
  const MatrixView floats = view_of(panel, stored.rows, stored.cols, stored.cols);
  return is_transposed ? transposed(floats) : floats;
}

/// Whether the kernels multiply rows of whole blocks as integers: those of codes in groups if no group ends within a
/// part. If the columns have another order, only whole rows.
bool are_multiplied_as_integers(const MatrixView& w) {
  if (!has_groups(w.dtype)) return true;
  const BlockScales& s = w.scales;
  if (!has_integer_products(w.dtype)) return false;
  const bool is_whole = s.first_col == 0 && w.cols == w.row_stride;
  const bool has_parts = s.block_cols % kPartSize == 0 || (is_whole && s.block_cols >= w.cols);
  return s.first_col % kPartSize == 0 && has_parts && (s.groups->places == nullptr || is_whole);
}

/// Where a weight that is multiplied as integers stores each column; null: in order.
const std::int32_t* places_of(const MatrixView& w) {
  return w.scales.groups != nullptr ? w.scales.groups->places : nullptr;
}

/// The numbers with which products with a weight are computed.
enum class Numbers : std::uint8_t { floats, integers, pairs };

Numbers numbers_of(const Pass& p, const MatrixView& weight) {
  if (p.compute == Compute::f32 || p.is_taped()) return Numbers::floats;
  if (is_blocks(weight.dtype)) {
    const bool whole = weight.col_stride == 1 && weight.cols % block_size(weight.dtype).elements == 0;
    return whole && are_multiplied_as_integers(weight) ? Numbers::integers : Numbers::floats;
  }
  return p.compute != Compute::int8 && weight.dtype == DType::bf16 ? Numbers::pairs : Numbers::floats;
}

/// The elements of x's rows at their places.
MatrixView put_in_places(Pass& p, const MatrixView& x, const std::int32_t* places) {
  const Tensor y = p.tensor({x.rows, x.cols});
  p.for_rows(x.rows, x.cols, [&](std::int64_t t) {
    const auto* const from = reinterpret_cast<const float*>(x.at(t, 0));
    for (std::int64_t c = 0; c < x.cols; ++c) y.row(t)[places[c]] = from[c];
  });
  return view_of(y.data, x.rows, x.cols, x.cols);
}

/// x, whose rows have whole parts in the order of a weight of type `w`, rounded to 8 bits for the product.
RoundedPart* rounded(Pass& p, const MatrixView& x, DType w) {
  const std::int64_t parts = x.cols / kPartSize;
  auto* const to = reinterpret_cast<RoundedPart*>(
      p.tensor({x.rows, parts * std::int64_t{sizeof(RoundedPart) / sizeof(float)}}).data);
  p.for_rows(x.rows, 4 * x.cols, [&](std::int64_t t) {
    p.kernels.blocks.round_to_int8(reinterpret_cast<const float*>(x.at(t, 0)), x.cols, w, to + t * parts);
  });
  return to;
}

/// Calls run(first, count, thread) for ranges of the rows of a weight, in parallel. A range has at most `most` rows and
/// begins at a multiple of `unit`; between two ranges, the interrupt is checked. `operations`: of one row.
template <class Run>
void for_ranges(Pass& p, std::int64_t rows, std::int64_t unit, std::int64_t most, std::int64_t operations, Run run) {
  p.parallel_for((rows + unit - 1) / unit, ExecutionContext::kOperationsPerThread / operations / unit + 1,
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   end = std::min(end * unit, rows);
                   for (std::int64_t first = begin * unit; first < end; first += most) {
                     p.check_interrupt();
                     run(first, std::min(most, end - first), thread);
                   }
                 });
}

/// The most rows between two checks of the interrupt, in multiples of `unit`.
std::int64_t max_rows(std::int64_t operations, std::int64_t unit) {
  return std::max<std::int64_t>(1, kUninterrupted / operations / unit) * unit;
}

/// The product with a quantized weight, computed with integers.
void multiply_blocks(Pass& p, const MatrixView& x, const MatrixView& weight, float* y, std::int64_t ldy) {
  constexpr std::int64_t kUnit = 64;  // rows of w: a panel
  const std::int32_t* const places = places_of(weight);
  const RoundedPart* const parts = rounded(p, places != nullptr ? put_in_places(p, x, places) : x, weight.dtype);
  const std::int64_t operations = x.rows * weight.cols + 1;
  for_ranges(p, weight.rows, kUnit, max_rows(operations, kUnit), operations,
             [&](std::int64_t first, std::int64_t count, int thread) {
               p.kernels.blocks.multiply(parts, x.rows, weight.row_range(first, count), y + first, ldy,
                                         p.scratch(thread));
             });
}

/// x in the order in which the kernels read it.
const float* packed(Pass& p, const MatrixView& x) {
  float* const to = p.tensor({packed_size(p.kernels, x.rows, x.cols)}).data;
  const std::int64_t tile = p.kernels.packed_rows, n_tiles = (x.rows + tile - 1) / tile;
  const std::int64_t grain = ExecutionContext::kOperationsPerThread / (tile * x.cols + 1) + 1;
  p.parallel_for(n_tiles, grain, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t first = begin * tile, n = std::min(end * tile, x.rows) - first;
    p.kernels.pack(x.row_range(first, n), to + packed_size(p.kernels, first, x.cols));
  });
  return to;
}

/// The product with a bf16 weight, computed with bfloat16 numbers in the pair order.
void multiply_pairs(Pass& p, const MatrixView& x, const MatrixView& weight, float* y, std::int64_t ldy) {
  const PairKernels& k = p.kernels.pairs(weight.col_stride != 1);
  const Tensor rows = p.tensor({x.rows, rounded_stride(k, x.cols)});
  p.for_rows(x.rows, 4 * x.cols,
             [&](std::int64_t t) { k.round(reinterpret_cast<const float*>(x.at(t, 0)), x.cols, rows.row(t)); });
  const bool packs = worth_packing(k.pack_above, x.rows, weight);
  const std::int64_t stride = rows.row_size(), operations = x.rows * weight.cols + 1;
  const float* const operand =
      packs ? packed(p, view_of(rows.data, x.rows, rounded_size(k, x.cols), stride)) : rows.data;
  for_ranges(p, weight.rows, packs ? kBlock : 1, max_rows(operations, kBlock), operations,
             [&](std::int64_t first, std::int64_t count, int thread) {
               const MatrixView w = weight.row_range(first, count);
               if (packs) {
                 k.matmul_packed(operand, x.rows, w, y + first, ldy, p.scratch(thread));
               } else {
                 k.matmul(operand, stride, x.rows, w, y + first, ldy, p.scratch(thread));
               }
             });
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

/// The number of rows up to the last one that has an element other than zero; in a dry run, all.
std::int64_t rows_to_last_value(const Pass& p, const Tensor& x) {
  std::int64_t n = x.rows();
  const auto is_zero = [](float v) { return v == 0; };
  while (!p.shapes_only && n > 0 && std::all_of(x.row(n - 1), x.row(n - 1) + x.row_size(), is_zero)) --n;
  return n;
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

Tensor product(Pass& p, const Param& weight, const Tensor& x, std::int64_t first, const Tensor& into) {
  const MatrixView w =
      first == 0 && x.row_size() == weight.view.cols ? weight.view : weight.view.col_range(first, x.row_size());
  const Tensor y = into.data != nullptr ? into : p.tensor({x.rows(), w.rows});
  multiply(p, rows_of(x), w, y.data, w.rows);
  p.record(OpKind::linear, {x}, y, [&p, &weight, w, x, y, first] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    add_weight_gradient(p, x, dy, weight, first);
    // A gradient that begins at one token reaches no later one.
    const std::int64_t n = p.training.linearizes ? rows_to_last_value(p, dy) : dy.rows();
    if (n == 0) return;
    multiply(p, rows_of(dy.row_range(0, n)), transposed(w), dx.data, x.row_size(), Into::add);
  });
  if (p.ledger != nullptr) p.ledger->multiplies(weight, x.rows(), w.cols);
  return y;
}

void multiply(Pass& p, const MatrixView& x, const MatrixView& weight, float* y, std::int64_t ldy, Into into) {
  const ArenaScope scope(p.arena);
  const Numbers numbers = x.col_stride == 1 ? numbers_of(p, weight) : Numbers::floats;
  const bool adds = into == Into::add, packs = x.col_stride != 1 || worth_packing(p.kernels.pack_above, x.rows, weight);
  if (adds && (numbers == Numbers::pairs || !packs)) {
    const Tensor sum = p.tensor({x.rows, weight.rows});
    multiply(p, x, weight, sum.data, weight.rows);
    return p.for_rows(x.rows, weight.rows,
                      [&](std::int64_t t) { p.kernels.add(y + t * ldy, sum.row(t), weight.rows, y + t * ldy); });
  }
  if (numbers == Numbers::pairs) return multiply_pairs(p, x, weight, y, ldy);
  if (numbers == Numbers::integers && !adds) return multiply_blocks(p, x, weight, y, ldy);
  const float* const rows_of_x = packs ? packed(p, x) : reinterpret_cast<const float*>(x.data);

  const std::int64_t operations = x.rows * weight.cols + 1;
  const bool has_panel = is_quantized(weight.dtype) && (packs || !is_multiplied_in_place(weight, x.rows));
  const Division division(weight, has_panel, packs);
  const std::int64_t most = std::min(division.most, max_rows(operations, kBlock * division.unit));
  const Tensor panels = has_panel ? p.tensor({p.pool.size(), std::min(weight.rows, most) * weight.cols}) : Tensor{};
  for_ranges(p, weight.rows, division.unit, most, operations, [&](std::int64_t first, std::int64_t count, int thread) {
    float* const panel = panels.data != nullptr ? panels.row(thread) : nullptr;
    const MatrixView w = multipliable(p, weight.row_range(first, count), panel);
    if (packs) {
      p.kernels.matmul_packed(rows_of_x, x.rows, w, y + first, ldy, adds, p.scratch(thread));
    } else {
      p.kernels.matmul(rows_of_x, x.row_stride, x.rows, w, y + first, ldy, p.scratch(thread));
    }
  });
}

bool SmallProduct::fits(const Pass& p, const MatrixView& x, const MatrixView& weight) {
  return !worth_packing(p.kernels.pack_above, x.rows, weight) && x.col_stride == 1 && weight.col_stride == 1 &&
         !is_quantized(weight.dtype);
}

SmallProduct::SmallProduct(Pass& p, const MatrixView& x, const MatrixView& weight, float* y, std::int64_t ldy,
                           Into into)
    : x_(x), weight_(weight), y_(y), ldy_(ldy) {
  if (numbers_of(p, weight) == Numbers::pairs) {
    rounded_ = p.tensor({x.rows, rounded_stride(p.kernels.pairs(false), x.cols)});
  }
  if (into == Into::add) sum_ = p.tensor({x.rows, weight.rows});
}

void SmallProduct::run(const Pass& p, int thread) const {
  const bool adds = sum_.data != nullptr;
  float* const to = adds ? sum_.data : y_;
  const std::int64_t stride = adds ? weight_.rows : ldy_;
  if (rounded_.data != nullptr) {
    const PairKernels& k = p.kernels.pairs(false);
    for (std::int64_t t = 0; t < x_.rows; ++t) {
      k.round(reinterpret_cast<const float*>(x_.at(t, 0)), x_.cols, rounded_.row(t));
    }
    k.matmul(rounded_.data, rounded_.row_size(), x_.rows, weight_, to, stride, p.scratch(thread));
  } else {
    p.kernels.matmul(reinterpret_cast<const float*>(x_.data), x_.row_stride, x_.rows, weight_, to, stride,
                     p.scratch(thread));
  }
  for (std::int64_t t = 0; t < x_.rows && adds; ++t) {
    p.kernels.add(y_ + t * ldy_, sum_.row(t), weight_.rows, y_ + t * ldy_);
  }
}

Tensor as_multiplied(Pass& p, const Tensor& x, const MatrixView& weight) {
  const Numbers numbers = numbers_of(p, weight);
  if (numbers == Numbers::floats) return x;
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n_rows = x.count() / weight.cols;
  if (numbers == Numbers::pairs) {
    p.for_rows(n_rows, weight.cols, [&](std::int64_t t) {
      for (std::int64_t i = t * weight.cols; i < (t + 1) * weight.cols; ++i) {
        y.data[i] = float_from_bf16(bf16_from_float(x.data[i]));
      }
    });
    return y;
  }
  const MatrixView rows = view_of(x.data, n_rows, weight.cols, weight.cols);
  const std::int32_t* const places = places_of(weight);
  const RoundedPart* const parts = rounded(p, places != nullptr ? put_in_places(p, rows, places) : rows, DType::q8_0);
  p.for_rows(n_rows, weight.cols, [&](std::int64_t t) {
    const RoundedPart* const row = parts + t * weight.cols / kPartSize;
    for (std::int64_t c = 0; c < weight.cols; ++c) {
      const std::int64_t at = places != nullptr ? places[c] : c;
      y.data[t * weight.cols + c] =
          row[at / kPartSize].scale * static_cast<float>(row[at / kPartSize].q[at % kPartSize]);
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
              const Param* shared, const Tensor& into) {
  const Param& weight = shared != nullptr ? *shared : params.weight;
  if (x.row_size() != weight.view.cols) {
    throw InternalError("linear", "expected rows of {} elements, got {}", weight.view.cols, to_string(x.shape));
  }
  const Tensor y = adapted(p, params.weight.name, x, product(p, weight, x, 0, into), added);
  add_bias(p, params.bias, y);
  return y;
}

Tensor linear_part(Pass& p, const LinearParams& w, const Tensor& x, std::int64_t first) {
  const Tensor y = product(p, w.weight, x, first);
  add_bias(p, w.bias, y);
  return y;
}

namespace {

bool has_bias(const OpView& v) { return v.bias() != nullptr; }
OpDescription::Elements linear_elements(const OpView& v, std::int64_t i) {
  const std::int64_t n_out = v.weight().shape[0], n = v.weight().shape[1];
  OpDescription::Elements elements = {of_input(0, i / n_out * n, n), of_param(v.op.param, i % n_out * n, n)};
  if (v.bias() != nullptr) elements.push_back(of_param(v.bias_name(), i % n_out));
  return elements;
}
Cell linear_cell(const OpView& v, std::int64_t i) {
  const OpDescription::Elements e = linear_elements(v, i);
  const Arithmetic sum = dot(v, e[0], e[1]);
  return v.bias() == nullptr ? sum : sum + Arithmetic((*v.bias())[e[2].first]);
}
Cell linear_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  const Seen& w = v.weight();
  return dot(v, v.gradient(), i / w.shape[1] * w.shape[0], 1, w, i % w.shape[1], w.shape[1], w.shape[0]);
}
void add_linear_terms(const OpView& v, std::int64_t flat, std::vector<Arithmetic>& terms) {
  const std::int64_t n_out = v.weight().shape[0], n = v.weight().shape[1];
  for (std::int64_t t = 0; t < v.gradient().count() / n_out; ++t) {
    const float dy = v.gradient()[t * n_out + flat / n];
    if (dy != 0) terms.push_back(Arithmetic(dy) * Arithmetic(v.input(0)[t * n + flat % n]));
  }
}

}  // namespace

constexpr OpDescription linear_op{
    "src/ops/linear.cpp",
    {{has_bias, "$y_{t,o} = Σ_{i} x_{t,i} · W_{o,i} + b_{o}", "$y_{t,o} = Σ_{i} x_{t,i} · W_{o,i}"},
     linear_cell,
     linear_elements},
    {"Σ_{o} d$y_{t,o} · W_{o,i}", linear_gradient_cell},
    {"Σ_{t} dy_{t,o} · x_{t,i}", add_linear_terms}};

}  // namespace vitrine
