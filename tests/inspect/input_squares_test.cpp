// The inputs of the matrices, compared with the values at the sites before them.
#include "inspect/input_squares.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/hostile_folder.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

struct Collected {
  Checkpoint checkpoint;
  std::vector<std::int32_t> ids;
  ImportanceMatrix matrix;
  std::map<std::string, Value> values;

  Collected(const std::string& golden, bool head) : Collected(golden_checkpoint(golden), head) {}
  Collected(Checkpoint of, bool head) : checkpoint(std::move(of)) {
    ids = some_ids(*checkpoint.model, 24);
    ThreadPool pool(3);
    const GenerateContext context = {checkpoint.model.get(), &pool, &default_kernels()};
    InputCollector collector(context, checkpoint, head);
    collector.add(ids);
    collector.add(ids);
    matrix = collector.result();
    Probe probe(*checkpoint.model, {"*"});
    logits_of(*checkpoint.model, ids, {.taps = &probe});
    values = probe.values;
  }

  /// Expects twice the squares of a value whose rows are the inputs.
  void expect_inputs(const std::string& tensor, const std::string& site) const {
    const InputSquares& squares = matrix.tensors.at(tensor);
    const std::vector<float>& data = values.at(site).data;
    const std::size_t cols = squares.sums.size(), rows = data.size() / cols;
    ASSERT_EQ(rows, ids.size()) << tensor;
    EXPECT_EQ(squares.counts, std::vector<std::int64_t>{static_cast<std::int64_t>(2 * rows)}) << tensor;
    for (std::size_t i = 0; i < cols; ++i) {
      double sum = 0;
      for (std::size_t r = 0; r < rows; ++r) sum += 2 * std::pow(static_cast<double>(data[r * cols + i]), 2);
      EXPECT_NEAR(squares.sums[i], sum, 1e-5 * sum) << tensor << ' ' << i;
    }
  }
};

TEST(InputSquares, OfALlama) {
  const Collected c("llama_gqa_bf16_sharded", true);
  for (const char* const name : {"attn_q", "attn_k", "attn_v"}) {
    c.expect_inputs("blk.1." + std::string(name) + ".weight", "blocks.1.ln1.hook_out");
  }
  c.expect_inputs("blk.1.attn_output.weight", "blocks.1.attn.hook_z");
  c.expect_inputs("blk.1.ffn_gate.weight", "blocks.1.ln2.hook_out");
  c.expect_inputs("blk.1.ffn_up.weight", "blocks.1.ln2.hook_out");
  c.expect_inputs("blk.1.ffn_down.weight", "blocks.1.mlp.hook_post");
  c.expect_inputs(c.checkpoint.model->config().head.tied ? "token_embd.weight" : "output.weight", "ln_final.hook_out");
}

/// The parts of a fused tensor count once; both sublayers of a parallel block read the same rows.
TEST(InputSquares, OfAFalcon) {
  const Collected c("falcon", false);
  c.expect_inputs("blk.0.attn_qkv.weight", "blocks.0.ln1.hook_out");
  c.expect_inputs("blk.0.ffn_up.weight", "blocks.0.ln1.hook_out");
  c.expect_inputs("blk.0.ffn_down.weight", "blocks.0.mlp.hook_post");
  EXPECT_FALSE(c.matrix.tensors.contains("token_embd.weight"));
  EXPECT_FALSE(c.matrix.tensors.contains("output.weight"));
}

TEST(InputSquares, OfExperts) {
  const Collected c("mixtral", false);
  const auto& moe = *find<MoeConfig>(c.checkpoint.model->config().blocks[0]);
  c.expect_inputs("blk.0.ffn_gate_inp.weight", "blocks.0.ln2.hook_out");
  for (const char* const name : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
    const InputSquares& squares = c.matrix.tensors.at("blk.0." + std::string(name) + ".weight");
    ASSERT_EQ(squares.counts.size(), static_cast<std::size_t>(moe.n_experts));
    std::int64_t rows = 0;
    for (const std::int64_t count : squares.counts) rows += count;
    EXPECT_EQ(rows, 2 * static_cast<std::int64_t>(c.ids.size()) * moe.top_k) << name;
  }
  const InputSquares& down = c.matrix.tensors.at("blk.0.ffn_down_exps.weight");
  const std::size_t cols = down.sums.size() / down.counts.size();
  for (std::size_t e = 0; e < down.counts.size(); ++e) {
    const auto found = c.values.find("blocks.0.mlp.experts." + std::to_string(e) + ".hook_post");
    if (found == c.values.end()) {
      EXPECT_EQ(down.counts[e], 0) << e;
      continue;
    }
    double sum = 0, expected = 0;
    for (std::size_t i = 0; i < cols; ++i) sum += down.sums[e * cols + i];
    for (const float x : found->second.data) expected += 2 * std::pow(static_cast<double>(x), 2);
    EXPECT_NEAR(sum, expected, 1e-5 * expected) << e;
  }
}

