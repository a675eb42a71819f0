// Products with a quantized matrix, computed with integers. Several rows of w are read together, one in each lane, so
// an output is one accumulator over ascending parts of 32 columns in every algorithm, and its bits do not depend on the
// algorithm. The header of a vector type is included before this one. It has the types Words, Floats and Pair of
// quant/parts-inl.h, their operations, and
//   kRowLanes                rows at once
//   kDirectRows              rows of x up to which a matrix is read without a panel
//   kTileRows, kTileGroups   rows of x, and groups of kRowLanes rows of w, in a register tile
//   kBytesAhead              how far ahead each stream of w is prefetched when it is read without a panel
//   load_words(rows, to)     n words of each row: word i of row r is at byte 4 i of rows(r)
//   load_halves(rows)        the half-precision number at rows(r)
//   load_bytes(rows)         the byte at rows(r), as a word
//   all(x)                   a number, or four signed bytes, in every row
//   add_products<bits>(sums, codes, x)   sums + Σ_k code[k] · x[k] over the four unsigned codes, which are below
//                            2^bits, and signed bytes of a word
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/unrolled.h"
#include "kernels/kernels.h"
#include "kernels/product-inl.h"
#include "kernels/round_parts-inl.h"
#include "quant/parts-inl.h"
#include "quant/with_format-inl.h"

namespace vitrine {
namespace {

void round_to_int8(const float* x, std::int64_t n, DType w, RoundedPart* to) {
  round_parts(x, n, to);
  with_format(w, [&](auto format) {
    constexpr PartKind kKind = decltype(format)::kKind;
    order_parts<decltype(format)>(n, to);
    for (std::int64_t b = 0; b < n / kPart; ++b) {
      if constexpr (kKind.has_halves) {
        set_sums_of_halves<kKind>(to[b].sums);
      } else {
        const std::int32_t sum = to[b].sums[0] + to[b].sums[1];
        to[b].sums[0] = kKind.has_min ? __builtin_bit_cast(std::int32_t, static_cast<float>(sum)) : sum * kKind.offset;
        to[b].sums[1] = sum * kKind.offset;
      }
    }
  });
}

// The functions that read whole blocks are [[gnu::flatten]]: GCC would otherwise make functions of the parts of a
// K-quant block and pass every part through memory, at half the speed.
using RowPart = Part<Words, Floats, Pair>;

/// Rows that are equally far apart. The few distances that are kept suffice for the addresses of all rows.
struct Rows {
  const std::byte *first, *ninth;
  std::int64_t one, three, five, seven;

  Rows(const std::byte* at, std::int64_t stride)
      : first(at), ninth(at + 8 * stride), one(stride), three(3 * stride), five(5 * stride), seven(7 * stride) {}

  [[gnu::always_inline]] const std::byte* operator()(int r) const {
    const std::byte* const from = r < 8 ? first : ninth;
    switch (r % 8) {
      case 0:
        return from;
      case 1:
        return from + one;
      case 2:
        return from + 2 * one;
      case 3:
        return from + three;
      case 4:
        return from + 4 * one;
      case 5:
        return from + five;
      case 6:
        return from + 2 * three;
      default:
        return from + seven;
    }
  }
  void advance(std::int64_t bytes) { first += bytes, ninth += bytes; }
};

/// acc[t][g] += the products of one part of each group of rows of w with kTokens rows of x, which are `apart` parts
/// apart.
template <PartKind kKind, int kTokens, int kGroups>
[[gnu::always_inline]] inline void add_part(const RowPart (&w)[kGroups], const RoundedPart* x, std::int64_t apart,
                                            Floats (&acc)[kTokens][kGroups]) {
  const auto receive = [&](auto t, auto g, Floats sum) __attribute__((always_inline)) {
    const RoundedPart& x_t = x[t * apart];
    const Floats x_scale = broadcast(x_t.scale);
    acc[t][g] = fma(sum, w[g].scale * x_scale, acc[t][g]);
    if constexpr (kKind.has_min) {
      Floats minus_sum;
      if constexpr (kKind.has_halves) {
        minus_sum = minus_sum_of_halves(x_t, w[g].sub_min);
      } else {
        minus_sum = broadcast(__builtin_bit_cast(float, x_t.sums[0]));
      }
      acc[t][g] = fma(minus_sum, w[g].min * x_scale, acc[t][g]);
    }
  };
  if constexpr (kKind.has_halves) {
    dot_halves<kKind, kTokens>(w, x, apart, receive);
  } else {
    dot_part<kKind, kTokens>(w, x, apart, receive);
  }
}

struct BlockProduct {
  const RoundedPart* x;  // rows are `parts` apart
  const std::byte* w;
  std::int64_t w_stride;  // bytes
  std::int64_t parts;     // of a row
  float* y;
  std::int64_t ldy;
  std::byte* panel;         // kScratchFloats floats
  const std::byte* scales;  // of formats whose scales are apart, or of groups; likewise
  std::int64_t scale_stride;
  const std::byte* zeros = nullptr;  // of groups; null: none are stored
  std::int64_t group_parts = 1;      // parts of a group
  std::int64_t first_part = 0;       // where the columns begin in the rows of scales
};

/// The scales and zeros of the group in which a block of each row is. They are read when a group begins.
template <class F>
struct GroupReader {
  static constexpr std::int64_t kScale = sizeof(float);

