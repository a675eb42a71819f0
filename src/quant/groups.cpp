#include "quant/groups.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "quant/formats.h"

namespace vitrine {
namespace {

unsigned byte_at(const std::byte* block, int i) { return std::to_integer<unsigned>(block[i]); }
std::uint8_t low_byte(unsigned value) { return static_cast<std::uint8_t>(value & 0xFFU); }

/// 8 bytes: code 8 k + i from bit 2k of byte i.
void unpack_two_bits(const std::byte* bytes, std::uint8_t* codes) {
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < 4; ++k) codes[8 * k + i] = low_byte(byte_at(bytes, i) >> (2 * k) & 3U);
  }
}
void pack_two_bits(const std::uint8_t* codes, std::byte* bytes) {
  for (int i = 0; i < 8; ++i) {
    unsigned byte = 0;
    for (int k = 0; k < 4; ++k) byte |= (codes[8 * k + i] & 3U) << (2 * k);
    bytes[i] = std::byte{low_byte(byte)};
  }
}

/// The zero of codes that store none.
int middle_of(DType dtype) {
  return dtype == DType::int2 ? 2 : dtype == DType::int3 ? 4 : dtype == DType::int4 ? 8 : 128;
}

/// One code of a row as it is stored.
std::uint8_t code_at(DType type, const std::byte* blocks, std::int64_t place) {
  const std::byte* const block = blocks + place / kGroupBlock * block_size(type).bytes;
  const int i = static_cast<int>(place % kGroupBlock);
  const auto two_bits = [&](const std::byte* bytes) { return byte_at(bytes, i % 8) >> (i / 8 * 2) & 3U; };
  switch (type) {
    case DType::int8:
      return low_byte(byte_at(block, i) ^ 0x80U);
    case DType::int2:
      return low_byte(two_bits(block));
    case DType::int3:
      return low_byte(two_bits(block + 4) | (byte_at(block, i / 8) >> (i % 8) & 1U) << 2);
    default: {
      const bool is_upper = (i % 2 != 0) == (type == DType::int4);
      return low_byte(byte_at(block, i / 2) >> (is_upper ? 4 : 0) & 15U);
    }
  }
}

/// Elements of a row as it is stored.
struct RowOfGroups {
  DType type;
  const std::byte* blocks;
  const float* scales;
  const std::uint8_t* zeros;
  const float* values;
  std::int64_t group, step;  // codes of a group; from its scale to the next one

  float element(std::int64_t place) const {
    const std::int64_t g = place / group * step;
    const std::uint8_t code = code_at(type, blocks, place);
    if (values != nullptr) return values[code] * scales[g];
    return scales[g] * static_cast<float>(code - (zeros != nullptr ? zeros[g] : middle_of(type)));
  }
  void read(std::int64_t first, std::int64_t n, float* y) const {
    std::uint8_t codes[kGroupBlock];
    for (std::int64_t at = first; at < first + n;) {
      const std::int64_t block = at / kGroupBlock, end = std::min(first + n, (block + 1) * kGroupBlock);
      unpack_codes(type, blocks + block * block_size(type).bytes, codes);
      while (at < end) {
        const std::int64_t g = at / group, stop = std::min(end, (g + 1) * group);
        const float scale = scales[g * step];
        const int zero = zeros != nullptr ? zeros[g * step] : middle_of(type);
        for (; at < stop; ++at) {
          const std::uint8_t code = codes[at - block * kGroupBlock];
          *y++ = values != nullptr ? values[code] * scale : scale * static_cast<float>(code - zero);
        }
      }
    }
  }
};

}  // namespace

DType integers_of(int bits) {
  switch (bits) {
    case 2:
      return DType::int2;
    case 3:
      return DType::int3;
    case 4:
      return DType::int4;
    case 8:
      return DType::int8;
    default:
      throw InternalError("quant", "no codes of {} bits", bits);
  }
}

