#include "cache/kv_memory.h"

namespace vitrine {
namespace {

constexpr std::int64_t kBlockLength = 1024;

}  // namespace

std::int64_t KvMemory::block_length() const { return kBlockLength; }

KvPool::KvPool(std::int64_t capacity_bytes) : KvPool(capacity_bytes, kBlockLength) {}

KvMemory& system_kv_memory() {
  class SystemMemory : public KvMemory {
    std::shared_ptr<std::byte> take(std::int64_t n) override { return take_memory(n); }
  };
  static SystemMemory memory;
  return memory;
}

std::shared_ptr<std::byte> KvPool::take(std::int64_t n) {
  if (n > capacity_ - *used_) return nullptr;
  MemoryBlock block = take_memory(n);
  if (!block) return nullptr;
  *used_ += n;
  const auto give_back = [n, used = used_, free = block.get_deleter()](std::byte* p) {
    free(p);
    *used -= n;
  };
  return {block.release(), give_back};
}

}  // namespace vitrine