  Rows scales, zeros;
  bool has_zeros;
  std::int64_t parts, left, of_row;  // of a group; of this one and of the row, from the block on
  Floats scale, min;

  GroupReader(const BlockProduct& p, std::int64_t first, std::int64_t apart, std::int64_t block)
      : scales(p.scales + (first * p.scale_stride + (p.first_part + block) / p.group_parts) * kScale,
               apart * p.scale_stride * kScale),
        zeros(p.zeros != nullptr ? p.zeros + first * p.scale_stride + (p.first_part + block) / p.group_parts : nullptr,
              apart * p.scale_stride),
        has_zeros(p.zeros != nullptr),
        parts(p.group_parts),
        left(parts - (p.first_part + block) % parts),
        of_row(p.parts - block) {
    read();
  }

  [[gnu::always_inline]] void read() {
    Words bits[1];
    load_words(
        [&](int r) __attribute__((always_inline)) { return scales(r); }, bits);
    scale = floats_of_bits(bits[0]);
    min = scale * broadcast(static_cast<float>(kMiddle<F::kDType> - F::kKind.offset));
    if (has_zeros) {
      const Words stored = load_bytes([&](int r) __attribute__((always_inline)) { return zeros(r); });
      min = scale * to_floats(stored - std::uint32_t{F::kKind.offset});
    }
  }
  [[gnu::always_inline]] void advance(std::int64_t) {
    --of_row;
    if (--left > 0 || of_row <= 0) return;
    left = parts, scales.advance(kScale);
    if (has_zeros) zeros.advance(1);
    read();
  }
};

/// One block of each row, for read_parts().
template <class F>
struct BlockReader {
  using Words = vitrine::Words;
  using Floats = vitrine::Floats;
  using Pair = vitrine::Pair;

  struct None {
    None(const BlockProduct&, std::int64_t, std::int64_t, std::int64_t) {}
    void advance(std::int64_t) {}
  };

  struct Exponents : Rows {
    Exponents(const BlockProduct& p, std::int64_t row, std::int64_t apart, std::int64_t block)
        : Rows(p.scales + row * p.scale_stride + block, apart * p.scale_stride) {}
  };

  Rows rows;
  std::conditional_t<F::kGroups, GroupReader<F>, std::conditional_t<F::kScalesApart, Exponents, None>> scales;

  /// Of rows first, first + apart, …
  BlockReader(const BlockProduct& p, std::int64_t first, std::int64_t apart, std::int64_t block = 0)
      : rows(p.w + first * p.w_stride + block * F::kSize.bytes, apart * p.w_stride), scales(p, first, apart, block) {}