void pack_codes(DType dtype, const std::uint8_t* codes, std::byte* block) {
  if (dtype == DType::int8) {
    for (int i = 0; i < kGroupBlock; ++i) block[i] = std::byte{low_byte(codes[i] ^ 0x80U)};
  } else if (dtype == DType::int2) {
    pack_two_bits(codes, block);
  } else if (dtype == DType::int3) {
    for (int i = 0; i < 4; ++i) {
      unsigned byte = 0;
      for (int k = 0; k < 8; ++k) byte |= (codes[8 * i + k] >> 2U & 1U) << k;
      block[i] = std::byte{low_byte(byte)};
    }
    pack_two_bits(codes, block + 4);
  } else {
    const unsigned first = dtype == DType::int4 ? 0 : 4;  // where the first of two codes is
    for (int i = 0; i < kGroupBlock / 2; ++i) {
      block[i] = std::byte{low_byte((codes[2 * i] & 15U) << first | (codes[2 * i + 1] & 15U) << (4 - first))};
    }
  }
}

void pack_columns(DType dtype, const std::uint8_t* columns, std::int64_t n, std::int64_t row_bytes, std::byte* to) {
  for (std::int64_t r = 0; r < n; ++r) {
    std::uint8_t codes[kGroupBlock];
    for (int i = 0; i < kGroupBlock; ++i) codes[i] = columns[i * kPackRows + r];
    pack_codes(dtype, codes, to + r * row_bytes);
  }
}

void take_bits(const std::byte* words, std::int64_t next, int shift, int bits, std::int64_t n, std::uint8_t* codes) {
  const std::uint32_t mask = (std::uint32_t{1} << bits) - 1;
  for (std::int64_t i = 0; i < n; ++i) codes[i] = low_byte(word_at(words + 4 * i) >> shift & mask);
  if (shift + bits <= 32) return;
  for (std::int64_t i = 0; i < n; ++i) {
    codes[i] = low_byte((codes[i] | word_at(words + 4 * i + next) << (32 - shift)) & mask);
  }
}

void take_nibbles(const std::byte* words, std::int64_t n, const int (&order)[8], std::uint8_t* codes) {
  for (std::int64_t i = 0; i < n; ++i, codes += 8) {
    const std::uint32_t word = word_at(words + 4 * i);
    for (int k = 0; k < 8; ++k) codes[order[k]] = low_byte(word >> (4 * k) & 15U);
  }
}

void unpack_codes(DType dtype, const std::byte* block, std::uint8_t* codes) {
  if (dtype == DType::int8) {
    for (int i = 0; i < kGroupBlock; ++i) codes[i] = low_byte(byte_at(block, i) ^ 0x80U);
  } else if (dtype == DType::int2) {
    unpack_two_bits(block, codes);
  } else if (dtype == DType::int3) {
    unpack_two_bits(block + 4, codes);
    for (int i = 0; i < kGroupBlock; ++i) codes[i] = low_byte(codes[i] | (byte_at(block, i / 8) >> (i % 8) & 1U) << 2);
  } else {
    const unsigned first = dtype == DType::int4 ? 0 : 4;
    for (int i = 0; i < kGroupBlock / 2; ++i) {
      codes[2 * i] = low_byte(byte_at(block, i) >> first & 15U);
      codes[2 * i + 1] = low_byte(byte_at(block, i) >> (4 - first) & 15U);
    }
  }
}

void dequantize_groups(const MatrixView& w, std::int64_t row, std::int64_t n, float* y) {
  const BlockScales& s = w.scales;
  const GroupTables& groups = *s.groups;
  const std::int64_t base = s.index(row, -s.first_col);  // of the row's first group
  // The view begins in the block of its first column.
  const RowOfGroups from = {w.dtype,
                            w.at(row, 0) - bytes_of(w.dtype, s.first_col),
                            reinterpret_cast<const float*>(s.data) + base,
                            groups.zeros != nullptr ? groups.zeros + base : nullptr,
                            groups.values,
                            s.block_cols,
                            s.col_stride};
  if (groups.places == nullptr) return from.read(s.first_col, n, y);
  const std::int32_t* const places = groups.places + s.first_col;
  if (s.first_col != 0 || n != w.row_stride) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = from.element(places[i]);
    return;
  }
  std::vector<float> stored(static_cast<std::size_t>(n));
  from.read(0, n, stored.data());
  for (std::int64_t i = 0; i < n; ++i) y[i] = stored[static_cast<std::size_t>(places[i])];
}

}  // namespace vitrine
