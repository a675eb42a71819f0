// The importance of inputs, of each head of a product by head, in quantized GGUF files.
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf_support.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/param_rows.h"
#include "model/norms.h"
#include "quant/block_format.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

/// Each head's rows of a product by head have weights of their own, also where both products come from one matrix.
TEST(Gguf, ImportanceOfEachHead) {
  const TempFolder folder;
  Json config = Json::parse(read_file(goldens() + "/deepseek_v2/config.json"));
  config.update({{"hidden_size", 64},
                 {"num_attention_heads", 3},
                 {"num_key_value_heads", 3},
                 {"kv_lora_rank", 64},
                 {"qk_nope_head_dim", 32},
                 {"v_head_dim", 32},
                 {"topk_method", "greedy"},
                 {"initializer_range", 0.1}});
  config.erase("head_dim");
  config.erase("qk_head_dim");
  ThreadPool pool(2);
  init_checkpoint(config, "config", folder / "model", DType::f32, 7, pool);
  const Checkpoint original = load_checkpoint(folder / "model");
  const auto bytes_of_heads = [&](const char* name, std::int64_t cols, bool raised) {
    ImportanceMatrix matrix;
    matrix.path = "m.gguf";
    InputSquares& squares = matrix.tensors[name];
    squares.counts = {10};
    for (std::int64_t i = 0; i < 3 * cols; ++i)
      squares.sums.push_back(raised && i / cols == 1 && i % 3 == 0 ? 1e4 : 1.0);
    GgufTypes types(DType::q4_0);
    types.importance = &matrix;
    write_gguf(folder / "m.gguf", original, types, {}, pool);
    const GgufModelFile file = open_gguf(MappedFile::open(folder / "m.gguf"));
    const std::span<const std::byte> bytes = file.tensors.all.at(name).bytes;
    std::vector<std::vector<std::byte>> heads;
    for (std::size_t h = 0; h < 3; ++h) {
      const std::span<const std::byte> own = bytes.subspan(h * bytes.size() / 3, bytes.size() / 3);
      heads.emplace_back(own.begin(), own.end());
    }
    return heads;
  };
  for (const auto& [name, cols] : {std::pair("blk.0.attn_k_b.weight", 32), std::pair("blk.0.attn_v_b.weight", 64)}) {
    const auto even = bytes_of_heads(name, cols, false), raised = bytes_of_heads(name, cols, true);
    EXPECT_EQ(even[0], raised[0]) << name;
    EXPECT_NE(even[1], raised[1]) << name;
    EXPECT_EQ(even[2], raised[2]) << name;
  }
}

}  // namespace
}  // namespace vitrine::test
