// Compares the loss and the gradient of every parameter with PyTorch, for every golden (tools/goldens/gradients.py):
// the gradients of Model::forward_backward, and those that are written to a file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf_support.h"
#include "checkpoint/gradients_file.h"
#include "checkpoint/hostile_folder.h"
#include "support/backward.h"

namespace vitrine::test {
namespace {

constexpr double kLossTolerance = 1e-5;  // relative

class GradientGolden : public testing::TestWithParam<std::string> {
 protected:
  const Checkpoint checkpoint_ = golden_checkpoint(GetParam());
  const Ids ids_ = golden_ids(GetParam());
  const TempFolder folder_;
};

TEST_P(GradientGolden, LossAndGradientsEqualPyTorch) {
  const double loss = static_cast<double>(golden_gradient_file(GetParam()).at("loss").data[0]);
  const Values reference = params_of(*golden_gradient_checkpoint(GetParam(), folder_ / "gradients").model);
  ModelGradients model_gradients(*checkpoint_.model, {.threads = 2});
  const auto predictions = static_cast<double>(ids_.size() - 1);
  model_gradients.forward_backward({ids_}, static_cast<float>(1 / predictions));
  EXPECT_NEAR(model_gradients.cross_entropy / predictions, loss, kLossTolerance * loss);
  const Distance d = distance(model_gradients.gradients(), reference);
  EXPECT_LE(d.worst, 1) << d.name;
  RecordProperty("worst", std::to_string(d.worst));
}

TEST_P(GradientGolden, TheFileHasTheCheckpointsNamesShapesAndOrientation) {
  Values reference = golden_gradient_file(GetParam());
  reference.erase("loss");
  ThreadPool pool(2);
  ModelGradients model_gradients(*checkpoint_.model);
  model_gradients.forward_backward({ids_}, 1.0f / static_cast<float>(ids_.size() - 1));
  write_gradients(folder_ / "g.safetensors", checkpoint_, model_gradients.raw(), pool);
  const Distance d = distance(tensors_of(folder_ / "g.safetensors"), reference);
  EXPECT_LE(d.worst, 1) << d.name;
}

INSTANTIATE_TEST_SUITE_P(All, GradientGolden, testing::ValuesIn(golden_cases()),
                         [](const auto& param_info) { return param_info.param; });

/// The gradients of a GGUF file have its names, its order of the rows of q and k, its fused tensors and stacked
/// experts.
class GradientsOfGguf : public testing::TestWithParam<std::string> {};

TEST_P(GradientsOfGguf, HaveTheFormOfTheFile) {
  const TempFolder folder;
  const Checkpoint gguf = through_gguf(golden_checkpoint(GetParam()), DType::f32, folder / "model.gguf");
  // Export only moves elements, so exported gradients are the gradients of exported weights.
  ThreadPool pool(2);
  write_gguf(folder / "reference.gguf", golden_gradient_checkpoint(GetParam(), folder / "gradients"), DType::f32, {},
             pool);
  const GgufModelFile file = open_gguf(MappedFile::open(folder / "reference.gguf"));
  ModelGradients model_gradients(*gguf.model);
  const Ids ids = golden_ids(GetParam());
  model_gradients.forward_backward({ids}, 1.0f / static_cast<float>(ids.size() - 1));
  write_gradients(folder / "g.safetensors", gguf, model_gradients.raw(), pool);
  const Values ours = tensors_of(folder / "g.safetensors");
  Values reference;
  for (const auto& [name, tensor] : file.tensors.all) {
    if (!ours.contains(name) && name.starts_with("rope_")) continue;  // not a parameter but a table of divisors
    ASSERT_TRUE(ours.contains(name)) << name;
    Value& value = reference[name];
    value.shape = ours.at(name).shape;
    value.data.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(value.data.data(), tensor.bytes.data(), tensor.bytes.size());
    std::vector<std::int64_t> sizes(value.shape.sizes().begin(), value.shape.sizes().end());
    if (sizes.size() == 2 && sizes[0] == 1 && tensor.shape.size() == 1) sizes.erase(sizes.begin());
    EXPECT_EQ(sizes, tensor.shape) << name;
  }
  const Distance d = distance(ours, reference);
  EXPECT_LE(d.worst, 1) << d.name;
}

INSTANTIATE_TEST_SUITE_P(Families, GradientsOfGguf,
                         testing::Values("llama_gqa_bf16_sharded", "gpt2", "gpt_neox", "falcon_new", "qwen2_moe"),
                         [](const auto& param_info) { return param_info.param; });

/// `[rows, cols]` with the rows of each head permuted from halves to interleaved pairs.
std::vector<float> in_pairs(const Value& w, std::int64_t head_dim) {
  std::vector<float> to(w.data.size());
  const std::int64_t cols = w.shape[1], half = head_dim / 2;
  for (std::int64_t r = 0; r < w.shape[0]; ++r) {
    const std::int64_t i = r % head_dim, pair = r - i + 2 * (i % half) + i / half;
    std::copy_n(w.data.begin() + r * cols, cols, to.begin() + pair * cols);
  }
  return to;
}

/// A llama2.c file has no tensor names, so the gradients have vitrine's names.
TEST(GradientsOfLlama2c, HaveVitrinesNames) {
  HostileFolder folder("llama_mha");
  folder.edit_json([](Json& config) { config["rms_norm_eps"] = 1e-5; });  // the only value that the format supports
  const Checkpoint original = load_checkpoint(folder.path());
  const ModelConfig& c = original.model->config();
  const AttentionConfig& a = *attention_of(c, 0);
  const Values weights = params_of(*original.model);
  const auto is_permuted = [&](const std::string& name) {
    return name.ends_with("wq.weight") || name.ends_with("wk.weight");
  };

  std::string bytes;
  for (const std::int64_t size :
       {c.d_model, find<DenseConfig>(c.blocks[0])->d_ff, static_cast<std::int64_t>(c.n_layers()), a.n_heads,
        a.n_kv_heads, -c.vocab_size, c.max_seq_len}) {
    const auto field = static_cast<std::int32_t>(size);
    bytes.append(reinterpret_cast<const char*>(&field), sizeof field);
  }
  const auto append = [&](const std::string& name) {
    const std::vector<float> data = is_permuted(name) ? in_pairs(weights.at(name), a.head_dim) : weights.at(name).data;
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
  };
  append("embed.weight");
  for (const char* kind :
       {"ln1", "attn.wq", "attn.wk", "attn.wv", "attn.wo", "ln2", "mlp.w_gate", "mlp.w_down", "mlp.w_up"}) {
    for (std::size_t l = 0; l < c.n_layers(); ++l) {
      append("blocks." + std::to_string(l) + "." + kind + ".weight");
    }
  }
  append("ln_final.weight");
  bytes.append(static_cast<std::size_t>(c.max_seq_len * a.head_dim) * sizeof(float), '\0');  // RoPE's tables
  append("unembed.weight");
  write_file(folder / "model.bin", bytes);

  const Checkpoint llama2c = load_checkpoint(folder / "model.bin");
  const Ids ids = golden_ids("llama_mha");
  ThreadPool pool(1);
  ModelGradients model_gradients(*llama2c.model);
  model_gradients.forward_backward({ids}, 1.0f / static_cast<float>(ids.size() - 1));
  write_gradients(folder / "g.safetensors", llama2c, model_gradients.raw(), pool);

  Values reference = gradients_of(*original.model, ids);
  for (auto& [name, value] : reference) {
    if (is_permuted(name)) value.data = in_pairs(value, a.head_dim);
  }
  const Distance d = distance(tensors_of(folder / "g.safetensors"), reference);
  EXPECT_LE(d.worst, 1) << d.name;
}

// Gradients that must be zero.

/// Rows of an untied embedding: ids that do not occur, and the last id, which has no target and whose key no other
/// token attends to.
TEST(ZeroGradients, EmbeddingRowsThatAreNotUsed) {
  for (const char* name : {"llama_mha", "gpt2_variant", "mixtral", "gpt_neox"}) {
    const Checkpoint checkpoint = golden_checkpoint(name);
    const Ids ids = golden_ids(name);
    const Values gradients = gradients_of(*checkpoint.model, ids);
    const Value& embed = gradients.at("embed.weight");
    const std::int64_t d = embed.shape[1];
    for (std::int64_t id = 0; id < embed.shape[0]; ++id) {
      const std::vector<float> row(embed.data.begin() + id * d, embed.data.begin() + (id + 1) * d);
      const bool used = std::find(ids.begin(), ids.end() - 1, id) != ids.end() - 1;
      EXPECT_EQ(largest(row) != 0, used) << name << ", id " << id;
    }
    EXPECT_EQ(
        std::count_if(gradients.begin(), gradients.end(), [](const auto& g) { return largest(g.second.data) == 0; }), 0)
        << name << ": a whole gradient is zero";
  }
}

/// Learned positions after the end of the text, and the last position, which has no target.
TEST(ZeroGradients, PositionsAfterTheText) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  const Ids ids = golden_ids("gpt2");
  const Value positions = gradients_of(*checkpoint.model, ids).at("pos_embed.weight");
  const std::int64_t d = positions.shape[1];
  for (std::int64_t t = 0; t < positions.shape[0]; ++t) {
    const std::vector<float> row(positions.data.begin() + t * d, positions.data.begin() + (t + 1) * d);
    EXPECT_EQ(largest(row) != 0, t < static_cast<std::int64_t>(ids.size()) - 1) << "position " << t;
  }
}

/// Without RoPE, a bias of the keys adds the same value to all scores of a query, so it does not change the softmax.
TEST(ZeroGradients, TheBiasOfKeysWithoutRope) {
  for (const char* name : {"gpt2", "gpt2_variant", "gpt2_relu"}) {
    const Checkpoint checkpoint = golden_checkpoint(name);
    const Values gradients = gradients_of(*checkpoint.model, golden_ids(name));
    double most = 0;
    for (const auto& [param, value] : gradients) most = std::max(most, largest(value.data));
    for (std::size_t l = 0; l < checkpoint.model->config().n_layers(); ++l) {
      const std::string at = "blocks." + std::to_string(l) + ".attn.";
      EXPECT_LE(largest(gradients.at(at + "wk.bias").data), 1e-7 * most) << name << ", layer " << l;
      EXPECT_GT(largest(gradients.at(at + "wq.bias").data), 1e-5 * most) << name << ", layer " << l;
    }
  }
}

/// Experts that no token chose, in the model and in the file.
TEST(ZeroGradients, ExpertsThatWereNotChosen) {
  for (const char* name : {"mixtral", "qwen3_moe", "qwen2_moe"}) {
    const Checkpoint checkpoint = golden_checkpoint(name);
    const Ids text = golden_ids(name), ids(text.begin(), text.begin() + 2);
    Probe probe(*checkpoint.model, {"*.hook_expert_indices"});
    ModelGradients model_gradients(*checkpoint.model, {.taps = &probe});
    // The last row has a target here, so that every chosen expert has a gradient.
    model_gradients.forward_backward({ids}, 1, {1, 1});
    const Values gradients = model_gradients.gradients();
    int untouched = 0;
    for (const auto& [site, chosen] : probe.values) {
      const std::string at = site.substr(0, site.find("mlp.")) + "mlp.experts.";
      for (int e = 0; gradients.contains(at + std::to_string(e) + ".w_up.weight"); ++e) {
        const bool is_chosen = std::count(chosen.data.begin(), chosen.data.end(), static_cast<float>(e)) > 0;
        for (const char* w : {".w_gate.weight", ".w_up.weight", ".w_down.weight"}) {
          EXPECT_EQ(largest(gradients.at(at + std::to_string(e) + w).data) != 0, is_chosen)
              << name << " " << at << e << w;
        }
        untouched += is_chosen ? 0 : 1;
      }
    }
    EXPECT_GT(untouched, 0) << name;
  }
}

/// Units that a ReLU sets to zero for all tokens: the gradients of their rows of w_down, which is stored transposed,
/// are exactly zero.
TEST(ZeroGradients, UnitsThatReluSetsToZero) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2_relu");
  Probe probe(*checkpoint.model, {"*.mlp.hook_post"});
  const Ids ids = golden_ids("gpt2_relu");
  ModelGradients model_gradients(*checkpoint.model, {.taps = &probe});
  model_gradients.forward_backward({ids});
  const Value& post = probe.values.at("blocks.0.mlp.hook_post");
  const Values gradients = model_gradients.gradients();
  const Value &down = gradients.at("blocks.0.mlp.w_down.weight"), &up = gradients.at("blocks.0.mlp.w_up.weight");
  int shut = 0;
  for (std::int64_t unit = 0; unit < post.shape[1]; ++unit) {
    double open = 0, by_down = 0, by_up = 0;
    for (std::int64_t t = 0; t + 1 < post.shape[0]; ++t)
      open += static_cast<double>(post.data[static_cast<std::size_t>(t * post.shape[1] + unit)]);
    for (std::int64_t i = 0; i < down.shape[0]; ++i)
      by_down += std::abs(static_cast<double>(down.data[static_cast<std::size_t>(i * down.shape[1] + unit)]));
    for (std::int64_t i = 0; i < up.shape[1]; ++i)
      by_up += std::abs(static_cast<double>(up.data[static_cast<std::size_t>(unit * up.shape[1] + i)]));
    EXPECT_EQ(by_down != 0, open != 0) << "unit " << unit;
    EXPECT_EQ(by_up != 0, open != 0) << "unit " << unit;
    shut += open == 0 ? 1 : 0;
  }
  EXPECT_GT(shut, 0);
}

}  // namespace
}  // namespace vitrine::test