  [[gnu::always_inline]] void next() { rows.advance(F::kSize.bytes), scales.advance(1); }
  template <int n>
  [[gnu::always_inline]] void words(int at, Words (&to)[n]) const {
    load_words(
        [&](int r) __attribute__((always_inline)) { return rows(r) + at; }, to);
  }
  [[gnu::always_inline]] Floats half(int at) const {
    return load_halves([&](int r) __attribute__((always_inline)) { return rows(r) + at; });
  }
  [[gnu::always_inline]] Words exponent() const {
    return load_bytes([&](int r) __attribute__((always_inline)) { return scales(r); });
  }
  [[gnu::always_inline]] Floats group_scale() const { return scales.scale; }
  [[gnu::always_inline]] Floats group_min() const { return scales.min; }
};

/// Asks for the lines of the block that begins `ahead` bytes after that of each row.
template <class F>
[[gnu::always_inline]] inline void prefetch_blocks(const Rows& rows, std::int64_t ahead) {
  for (std::int64_t at = 0; at < F::kSize.bytes; at += 64) {
    unrolled<kRowLanes>([&](auto r) { __builtin_prefetch(rows(r) + (ahead + at), 0, 3); });
  }
}

/// The outputs of kTokens rows of x and of rows first, first + apart, … of w, one in each lane.
template <class F, int kTokens>
[[gnu::flatten]] void direct_lanes(const BlockProduct& p, std::int64_t first, std::int64_t apart) {
  BlockReader<F> reader(p, first, apart);
  Floats acc[kTokens][1];
  unrolled<kTokens>([&](auto t) { acc[t][0] = broadcast(0); });
  const RoundedPart* x = p.x;
  for (std::int64_t b = 0; b < p.parts / F::kParts; ++b, reader.next()) {
    if constexpr (kBytesAhead > 0) prefetch_blocks<F>(reader.rows, kBytesAhead);
    read_parts(
        F{}, reader, [&](const RowPart& part) __attribute__((always_inline)) {
          const RowPart only[1] = {part};
          add_part<F::kKind>(only, x, p.parts, acc);
          ++x;
        });
  }
  unrolled<kTokens>([&](auto t) {
    float* const y = p.y + t * p.ldy + first;
    if (apart == 1) return store_floats(acc[t][0], y);
    float out[kRowLanes];
    store_floats(acc[t][0], out);
    for (int r = 0; r < kRowLanes; ++r) y[r * apart] = out[r];
  });
}

/// The same for any number of rows of x, at most `most` at a time: the rows of w come from the second cache after the
/// first time. Above 4 only even numbers are compiled, for each of which the compiler needs several seconds.
template <class F, int kTokens = kDirectRows>
void direct_tokens(const BlockProduct& p, std::int64_t tokens, std::int64_t most, std::int64_t first,
                   std::int64_t apart) {
  if constexpr (kTokens > 1) {
    constexpr int kFewer = kTokens > 4 ? kTokens - 2 : kTokens - 1;
    if (smaller(tokens, most) < kTokens) return direct_tokens<F, kFewer>(p, tokens, most, first, apart);
  }
  direct_lanes<F, kTokens>(p, first, apart);
  if (tokens == kTokens) return;
  BlockProduct rest = p;
  rest.x += kTokens * p.parts, rest.y += kTokens * p.ldy;
  direct_tokens<F>(rest, tokens - kTokens, most, first, apart);
}

/// All of n rows of w. The lanes read bands of neighboring rows, as many streams as there are lanes, each of them long
/// enough for the processor to follow; if it does not, they are prefetched.
template <class F>
void direct(const BlockProduct& p, std::int64_t tokens, std::int64_t n) {
  const std::int64_t most = even_part(tokens, kDirectRows, 1);
  if (n < kRowLanes) {
    for (std::int64_t r = 0; r < n; ++r) direct_tokens<F>(p, tokens, most, r, 0);
    return;
  }
  const std::int64_t band = n / kRowLanes;
  for (std::int64_t r = 0; r < band; ++r) direct_tokens<F>(p, tokens, most, r, band);
  if (n % kRowLanes > 0) direct_tokens<F>(p, tokens, most, n - kRowLanes, 1);  // some rows for the second time
}

// Many rows of x: the parts of kPanelRows rows of w are unpacked for a chunk of columns, into a panel in the L2 cache.
// kTileGroups groups of kRowLanes rows, whose part of the panel fits in the L1 cache, meet all rows of x, a register
// tile at a time. Between two chunks the sums are in y, which does not change them.
constexpr std::int64_t kPanelRows = 32, kChunkParts = 24;
constexpr std::int64_t kGroups = kPanelRows / kRowLanes;
constexpr std::int64_t kLine = 64;  // bytes

template <PartKind kKind>
constexpr std::int64_t kPanelPart = kPartWords * sizeof(Words) +
                                    (kKind.has_min ? 2 : 1) * (sizeof(Floats) + (kKind.has_halves ? sizeof(Pair) : 0));
static_assert(kGroups * kChunkParts * kPanelPart<PartKind{2, 0, true, true}> <= kScratchFloats * 4);

/// Calls visit(value) for the values of a part, in the order in which a panel stores them.
template <PartKind kKind, class AnyPart, class Visit>
[[gnu::always_inline]] inline void each_value(AnyPart& part, Visit visit) {
  unrolled<kPartWords>([&](auto i) { visit(part.codes[i]); });
  visit(part.scale);
  if constexpr (kKind.has_min) visit(part.min);
  if constexpr (kKind.has_halves) visit(part.sub_scale);
  if constexpr (kKind.has_halves && kKind.has_min) visit(part.sub_min);
}

template <PartKind kKind>
[[gnu::always_inline]] inline void store_part(const RowPart& part, std::byte* to) {
  each_value<kKind>(part, [&](const auto& value) { store(value, to), to += sizeof value; });
}

template <PartKind kKind>
[[gnu::always_inline]] inline RowPart load_part(const std::byte* from) {
  RowPart part;
  each_value<kKind>(part, [&](auto& value) { load(from, value), from += sizeof value; });
  return part;
}

/// Stores the parts of one group of rows, `step` bytes apart.
template <class F>
[[gnu::flatten]] void unpack(BlockReader<F> reader, std::int64_t parts, std::byte* to, std::int64_t step) {
  for (std::int64_t b = 0; b < parts / F::kParts; ++b, reader.next()) {
    read_parts(
        F{}, reader, [&](const RowPart& part) __attribute__((always_inline)) {
          store_part<F::kKind>(part, to);
          to += step;
        });
  }
}

/// The bytes that are unpacked next, `bytes` of each of `rows` rows. They are prefetched while other bytes are
/// multiplied, `at_once` lines at a time: the processor waits if many are on their way.
struct Ahead {
  const std::byte* row;
  std::int64_t stride, bytes, rows, at_once;
  std::int64_t done = 0;  // bytes of this row

