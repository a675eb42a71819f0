// A trained minGPT that sorts letters: all intermediate values that llm-viz publishes for three inputs.
#include <gtest/gtest.h>

#include <cmath>

#include "support/data.h"
#include "support/min_gpt.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

/// [T, H, dh] to [H, T, dh].
Value by_head(const Value& v) {
  const std::int64_t rows = v.shape[0], heads = v.shape[1], size = v.shape[2];
  Value result{{heads, rows, size}, std::vector<float>(v.data.size())};
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      std::copy_n(v.data.begin() + (t * heads + h) * size, size, result.data.begin() + (h * rows + t) * size);
    }
  }
  return result;
}

/// q, k and v of each row concatenated, as in the output of the fused projection.
Value concatenated(const Value& q, const Value& k, const Value& v) {
  const auto rows = static_cast<std::size_t>(q.shape[0]);
  Value result;
  for (std::size_t t = 0; t < rows; ++t) {
    for (const Value* part : {&q, &k, &v}) {
      const std::size_t n = part->data.size() / rows;
      result.data.insert(result.data.end(), part->data.begin() + static_cast<std::ptrdiff_t>(t * n),
                         part->data.begin() + static_cast<std::ptrdiff_t>((t + 1) * n));
    }
  }
  return result;
}

Value softmax(const Value& logits) {
  Value result = logits;
  const auto n = static_cast<std::size_t>(logits.shape[1]);
  for (std::size_t row = 0; row < logits.data.size(); row += n) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits.data[row + i]));
    for (std::size_t i = 0; i < n; ++i) {
      result.data[row + i] = static_cast<float>(std::exp(static_cast<double>(logits.data[row + i])) / sum);
    }
  }
  return result;
}

TEST(NanoSort, EveryPartialValue) {
  const std::string folder = outside_data("models/nano_sort");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no models/nano_sort";
  const auto model = load_min_gpt(folder + "/model.json");
  const auto partials = read_json_tensors(folder + "/partials.json");
  const std::int64_t n = 11, n_inputs = 3;

  for (std::int64_t input = 0; input < n_inputs; ++input) {
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < n; ++t) {
      ids.push_back(static_cast<std::int32_t>(partials.at("idx").data[static_cast<std::size_t>(input * n + t)]));
    }
    Probe probe(*model, {"*"});
    logits_of(*model, ids, {.taps = &probe});
    int compared = 0;
    const auto expect = [&](const std::string& partial, const Value& ours) {
      const JsonTensor& reference = partials.at(partial);
      const std::size_t size = ours.data.size();
      const std::size_t from = reference.data.size() == size ? 0 : static_cast<std::size_t>(input) * size;
      ASSERT_LE(from + size, reference.data.size()) << partial;
      for (std::size_t i = 0; i < size; ++i) {
        const float theirs = reference.data[from + i];
        if (std::isinf(theirs)) {
          ASSERT_EQ(ours.data[i], theirs) << partial;
        } else {
          ASSERT_NEAR(ours.data[i], theirs, 1e-4) << partial << ", element " << i;
        }
      }
      ++compared;
    };
    const auto at = [&](const std::string& site) { return probe.values.at(site); };
    expect("tok_emb", at("hook_embed"));
    expect("pos_emb", at("hook_pos_embed"));
    expect("x", at("blocks.0.hook_resid_pre"));
    expect("ln1", at("blocks.0.ln1.hook_out"));
    expect("q", by_head(at("blocks.0.attn.hook_q")));
    expect("k", by_head(at("blocks.0.attn.hook_k")));
    expect("v", by_head(at("blocks.0.attn.hook_v")));
    expect("att", at("blocks.0.attn.hook_attn_scores"));
    expect("attSm", at("blocks.0.attn.hook_pattern"));
    expect("y", at("blocks.0.attn.hook_z"));
    expect("yProj", at("blocks.0.attn.hook_out"));
    expect("attnResid", at("blocks.0.hook_resid_mid"));
    expect("ln2", at("blocks.0.ln2.hook_out"));
    expect("fc", at("blocks.0.mlp.hook_pre"));
    expect("gelu", at("blocks.0.mlp.hook_post"));
    expect("mlp", at("blocks.0.mlp.hook_out"));
    expect("mlpResid", at("blocks.0.hook_resid_post"));
    for (const int layer : {0, 1, 2}) {
      expect("block" + std::to_string(layer), at("blocks." + std::to_string(layer) + ".hook_resid_post"));
    }
    expect("ln_f", at("ln_final.hook_out"));
    expect("lm_head", at("hook_logits"));
    expect("probs", softmax(at("hook_logits")));
    expect("qkv", concatenated(at("blocks.0.attn.hook_q"), at("blocks.0.attn.hook_k"), at("blocks.0.attn.hook_v")));
    EXPECT_EQ(compared, 24);
  }
}

}  // namespace
}  // namespace vitrine::test