/// Expects twice the squares of the first elements of each head's vectors `[T, H, size]`, head after head, and one
/// count.
void expect_by_head(const InputSquares& squares, const std::vector<float>& data, std::size_t n_heads,
                    std::size_t rows) {
  const std::size_t cols = squares.sums.size() / n_heads, size = data.size() / rows / n_heads;
  ASSERT_LE(cols, size);
  EXPECT_EQ(squares.counts, std::vector<std::int64_t>{static_cast<std::int64_t>(2 * rows)});
  for (std::size_t i = 0; i < squares.sums.size(); ++i) {
    double sum = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      sum += 2 * std::pow(static_cast<double>(data[(r * n_heads + i / cols) * size + i % cols]), 2);
    }
    EXPECT_NEAR(squares.sums[i], sum, 1e-5 * sum) << i;
  }
}

/// Keys by head multiply the queries, values by head the sums of latents; both have sums for each head.
TEST(InputSquares, OfLatentAttention) {
  const Collected c("deepseek_v3", false);
  const ModelConfig& config = c.checkpoint.model->config();
  const auto n_heads = static_cast<std::size_t>(find<LatentAttentionConfig>(config.blocks[1])->n_heads);
  const std::size_t rows = c.ids.size();
  expect_by_head(c.matrix.tensors.at("blk.1.attn_k_b.weight"), c.values.at("blocks.1.attn.hook_q").data, n_heads, rows);
  const std::vector<float>&pattern = c.values.at("blocks.1.attn.hook_pattern").data,
        &latent = c.values.at("blocks.1.attn.hook_kv_latent").data;
  const std::size_t rank = latent.size() / rows;
  std::vector<float> mixed(rows * n_heads * rank);
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    const std::size_t row = i / rank / n_heads, head = i / rank % n_heads;
    for (std::size_t s = 0; s < rows; ++s) {
      mixed[i] += pattern[(head * rows + row) * rows + s] * latent[s * rank + i % rank];
    }
  }
  expect_by_head(c.matrix.tensors.at("blk.1.attn_v_b.weight"), mixed, n_heads, rows);
  EXPECT_FALSE(c.matrix.tensors.contains("blk.1.attn_kv_b.weight"));
  c.expect_inputs("blk.1.attn_q_b.weight", "blocks.1.attn.hook_q_latent");
}

/// A GGUF file holds both parts apart, and has the same sums.
TEST(InputSquares, OfLatentAttentionInAGguf) {
  const HostileFolder changed("deepseek_v2");  // without groups, which llama.cpp ranks in another way
  changed.edit_json([](Json& config) { config["topk_method"] = "greedy"; });
  const Collected folder(load_checkpoint(changed.path()), false);
  const TempFolder temp;
  const std::string path = temp / "m.gguf";
  ThreadPool pool(1);
  write_gguf(path, folder.checkpoint, DType::f32, {}, pool);
  const Collected gguf(load_checkpoint(path), false);
  EXPECT_EQ(gguf.matrix.tensors.size(), folder.matrix.tensors.size());
  for (const char* const name : {"blk.1.attn_k_b.weight", "blk.1.attn_v_b.weight"}) {
    const InputSquares &a = folder.matrix.tensors.at(name), &b = gguf.matrix.tensors.at(name);
    EXPECT_EQ(a.counts, b.counts) << name;
    ASSERT_EQ(a.sums.size(), b.sums.size()) << name;
    for (std::size_t i = 0; i < a.sums.size(); ++i) EXPECT_NEAR(a.sums[i], b.sums[i], 1e-4 * a.sums[i]) << name;
  }
}

/// Architectures with both parts in one matrix, which programs multiply by the latents.
TEST(InputSquares, OfLatentAttentionInOneMatrix) {
  const Collected c("minicpm3", false);
  c.expect_inputs("blk.1.attn_kv_b.weight", "blocks.1.attn.hook_kv_latent");
}

/// A window that fails or is interrupted adds nothing.
TEST(InputSquares, AnInterruptedWindowAddsNothing) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 8);
  ThreadPool pool(1);
  std::atomic<bool> interrupt = false;
  GenerateContext context = {checkpoint.model.get(), &pool, &default_kernels()};
  context.interrupt = &interrupt;
  InputCollector collector(context, checkpoint, false);
  collector.add(ids);
  const ImportanceMatrix before = collector.result();
  interrupt = true;
  EXPECT_THROW(collector.add(ids), Interrupted);
  const ImportanceMatrix after = collector.result();
  EXPECT_EQ(after.n_chunks, 1);
  EXPECT_EQ(after.tensors.at("blk.0.attn_q.weight").counts, before.tensors.at("blk.0.attn_q.weight").counts);
  EXPECT_EQ(after.tensors.at("blk.0.attn_q.weight").sums, before.tensors.at("blk.0.attn_q.weight").sums);
}

}  // namespace
}  // namespace vitrine::test
