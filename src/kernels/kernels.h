// The arithmetic of vitrine: plain functions over rows of floats, one table of them per instruction set.
//
// All tables give the same bits. The order of every sum is part of the definition of a kernel, in its comment:
//   16-lane order   element i belongs to lane i mod 16; each lane adds its elements in ascending order, starting from
//                   +0, with one fused multiply-add per product; a tail is padded with zeros; at the end lanes are
//                   added as (l, l+8), then (l, l+4), (l, l+2), (l, l+1).
//   pair order      of bfloat16 numbers: lane l of 16 adds the products of elements 32 j + 2 l + 1, then 32 j + 2 l, of
//                   each group j of 32, in ascending order of j, starting from +0, with one fused multiply-add per
//                   product, rounded to nearest even; a tail is padded with zeros; at the end lanes are added as above.
//                   Operands and results below 2^-126 become zeros of their sign, also those of the tree; a result is
//                   compared with 2^-126 after it is rounded with an unbounded exponent. The modes of the processor
//                   change nothing.
// The value of an element depends on nothing else, such as the number of rows, the thread or the tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "kernels/state_scan.h"
#include "tensor/kv_rows.h"
#include "tensor/matrix_view.h"

namespace vitrine {

enum class Isa : std::uint8_t { scalar, avx2, avxvnni, avx512, avx512vnni, avx512bf16, neon, neondot };
enum class Activation : std::uint8_t { relu, silu, gelu_tanh, gelu_erf, tanh, relu_squared };

/// The parameters of one step of AdamW, the same for all elements.
struct AdamwStep {
  float grad_scale;  ///< Factor of the gradients, from clipping.
  float keep;        ///< 1 − lr · weight_decay
  float rate;        ///< lr / (1 − beta1^t)
  float toward;      ///< 1 − beta1
  float beta2;
  float toward2;       ///< 1 − beta2
  float root_divisor;  ///< √(1 − beta2^t)
  float eps;
};

/// The parameters of one step of SGD with momentum.
struct SgdStep {
  float grad_scale;
  float decay;  ///< weight_decay, added to the gradient.
  float momentum;
  float rate;  ///< lr
};

/// Which elements of a value are dropped, drawn by Philox (base/rng.h), four elements per block.
struct DropoutMask {
  std::uint32_t key[2];
  std::uint32_t counter[3];  ///< Words 1 to 3 of a block's counter; word 0 is the block.
  std::uint32_t limit;       ///< An element is dropped if its word is below this.
  float kept;                ///< Factor of the elements that are kept.
};

/// The numbers of rows up to which `matmul` is faster than `pack` and `matmul_packed`, by the kind of w.
struct PackAbove {
  std::int64_t f32;         ///< Row-major, four bytes per element.
  std::int64_t half;        ///< Row-major, fewer bytes per element.
  std::int64_t transposed;  ///< Of any type.
};
constexpr std::int64_t kNeverPack = std::numeric_limits<std::int64_t>::max();

/// The size of a product's temporary memory, in floats (864 KiB). The caller provides the memory, because threads may
/// have small stacks.
constexpr std::int64_t kScratchFloats = 221184;

/// 32 consecutive elements of a row, rounded to 8 bits: element i is scale · q[i]; for mxfp4_pairs and int4, q has
/// the elements with even numbers first.
struct RoundedPart {
  std::int8_t q[32];
  float scale;           ///< NaN if an element is infinite or NaN.
  std::int32_t sums[2];  ///< −Σ q, in the form that the same table's `multiply` reads for the type of w.
};

/// The kernels for quantized weights.
struct BlockKernels {
  /// Rounds a row of n elements, a multiple of 32, in parts, for a product with a w of the given type: scale =
  /// max |x| / 127, q = x · (127 / max |x|), to nearest, ties to even. If max |x| is below 2^-100, all are 0.
  void (*round_to_int8)(const float* x, std::int64_t n, DType w, RoundedPart* y);
  /// y[t, r] = Σ_k x[t, k] · w[r, k], w row-major in a block format. Starting from +0, the parts of 32 columns are
  /// added in ascending order: acc = fma(S, scale of w · scale of x, acc), then, in formats with a minimum
  /// (quant/parts-inl.h), acc = fma(−M, min of w · scale of x, acc). S is the exact sum of q · (code − offset), and M
  /// that of q; sub-scales and sub-minima are factors of their halves of these sums, which stay below 2^24. x: `tokens`
  /// rows of w.cols / 32 parts, one after another, rounded for w; y and `scratch` as for `matmul`.
  void (*multiply)(const RoundedPart* x, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy,
                   float* scratch);
};

/// Quantizes `rows` rows of `cols` elements, whole blocks, to a block format other than q8_0 and those of mxfp4. The
/// elements must be finite. `importance` (cols, at least 0; may be null) weighs the squared errors of a row's elements.
/// Returns false if a scale is out of the format's range; y is then unspecified. kernels/quantize-inl.h defines what is
/// minimized.
using QuantizeKernel = bool (*)(DType dtype, const float* x, std::int64_t rows, std::int64_t cols,
                                const float* importance, std::byte* y);

/// The kernels for products of bfloat16 numbers.
struct PairKernels {
  bool by_instruction;        ///< Computed by VDPBF16PS, else by multiply-adds of floats.
  std::int64_t group_floats;  ///< The memory of 32 rounded elements, in floats.
  /// Rounds a row of n elements to bfloat16, to nearest, ties to even, in the order in which the products read it,
  /// padded with zeros to a multiple of 32. y: rounded_size() floats.
  void (*round)(const float* x, std::int64_t n, float* y);
  /// y[t, r] = Σ_k x[t, k] · w[r, k], pair order over k. x: rounded rows, ldx floats apart; w: bf16. Otherwise as
  /// Kernels::matmul.
  void (*matmul)(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy,
                 float* scratch);
  /// The same product for many rows, from rounded rows that Kernels::pack has laid out. Null if `pack_above` never
  /// packs.
  void (*matmul_packed)(const float* packed, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy,
                        float* scratch);
  PackAbove pack_above;
};

/// The kernels for keys and values in the formats of tensor/kv_type.h.
struct KvKernels {
  /// Multiplies each part of `n` elements by a Hadamard matrix / √part, which is its own inverse. The part is the
  /// largest power of two that divides n; x is copied if it is below 16. Element i of a group of 16 becomes
  /// Σ_j ±x[j], added to +0 in ascending order, times 1 / √part; the sign is that of (−1)^popcount(i & j). Then, for
  /// h = 16, 32, … below the part, pairs (a, b) that are h apart become (a + b, a − b). x and y do not overlap.
  void (*rotate)(const float* x, std::int64_t n, float* y);
  /// Rounds a row of n elements to int8 or int4. int8: scale = max |x| / 127, code = x · (1 / scale). int4, with
  /// low = min(x, 0) and high = max(x, 0): scale = (high − low) / 15, zero = −low · 16 · (1 / scale), at most 255,
  /// code = x · (1 / scale) + zero / 16. Scales are rounded to f16 first; all rounding is to nearest, ties to even, and
  /// codes are clamped to their range. The scale is NaN if it is too large for f16, or if an element is infinite or
  /// NaN.
  void (*round)(const float* x, std::int64_t n, KvType type, std::byte* y);
  /// y[t, r] = Σ_k x[t, k] · keys[r, k], 16-lane order over k, as Kernels::matmul.
  void (*score)(const float* x, std::int64_t ldx, std::int64_t tokens, const KvRows& keys, float* y, std::int64_t ldy,
                float* scratch);
  /// z[r, d] = fma(p[r, j], values[j, d], z[r, d]), as Kernels::weighted_rows.
  void (*mix)(const float* p, std::int64_t ldp, std::int64_t rows, const KvRows& values, float* z, std::int64_t ldz);
};

/// The kernels of one instruction set. If input and output are float arrays of the same length, the output may be the
/// same array as an input; no other overlap is allowed. n may be 0, and no alignment is required. The payload of a NaN
/// is not part of "the same bits".
struct Kernels {
  Isa isa;

