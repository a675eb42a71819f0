// Codes in groups: whole numbers of 2, 3, 4 or 8 bits, or numbers of entries of a table, whose scales and zeros are
// apart (GroupTables in tensor/matrix_view.h).
//
//   int2, int3, int4, int8   element = scale · (code − zero)
//   nf4, fp4                 element = scale · values[code]
//
// A row consists of blocks of 32 codes, of which the last may be incomplete. quant/parts-inl.h defines the bytes of
// those that are multiplied as integers; those of nf4 and fp4 have the first of two codes in the high half of a byte.
// A group is a number of consecutive codes of a row with one scale.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/matrix_view.h"

namespace vitrine {

constexpr std::int64_t kGroupBlock = 32;  ///< Codes of a block.

/// The type of whole numbers of that many bits: 2, 3, 4 or 8.
DType integers_of(int bits);

/// Writes a block of 32 codes; those of int8 are counted from 0 on, too.
void pack_codes(DType dtype, const std::uint8_t* codes, std::byte* block);
/// The inverse.
void unpack_codes(DType dtype, const std::byte* block, std::uint8_t* codes);

constexpr std::int64_t kPackRows = 64;  ///< Rows that are packed together.

/// Packs a block of each of n rows, at most kPackRows, which are `row_bytes` apart. Code i of row r is
/// columns[i · kPackRows + r].
void pack_columns(DType dtype, const std::uint8_t* columns, std::int64_t n, std::int64_t row_bytes, std::byte* to);
/// Bits [shift, shift + bits) of n words, each continued by the word that is `next` bytes after it.
void take_bits(const std::byte* words, std::int64_t next, int shift, int bits, std::int64_t n, std::uint8_t* codes);
/// The eight codes of 4 bits of each of n words; the lowest is codes[8 i + order[0]].
void take_nibbles(const std::byte* words, std::int64_t n, const int (&order)[8], std::uint8_t* codes);

/// Converts the first n elements of a row of w, which need not end with a block, to floats.
void dequantize_groups(const MatrixView& w, std::int64_t row, std::int64_t n, float* y);

}  // namespace vitrine
