// The library also runs on threads with small stacks, as a host program may create them.
#include "support/small_stack.h"

#include "support/backward.h"

namespace vitrine::test {
namespace {

constexpr std::size_t kStack = std::size_t{256} << 10;

TEST(SmallStack, SufficesForForwardDecodeAndTraining) {
  for (const std::string name : {"gpt2", "gemma2", "mixtral"}) {
    for (const Isa isa : available_isas()) {
      on_small_stack(kStack, [&] {
        const Checkpoint checkpoint = golden_checkpoint(name);
        const RunOptions run{.kernels = &kernels_for(isa), .threads = 2};
        const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 16);
        const std::vector<float> whole = logits_of(*checkpoint.model, ids, run);
        EXPECT_TRUE(same_bits(whole, chunked_logits_of(*checkpoint.model, ids, 1, run)));
        EXPECT_FALSE(gradients_of(*checkpoint.model, ids, {.kernels = run.kernels, .threads = 2}).empty());
      });
    }
  }
}

}  // namespace
}  // namespace vitrine::test
