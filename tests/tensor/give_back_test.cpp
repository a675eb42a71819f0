// Memory whose parts return to the system.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tensor/zero_memory.h"

namespace vitrine::test {
namespace {

TEST(GiveBack, SetsAnyPartToZeroAndFreesItsPages) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  ZeroMemory memory(static_cast<std::int64_t>(16 * page), "test");
  const std::span<std::byte> all(memory.bytes(), 16 * page);
  use_small_pages(all);
  for (const auto& [first, size] : {std::pair(std::size_t{0}, 16 * page),
                                    {3 * page + 5, 4 * page},
                                    {page - 1, std::size_t{2}},
                                    {7, std::size_t{9}},
                                    {2 * page, page},
                                    {5 * page, std::size_t{0}}}) {
    std::fill(all.begin(), all.end(), std::byte{1});
    give_back(all.subspan(first, size));
    std::vector<unsigned char> resident(16);
    ASSERT_EQ(::mincore(memory.bytes(), 16 * page, resident.data()), 0);
    for (std::size_t i = 0; i < 16; ++i) {
      const bool is_inside = first <= i * page && (i + 1) * page <= first + size;
      EXPECT_EQ(resident[i] & 1, is_inside ? 0 : 1) << first << " " << size << " page " << i;
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i], std::byte{first <= i && i < first + size ? std::uint8_t{0} : std::uint8_t{1}}) << i;
    }
  }
}

}  // namespace
}  // namespace vitrine::test
