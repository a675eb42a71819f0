#include "tensor/arena.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kFirstChunk = std::int64_t{1} << 16;

}  // namespace

void Arena::Free::operator()(std::byte* p) const { std::free(p); }

Tensor Arena::tensor(const Shape& shape) {
  const std::optional<std::int64_t> count = checked_product(shape.sizes());
  return {reinterpret_cast<float*>(bytes(count ? checked_mul(*count, sizeof(float)).value_or(kMost) : kMost)), shape};
}

std::byte* Arena::bytes(std::int64_t n) {
  if (n > kMost - kAlignment) throw OutOfCapacity("arena", "activations are beyond any memory");
  const std::int64_t size = (n + kAlignment - 1) / kAlignment * kAlignment;
  while (top_.chunk < chunks_.size() && chunks_[top_.chunk].size - top_.used < size) top_ = {top_.chunk + 1, 0};
  if (top_.chunk == chunks_.size()) {
    // Each chunk is as large as all before it, so their number stays small.
    const std::int64_t chunk_size = std::max({kFirstChunk, size, reserved_bytes()});
    Chunk chunk;
    chunk.data.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<std::size_t>(chunk_size))));
    if (!chunk.data) throw OutOfCapacity("arena", "no memory for {} bytes of activations", chunk_size);
    chunk.size = chunk_size;
    chunks_.push_back(std::move(chunk));
    top_.used = 0;
  }
  std::byte* const result = chunks_[top_.chunk].data.get() + top_.used;
  top_.used += size;
  return result;
}

std::int64_t Arena::reserved_bytes() const {
  std::int64_t total = 0;
  for (const Chunk& chunk : chunks_) total += chunk.size;
  return total;
}

}  // namespace vitrine
