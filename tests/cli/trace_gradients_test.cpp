// vitrine trace --gradients: the gradients that it writes, and errors.
#include "cli/program.h"
#include "support/backward.h"

namespace vitrine::test {
namespace {

class TraceGradients : public testing::Test {
 protected:
  Arguments command(const std::string& model, const std::string& ids, const Arguments& more) const {
    Arguments all = {"trace", model, "--ids", ids, "--out", out_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Values trace(const std::string& model, Arguments more = {}) const {
    more.emplace_back("--gradients");
    output_of(command(golden(model), joined(golden_ids(model)), more));
    return tensors_of(out_);
  }

  const TempFolder folder_;
  const std::string out_ = folder_ / "t.safetensors";
};

TEST_F(TraceGradients, AreAddedWithoutChangingTheValues) {
  for (const std::string model : {"gpt2", "gemma2", "qwen2_moe", "olmo2", "falcon"}) {
    const Arguments sites = {"--sites", "*", "--sites", "*.hook_result", "--sites", "*.hook_attn_in"};
    const Values both = trace(model, sites);
    Arguments exact = sites;
    exact.insert(exact.end(), {"--compute", "f32"});
    output_of(command(golden(model), joined(golden_ids(model)), exact));
    const Values values = tensors_of(out_);
    const std::int64_t n_predictions = static_cast<std::int64_t>(golden_ids(model).size()) - 1;
    std::size_t gradients = 0;
    for (const auto& [name, value] : values) {
      ASSERT_TRUE(both.contains(name)) << name;
      EXPECT_TRUE(same_bits(both.at(name).data, value.data)) << model << " " << name;
      const auto gradient = both.find(name + "_grad");
      if (gradient == both.end()) continue;
      EXPECT_EQ(gradient->second.shape, value.shape) << name;
      ++gradients;
    }
    EXPECT_EQ(both.size(), values.size() + gradients);
    for (const auto& [name, value] : values) {  // ids and ranks are not differentiable
      const bool is_whole = name.ends_with("_tokens") || name.ends_with("_indices");
      EXPECT_EQ(both.contains(name + "_grad"), !is_whole) << model << " " << name;
    }
    EXPECT_EQ(both.at("hook_loss").shape, Shape{n_predictions});
    for (const float g : both.at("hook_loss_grad").data) EXPECT_EQ(g, 1.0f / static_cast<float>(n_predictions));
  }
}

/// PyTorch's gradient of the table of positions, which is used only once, is the gradient at hook_pos_embed. The
/// gradient at hook_embed is the same.
TEST_F(TraceGradients, EqualPyTorch) {
  const Values ours = trace("gpt2");
  const std::vector<float> table = golden_gradient_file("gpt2").at("transformer.wpe.weight").data;
  const std::vector<float>& positions = ours.at("hook_pos_embed_grad").data;
  const double bar = 1e-4 * static_cast<double>(largest(table));
  ASSERT_LE(positions.size(), table.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(positions[i]), static_cast<double>(table[i]), bar) << i;
  }
  EXPECT_EQ(ours.at("hook_embed_grad").data, positions);
}

TEST_F(TraceGradients, EqualTheLibrary) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  const Ids ids = golden_ids("gemma2");
  Probe probe(*checkpoint.model);
  probe.ask_gradients = true;
  ModelGradients model_gradients(*checkpoint.model, {.taps = &probe});
  model_gradients.forward_backward({ids}, 1.0f / static_cast<float>(ids.size() - 1));
  const Values ours = trace("gemma2");
  for (const auto& [name, gradient] : probe.gradients) {
    if (name == "hook_loss") continue;  // the library's has one more row, which does not count
    EXPECT_TRUE(same_bits(ours.at(name + "_grad").data, gradient.data)) << name;
  }
}

TEST_F(TraceGradients, AreTakenAfterAWrite) {
  const Values ours = trace("gpt2", {"--set", "blocks.1.attn.hook_z[:,2]=0", "--set", "blocks.0.hook_mlp_out[1]*=2"});
  const Value &z = ours.at("blocks.1.attn.hook_z_grad"), &pattern = ours.at("blocks.1.attn.hook_pattern_grad");
  const auto head = [](const Value& v, std::int64_t h) {
    const std::int64_t n = v.shape[1] * v.shape[2];
    return std::vector<float>(v.data.begin() + h * n, v.data.begin() + (h + 1) * n);
  };
  EXPECT_GT(largest(z.data), 0);
  for (std::int64_t h = 0; h < pattern.shape[0]; ++h) EXPECT_EQ(largest(head(pattern, h)) == 0, h == 2) << h;
  const std::vector<float>&after = ours.at("blocks.0.hook_mlp_out_grad").data,
        &before = ours.at("blocks.0.mlp.hook_out_grad").data;
  const auto d = static_cast<std::size_t>(ours.at("hook_embed").shape[1]);
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(before[i], (i / d == 1 ? 2.0f : 1.0f) * after[i]) << i;
}

TEST_F(TraceGradients, AreListed) {
  const Arguments two = {"--sites", "hook_embed", "--sites", "hook_tokens", "--gradients"};
  EXPECT_EQ(json_of(command(golden("gpt2"), "1,2,3", two))["sites"],
            Json::parse(R"([{"name":"hook_tokens","shape":[3],"bytes":12},{"name":"hook_embed","shape":[3,24],
                            "bytes":288},{"name":"hook_embed_grad","shape":[3,24],"bytes":288}])"));
}

TEST_F(TraceGradients, ReportsErrors) {
  const auto refuses = [&](const std::string& model, const std::string& ids, const Arguments& more,
                           const std::vector<std::string>& parts) {
    Arguments all = command(model, ids, more);
    all.emplace_back("--gradients");
    expect_error(all, parts);
    EXPECT_FALSE(std::filesystem::exists(out_));
  };
  refuses(golden("gpt2"), "1", {}, {"[--gradients]", "at least 2 tokens", "got 1"});
  refuses(golden("gpt2"), "1,2", {"--kv", "bf16"}, {"[--kv]", "bf16"});
  refuses(golden("gpt2"), "1,2", {"--sites", "nope"}, {"--sites", "nope"});
}

TEST_F(TraceGradients, FlowThroughQuantizedWeights) {
  const std::string model = folder_ / "model", quantized = folder_ / "q.gguf";
  output_of({"init", "llama-2-7b", model, "--seed", "3", "--set", "d_model=32", "--set", "n_layers=1", "--set",
             "n_heads=2", "--set", "n_kv_heads=2", "--set", "d_ff=32", "--set", "vocab_size=64"});
  EXPECT_EQ(run_program({"quantize", model, quantized, "--type", "q8_0"}).status, 0);
  Arguments all = command(quantized, "1,2,3", {});
  all.emplace_back("--gradients");
  EXPECT_EQ(run_program(all).status, 0);
  EXPECT_TRUE(std::filesystem::exists(out_));
}

}  // namespace
}  // namespace vitrine::test
