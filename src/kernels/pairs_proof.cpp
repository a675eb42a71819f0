// The proof that an instruction adds in the pair order.
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "base/rng.h"
#include "kernels/pairs.h"

namespace vitrine {
namespace {

/// Random words, the same in every process.
class Words {
 public:
  std::uint32_t operator()() {
    if (used_ == words_.size()) words_ = philox({++block_, 0, 0, 0}, {0xBF16, 0}), used_ = 0;
    return words_[used_++];
  }
  std::uint32_t below(std::uint32_t limit) { return (*this)() % limit; }

 private:
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
  std::uint32_t block_ = 0;
};

/// A number with a random sign and significand, and this biased exponent: 0 of a subnormal, 127 of 1.
std::uint16_t half_of(Words& random, std::uint32_t exponent) {
  return static_cast<std::uint16_t>((random() & 0x807Fu) | exponent << 7);
}
std::uint32_t float_of(Words& random, std::uint32_t exponent) { return (random() & 0x807FFFFFu) | exponent << 23; }

struct Lane {
  std::uint32_t sum;
  std::uint16_t a[2], b[2];
};

/// Both products near 2^(exponent − 127).
void set_products(Words& random, std::uint32_t exponent, Lane& lane) {
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t both = exponent + 127, least = both > 254 ? both - 254 : 1;
    const std::uint32_t first = least + random.below((both < 254 ? both : 254) - least + 1);
    lane.a[i] = half_of(random, first < 1 ? 1 : first);
    lane.b[i] = half_of(random, both > first ? both - first : 1);
  }
}

Lane lane_of_kind(Words& random, int kind) {
  constexpr std::uint16_t kSpecial[] = {0x0000, 0x8000, 0x7F80, 0xFF80, 0x7F7F, 0xFF7F, 0x0080,
                                        0x8080, 0x0001, 0x8001, 0x3F80, 0xBF80, 0x7FC0};
  Lane lane = {};
  switch (kind) {
    case 0:  // sums that are rounded: the order, and one rounding or two
      set_products(random, 125 + random.below(5), lane);
      lane.sum = float_of(random, 110 + random.below(35));
      break;
    case 1:  // products that almost cancel each other
      set_products(random, 127, lane);
      lane.a[1] = static_cast<std::uint16_t>(lane.a[0] ^ 0x8000u ^ random.below(2));
      lane.b[1] = lane.b[0];
      lane.sum = float_of(random, 90 + random.below(40));
      break;
    case 2:  // results that are subnormal, after the first addition or the second
      set_products(random, random.below(4), lane);
      lane.sum = random.below(2) == 0 ? random() & 0x80000000u : float_of(random, 1 + random.below(2));
      break;
    case 3:  // results a little below 2^-126, where it matters when they are rounded
      set_products(random, 0, lane);
      lane.a[random.below(2)] = 0;
      for (std::uint16_t& b : lane.b) b = static_cast<std::uint16_t>((b & 0x807Fu) | (1 + random.below(130)) << 7);
      for (std::uint16_t& a : lane.a) a = static_cast<std::uint16_t>(a == 0 ? 0 : (a & 0x807Fu) | 0x0080u);
      lane.sum = 0x00800000u + random.below(2) + (random() & 0x80000000u);
      break;
    case 4:  // subnormal operands times large ones
      for (int i = 0; i < 2; ++i) {
        lane.a[i] = half_of(random, random.below(2));
        lane.b[i] = half_of(random, 120 + random.below(134));
      }
      lane.sum = float_of(random, random.below(100));
      break;
    case 5:  // subnormal sums
      set_products(random, random.below(40), lane);
      if (random.below(2) == 0) lane.a[0] = lane.a[1] = 0;
      lane.sum = float_of(random, 0);
      break;
    case 6:  // zeros, infinities, NaN, the largest and the smallest numbers
      for (int i = 0; i < 2; ++i) {
        lane.a[i] = kSpecial[random.below(std::size(kSpecial))];
        lane.b[i] = kSpecial[random.below(std::size(kSpecial))];
      }
      lane.sum = std::uint32_t{kSpecial[random.below(std::size(kSpecial))]} << 16;
      break;
    default:  // anything
      for (int i = 0; i < 2; ++i) {
        lane.a[i] = static_cast<std::uint16_t>(random());
        lane.b[i] = static_cast<std::uint16_t>(random());
      }
      lane.sum = random();
  }
  return lane;
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

}  // namespace

std::vector<PairLanes> telling_pairs() {
  constexpr int kCount = 256, kKinds = 8;
  std::vector<PairLanes> all(kCount);
  Words random;
  for (int i = 0; i < kCount; ++i) {
    for (std::size_t l = 0; l < std::size(all[0].sum); ++l) {
      const Lane lane = lane_of_kind(random, i % kKinds);
      PairLanes& to = all[static_cast<std::size_t>(i)];
      to.sum[l] = std::bit_cast<float>(lane.sum);
      to.a[l] = std::uint32_t{lane.a[1]} << 16 | lane.a[0];
      to.b[l] = std::uint32_t{lane.b[1]} << 16 | lane.b[0];
    }
  }
  return all;
}

bool adds_in_pair_order(AddPairs add) {
  for (const PairLanes& lanes : telling_pairs()) {
    float expected[16], got[16];
    add_pairs(lanes, expected);
    add(lanes, got);
    for (std::size_t l = 0; l < std::size(got); ++l) {
      if (!same(expected[l], got[l])) return false;
    }
  }
  return true;
}

}  // namespace vitrine