  /// y[t, r] = Σ_k x[t, k] · w[r, k], 16-lane order over k. x: tokens rows of w.cols floats, ldx apart; y: tokens rows
  /// of w.rows floats, ldy apart. w needs col_stride == 1 or row_stride == 1 (the same bits); of f8_e4m3,
  /// nf4 and fp4 the first, and one scale for each 16 of its columns. `scratch`: kScratchFloats that nothing else uses
  /// during the call.
  void (*matmul)(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy,
                 float* scratch);
  /// The same product for many rows, from the output of `pack`; if `adds`, y[t, r] += the sum.
  void (*matmul_packed)(const float* packed, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy,
                        bool adds, float* scratch);
  /// Lays out x, F32 with one stride of 1, for matmul_packed: packed_size() floats. Parts of x that begin at a multiple
  /// of packed_rows may be packed separately, each at an offset of packed_size() of the rows before it.
  void (*pack)(const MatrixView& x, float* packed);
  std::int64_t packed_rows;
  PackAbove pack_above;
  /// Adds to z: z[r, d] = fma(p[r, j], v[j, d], z[r, d]) for j = 0, 1, … in this order. p: `rows` rows of v.rows
  /// floats, ldp apart; z: `rows` rows of v.cols floats, ldz apart. v needs col_stride == 1.
  void (*weighted_rows)(const float* p, std::int64_t ldp, std::int64_t rows, const MatrixView& v, float* z,
                        std::int64_t ldz);

