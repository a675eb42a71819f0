#include "tensor/arena.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kFirstChunk = std::int64_t{1} << 16;
constexpr std::int64_t kMaxGrowth = std::int64_t{1} << 24;

}  // namespace

void Arena::next_chunk(std::int64_t n) {
  if (n > kMax - kLine) throw OutOfCapacity("arena", "the size of the activations does not fit in 63 bits");
  note_top();
  if (top_.used > 0) top_ = {top_.chunk + 1, 0};
  place_chunk(in_lines(n));
}

/// Makes a chunk of at least `size` bytes the top of the stack. All chunks from this position on are unused. If one of
/// them is large enough, it is moved here; otherwise a new chunk replaces all of them, so that small unused chunks do
/// not accumulate.
void Arena::place_chunk(std::int64_t size) {
  const auto first = chunks_.begin() + static_cast<std::ptrdiff_t>(top_.chunk);
  const auto fits = std::find_if(first, chunks_.end(), [&](const Chunk& chunk) { return chunk.size >= size; });
  if (fits != chunks_.end()) return std::iter_swap(first, fits);
  std::int64_t idle = 0;
  for (auto it = first; it != chunks_.end(); ++it) idle += it->size;
  chunks_.erase(first, chunks_.end());
  // As large as all earlier chunks together, up to a limit, so that there are few chunks.
  Chunk chunk;
  chunk.size = std::max({kFirstChunk, size, idle, std::min(kMaxGrowth, reserved_bytes())});
  chunk.data = take_memory(chunk.size, counted_);
  if (!chunk.data) throw OutOfCapacity("arena", "no memory for {} bytes of activations", chunk.size);
  chunks_.push_back(std::move(chunk));
}

void Arena::drop_released() const {
  for (std::size_t i = top_.chunk; i < chunks_.size() && counted_ == nullptr; ++i) {
    const std::int64_t used = i == top_.chunk ? top_.used : 0;
    drop_pages({chunks_[i].data.get() + used, static_cast<std::size_t>(chunks_[i].size - used)});
  }
}

std::int64_t Arena::touched_bytes() const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    total += i == top_.chunk ? std::max(top_.used, chunks_[i].touched) : chunks_[i].touched;
  }
  return total;
}

std::int64_t Arena::reserved_bytes() const {
  std::int64_t total = 0;
  for (const Chunk& chunk : chunks_) total += chunk.size;
  return total;
}

}  // namespace vitrine