  [[gnu::always_inline]] void prefetch_line() {
    __builtin_prefetch(row + done, 0, 2);
    done += kLine;
    if (done < bytes + kLine) return;  // the first line may begin before the row
    done = 0, row += stride, --rows;
  }
};

/// kTokens rows of x and kGroups groups of rows of w, over the parts of a chunk; y is one row of outputs per row of x.
template <PartKind kKind, int kGroups, int kTokens>
[[gnu::flatten]] void block_tile(const std::byte* w, const RoundedPart* x, std::int64_t x_stride, std::int64_t parts,
                                 bool first, float* y, std::int64_t ldy, Ahead& ahead) {
  Floats acc[kTokens][kGroups];
  unrolled<kTokens>([&](auto t) {
    unrolled<kGroups>([&](auto g) { acc[t][g] = first ? broadcast(0) : load_floats(y + t * ldy + g * kRowLanes); });
  });
  const std::int64_t lines = ahead.rows > 0 ? ahead.at_once : 0;
  for (std::int64_t i = 0; i < parts; ++i, w += kGroups * kPanelPart<kKind>, ++x) {
    for (std::int64_t line = 0; line < lines; ++line) ahead.prefetch_line();
    RowPart part[kGroups];
    unrolled<kGroups>([&](auto g) { part[g] = load_part<kKind>(w + g * kPanelPart<kKind>); });
    add_part<kKind>(part, x, x_stride, acc);
  }
  unrolled<kTokens>(
      [&](auto t) { unrolled<kGroups>([&](auto g) { store_floats(acc[t][g], y + t * ldy + g * kRowLanes); }); });
}

template <PartKind kKind, int kGroups, int kTokens>
void block_tile_of(std::int64_t groups, std::int64_t tokens, const std::byte* w, const RoundedPart* x,
                   std::int64_t x_stride, std::int64_t parts, bool first, float* y, std::int64_t ldy, Ahead& ahead) {
  if constexpr (kGroups > 1) {
    if (groups < kGroups) {
      return block_tile_of<kKind, kGroups - 1, kTokens>(groups, tokens, w, x, x_stride, parts, first, y, ldy, ahead);
    }
  }
  if constexpr (kTokens > 1) {
    if (tokens < kTokens) {
      return block_tile_of<kKind, kGroups, kTokens - 1>(groups, tokens, w, x, x_stride, parts, first, y, ldy, ahead);
    }
  }
  block_tile<kKind, kGroups, kTokens>(w, x, x_stride, parts, first, y, ldy, ahead);
}

/// The outputs of all rows of x and of `groups` groups of rows of w from row `first` on. In the panel, the groups of a
/// tile are next to each other, part by part.
template <class F>
void panel_rows(const BlockProduct& p, std::int64_t tokens, std::int64_t first, std::int64_t groups) {
  constexpr std::int64_t kPartBytes = kPanelPart<F::kKind>;
  const std::int64_t chunk = even_part(p.parts, kChunkParts, F::kParts), tile = even_part(tokens, kTileRows, 1);
  const std::int64_t tiles = (tokens + tile - 1) / tile * ((groups + kTileGroups - 1) / kTileGroups);
  const std::int64_t bytes = chunk / F::kParts * F::kSize.bytes, lines = groups * kRowLanes * (bytes / kLine + 2);
  for (std::int64_t done = 0; done < p.parts; done += chunk) {
    const std::int64_t parts = smaller(chunk, p.parts - done), at = done / F::kParts * F::kSize.bytes;
    const std::byte* const w = p.w + first * p.w_stride + at;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t in_tile = g % kTileGroups, tile_groups = smaller(kTileGroups, groups - (g - in_tile));
      unpack<F>(BlockReader<F>(p, first + g * kRowLanes, 1, done / F::kParts), parts,
                p.panel + ((g - in_tile) * parts + in_tile) * kPartBytes, tile_groups * kPartBytes);
    }
    Ahead ahead = {done + parts == p.parts ? p.w + (first + groups * kRowLanes) * p.w_stride : w + bytes, p.w_stride,
                   bytes, groups * kRowLanes, lines / (tiles * parts) + 1};
    for (std::int64_t g = 0; g < groups; g += kTileGroups) {
      for (std::int64_t t = 0; t < tokens; t += tile) {
        block_tile_of<F::kKind, kTileGroups, kTileRows>(
            smaller(kTileGroups, groups - g), smaller(tile, tokens - t), p.panel + g * parts * kPartBytes,
            p.x + t * p.parts + done, p.parts, parts, done == 0, p.y + t * p.ldy + first + g * kRowLanes, p.ldy, ahead);
      }
    }
  }
}

template <class F>
void panels(const BlockProduct& p, std::int64_t tokens, std::int64_t n) {
  const std::int64_t whole = n / kRowLanes * kRowLanes;
  for (std::int64_t r = 0; r < whole; r += kPanelRows) {
    panel_rows<F>(p, tokens, r, smaller(kPanelRows, whole - r) / kRowLanes);
  }
  if (whole < n) {
    BlockProduct rest = p;
    const std::int64_t rows = smaller(n, kRowLanes);
    rest.w += (n - rows) * p.w_stride, rest.y += n - rows;
    rest.scales += (n - rows) * p.scale_stride * (F::kGroups ? GroupReader<F>::kScale : 1);
    if (p.zeros != nullptr) rest.zeros += (n - rows) * p.scale_stride;
    direct<F>(rest, tokens, rows);
  }
}

/// The scale of the first element: BlockScales::index() for blocks of one row, without its inline function, which the
/// rest of the program shares.
inline const std::byte* first_scale(const BlockScales& s) {
  return s.data + s.first_row * s.row_stride + s.first_col / kPart;
}

/// The scales and zeros of codes in groups.
template <class F>
void set_groups(const MatrixView& w, BlockProduct& p) {
  const BlockScales& s = w.scales;
  const std::int64_t first = s.first_row * s.row_stride;
  p.scales = s.data + first * GroupReader<F>::kScale;
  if (s.groups->zeros != nullptr) {
    p.zeros = reinterpret_cast<const std::byte*>(s.groups->zeros) + first;
  }
  p.group_parts = (s.block_cols + kPart - 1) / kPart;
  p.first_part = s.first_col / kPart;
}

void multiply(const RoundedPart* x, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy,
              float* scratch) {
  with_format(w.dtype, [&](auto format) {
    using F = decltype(format);
    BlockProduct p = {x,
                      w.data,
                      w.row_stride / F::kSize.elements * F::kSize.bytes,
                      w.cols / kPart,
                      y,
                      ldy,
                      reinterpret_cast<std::byte*>(scratch),
                      F::kScalesApart ? first_scale(w.scales) : nullptr,
                      F::kScalesApart || F::kGroups ? w.scales.row_stride : 0};
    if constexpr (F::kGroups) set_groups<F>(w, p);
    if (tokens <= kDirectRows) {
      direct<F>(p, tokens, w.rows);
    } else {
      panels<F>(p, tokens, w.rows);
    }
  });
}

constexpr BlockKernels kBlockKernels = {round_to_int8, multiply};

}  // namespace
}  // namespace vitrine