  /// Σ x[i], 16-lane order.
  float (*sum)(const float* x, std::int64_t n);
  /// Σ (x[i] − center)², 16-lane order.
  float (*sum_squares)(const float* x, std::int64_t n, float center);
  /// The largest x[i]; −∞ for n = 0; NaN if any x[i] is NaN.
  float (*max)(const float* x, std::int64_t n);
  /// y[i] = exp(x[i] − shift); returns Σ y[i], 16-lane order.
  float (*exp_sum)(const float* x, std::int64_t n, float shift, float* y);
  /// Whether no x[i] is infinite or NaN.
  bool (*all_finite)(const float* x, std::int64_t n);

  /// y[i] = a[i] + b[i]
  void (*add)(const float* a, const float* b, std::int64_t n, float* y);
  /// y[i] = a[i] · b[i]
  void (*multiply)(const float* a, const float* b, std::int64_t n, float* y);
  /// y[i] = factor · x[i]
  void (*scale)(const float* x, std::int64_t n, float factor, float* y);
  /// y[i] = (x[i] − center) / divisor
  void (*normalize)(const float* x, std::int64_t n, float center, float divisor, float* y);
  /// y[i] = x[i] · (offset + weight[i]), rounded after each operation; with a bias (may be null) fma(x, offset + w, b).
  void (*affine)(const float* x, const float* weight, float offset, const float* bias, std::int64_t n, float* y);
  /// y[i] = cap · tanh(x[i] / cap)
  void (*softcap)(const float* x, std::int64_t n, float cap, float* y);
  /// y[i] = act(x[i])
  void (*activate)(Activation activation, const float* x, std::int64_t n, float* y);
  /// y[i] = act'(x[i]), the derivative; ReLU's at 0 is 0.
  void (*slope)(Activation activation, const float* x, std::int64_t n, float* y);
  /// y[i] = expm1(min(x[i], most)) − x[i] for x[i] ≤ 0, else 0: the part of xIELU that bends. most ≤ 0.
  void (*bend)(const float* x, std::int64_t n, float most, float* y);
  /// Its derivative: exp(x[i]) − 1 for x[i] ≤ most, −1 up to 0, then 0.
  void (*bend_slope)(const float* x, std::int64_t n, float most, float* y);

  /// y[i] = 1 / (1 + exp(−x[i])), for x[i] < 0 as exp(x[i]) / (1 + exp(x[i])).
  void (*sigmoid)(const float* x, std::int64_t n, float* y);
  /// y[i] = log(1 + exp(x[i])), as max(x[i], 0) + log1p(exp(−|x[i]|)).
  void (*softplus)(const float* x, std::int64_t n, float* y);

  /// Σ a[i] · b[i], 16-lane order.
  float (*dot)(const float* a, const float* b, std::int64_t n);
  /// y[i] = fma(a[i], b[i], y[i])
  void (*multiply_add)(const float* a, const float* b, std::int64_t n, float* y);
  /// y[i] = fma(factor, x[i], y[i])
  void (*add_scaled)(const float* x, std::int64_t n, float factor, float* y);

  /// sin and cos of angles in radians, |angle| ≤ 2^20. `cos` may be `angle`.
  void (*sin_cos)(const float* angle, std::int64_t n, float* sin, float* cos);
  /// Rotates pairs (x[i], x[i + pairs]) by (cos[i], sin[i]): x' = x cos − y sin, y' = y cos + x sin.
  void (*rotate_halves)(const float* x, const float* cos, const float* sin, std::int64_t pairs, float* out);
  /// The same with pairs (x[2i], x[2i + 1]).
  void (*rotate_interleaved)(const float* x, const float* cos, const float* sin, std::int64_t pairs, float* out);

  /// Converts stored elements to float, exactly.
  void (*widen)(const std::byte* x, DType dtype, std::int64_t n, float* y);
  /// y[i] = (x[i] / 256) · (256 · scales[(first + i) / block]), x in E4M3: the product, rounded once.
  void (*widen_f8)(const std::byte* x, std::int64_t n, const float* scales, std::int64_t block, std::int64_t first,
                   float* y);
  /// Converts floats to stored elements, rounding to nearest, ties to even.
  void (*narrow)(const float* x, std::int64_t n, DType dtype, std::byte* y);

  /// One step of AdamW in place: g' = grad_scale · g[i]; m[i] = fma(toward, g' − m[i], m[i]); v[i] = fma(toward2 · g',
  /// g', beta2 · v[i]); p[i] = fma(−rate, m[i] / (√v[i] / root_divisor + eps), keep · p[i]). No two of the arrays may
  /// overlap.
  void (*adamw)(const AdamwStep& step, const float* g, std::int64_t n, float* p, float* m, float* v);
  /// One step of SGD in place: m[i] = fma(momentum, m[i], fma(decay, p[i], grad_scale · g[i])); p[i] = fma(−rate,
  /// m[i], p[i]). No two of the arrays may overlap.
  void (*sgd)(const SgdStep& step, const float* g, std::int64_t n, float* p, float* m);

  KvKernels kv;
  StateKernels states;
  BlockKernels blocks;
  QuantizeKernel quantize;
  /// The kernels for products with a row-major or a transposed matrix. The first call for avx512bf16 compares the
  /// instruction with the pair order; if they differ, the kernels are those of avx512.
  const PairKernels& (*pairs)(bool transposed);

  /// to[i] = 0 or mask.kept for elements first + i: element e has word e mod 4 of block e / 4 (mod 2^32).
  void (*dropout_factors)(const DropoutMask& mask, std::int64_t first, std::int64_t n, float* to);
};

/// The number of floats that `pack` writes for rows of `cols` elements.
constexpr std::int64_t packed_size(const Kernels& k, std::int64_t rows, std::int64_t cols) {
  return (rows + k.packed_rows - 1) / k.packed_rows * k.packed_rows * ((cols + 15) / 16 * 16);
}
/// The number of floats of a row of `n` elements that PairKernels::round has rounded.
constexpr std::int64_t rounded_size(const PairKernels& k, std::int64_t n) { return (n + 31) / 32 * k.group_floats; }
/// The distance of such rows, in floats: rows whose distance is a multiple of 4 KiB would share a few sets of the
/// cache.
constexpr std::int64_t rounded_stride(const PairKernels& k, std::int64_t n) {
  const std::int64_t size = rounded_size(k, n);
  return size % 1024 == 0 ? size + 16 : size;
}
/// Whether packing is faster for this number of rows of x.
constexpr bool worth_packing(const PackAbove& above, std::int64_t rows, const MatrixView& w) {
  const bool half = w.dtype == DType::bf16 || w.dtype == DType::f16;
  return rows > (w.col_stride != 1 ? above.transposed : half ? above.half : above.f32);
}

/// The tables that this machine can run, from the smallest instruction set to the largest, beginning with scalar.
std::vector<Isa> available_isas();
/// Throws Unsupported if this machine lacks the instructions.
const Kernels& kernels_for(Isa isa);
/// The best table for this machine, or the table that VITRINE_ISA=scalar|avx2|avxvnni|avx512|avx512vnni|avx512bf16
/// names. avx512bf16 is the best only where VDPBF16PS is faster than multiply-adds of floats, which is measured.
/// Throws BadInput for any other name, Unsupported if the machine lacks the instructions.
const Kernels& default_kernels();
std::string_view name_of(Isa isa);

}  // namespace vitrine
