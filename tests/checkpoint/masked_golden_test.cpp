// Compares models with a head for masked tokens with transformers (tools/goldens masked): every site of the
// forward, and every gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "checkpoint/hostile_folder.h"
#include "checkpoint/safetensors.h"
#include "support/backward.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

/// Of a tensor, relative to 1 + its largest magnitude.
constexpr double kSiteTolerance = 2e-6;

/// The name of a case for the functions that read goldens.
std::string masked(const std::string& name) { return "masked/" + name; }

class MaskedGolden : public testing::TestWithParam<std::string> {
 protected:
  const Checkpoint checkpoint_ = golden_checkpoint(masked(GetParam()));
  const Ids ids_ = golden_ids(masked(GetParam()));
  const TempFolder folder_;
};

TEST_P(MaskedGolden, EverySiteEqualsTheReference) {
  const auto expected = golden_values(masked(GetParam()));
  Probe probe(*checkpoint_.model, {"*"});
  const std::vector<float> logits = logits_of(*checkpoint_.model, ids_, {.threads = 2, .taps = &probe});
  EXPECT_TRUE(same_bits(logits, logits_of(*checkpoint_.model, ids_))) << "taps changed the logits";
  std::size_t compared = 0;
  for (const std::string& site : probe.order) {
    const auto it = expected.find(site);
    if (it == expected.end()) {
      EXPECT_TRUE(site.ends_with("_in") || site.ends_with("_input")) << site << " is not in the golden";
      continue;
    }
    const Value& ours = probe.values[site];
    ASSERT_EQ(ours.shape, it->second.shape) << site;
    const double bound = kSiteTolerance * (1 + largest(it->second.data));
    for (std::size_t i = 0; i < ours.data.size(); ++i) ASSERT_NEAR(ours.data[i], it->second.data[i], bound) << site;
    ++compared;
  }
  EXPECT_EQ(compared, expected.size()) << "the golden has sites that the forward did not visit";
}

TEST_P(MaskedGolden, GradientsEqualPyTorch) {
  const double loss = static_cast<double>(golden_gradient_file(masked(GetParam())).at("loss").data[0]);
  const Values reference = params_of(*golden_gradient_checkpoint(masked(GetParam()), folder_ / "gradients").model);
  const auto predictions = static_cast<double>(ids_.size() - 1);
  for (const bool recompute : {false, true}) {
    const bool predicts_sentence = checkpoint_.model->config().pooler.has_value();
    ModelGradients model_gradients(
        *checkpoint_.model,
        {.threads = 2, .recompute = recompute, .next_sentence = predicts_sentence ? Ids{1} : Ids{}});
    model_gradients.forward_backward({ids_}, static_cast<float>(1 / predictions));
    EXPECT_NEAR(model_gradients.cross_entropy / predictions + model_gradients.next_sentence, loss, 1e-5 * loss);
    const Distance d = distance(model_gradients.gradients(), reference);
    EXPECT_LE(d.worst, 1) << d.name;
  }
}

TEST_P(MaskedGolden, EveryTokenSeesLaterTokens) {
  const Model& model = *checkpoint_.model;
  Ids changed = ids_;
  changed.back() = (changed.back() + 1) % static_cast<std::int32_t>(model.config().vocab_size);
  const std::vector<float> before = logits_of(model, ids_), after = logits_of(model, changed);
  for (std::size_t row = 0; row < ids_.size(); ++row) {
    const std::size_t n = before.size() / ids_.size(), first = row * n;
    EXPECT_FALSE(std::equal(&before[first], &before[first] + n, &after[first])) << "row " << row;
  }
  EXPECT_THROW(model.make_cache(8, KvType::f32), Unsupported);
}

/// A golden, with config.json's own words of this project and its own tensor names.
TEST_P(MaskedGolden, OurOwnWordsDescribeTheModel) {
  const ModelConfig& c = checkpoint_.model->config();
  const BlockConfig& block = c.blocks.front();
  const auto& attention = *find<AttentionConfig>(block);
  const auto& ffn = *find<DenseConfig>(block);
  const char* const activation = ffn.activation == Activation::relu ? "relu" : "gelu";
  if (c.pooler) GTEST_SKIP() << "our own words have no pooler";
  if (c.head.transform->activation != ffn.activation) GTEST_SKIP() << "our own head has the activation of the FFN";
  const Json config = {{"model_type", "vitrine"},
                       {"d_model", c.d_model},
                       {"vocab_size", c.vocab_size},
                       {"max_seq_len", c.max_seq_len},
                       {"n_layers", c.n_layers()},
                       {"n_heads", attention.n_heads},
                       {"d_ff", ffn.d_ff},
                       {"activation", activation},
                       {"gated", false},
                       {"bidirectional", true},
                       {"positions", "learned"},
                       {"first_position", c.embedding.first_position},
                       {"n_types", c.embedding.n_types},
                       {"norm", "layer"},
                       {"norm_bias", true},
                       {"norm_eps", static_cast<double>(c.embedding.norm->eps)},
                       {"norm_place", "after_residual"},
                       {"embedding_norm", true},
                       {"head_transform", true},
                       {"tied", true},
                       {"head_bias", true},
                       {"qkv_bias", true},
                       {"out_bias", true},
                       {"ffn_bias", true}};
  const std::string own = folder_ / "own";
  std::filesystem::create_directories(own);
  std::ofstream(own + "/config.json") << config.dump();
  Values params = params_of(*checkpoint_.model);
  SafetensorsWriter writer(own + "/model.safetensors", 256 + 240 * static_cast<std::int64_t>(params.size()));
  for (auto& [name, value] : params) writer.add(name, {value.data.data(), value.shape});
  writer.commit();
  const Checkpoint loaded = load_checkpoint(own);
  EXPECT_TRUE(same_bits(logits_of(*loaded.model, ids_), logits_of(*checkpoint_.model, ids_)));
}

/// The published bert-base-uncased has these names, and the layers of pre-training.
TEST(EarlyBert, GammaAndBetaAreWeightAndBias) {
  const TempFolder folder;
  const std::string golden = goldens() + "/" + masked("bert"), early = folder / "early";
  std::filesystem::create_directories(early);
  std::filesystem::copy_file(golden + "/config.json", early + "/config.json");
  Values stored = tensors_of(golden + "/model.safetensors");
  const auto write = [&](const Values& values) {
    SafetensorsWriter writer(early + "/model.safetensors", 256 + 240 * static_cast<std::int64_t>(values.size()));
    for (const auto& [name, value] : values) {
      Value copy = value;
      writer.add(name, {copy.data.data(), copy.shape});
    }
    writer.commit();
  };
  Values renamed;
  for (const auto& [name, value] : stored) {
    const std::size_t at = name.find("LayerNorm.");
    const bool is_weight = name.ends_with("weight");
    renamed[at == name.npos ? name : name.substr(0, at) + (is_weight ? "LayerNorm.gamma" : "LayerNorm.beta")] = value;
  }
  renamed["bert.pooler.dense.bias"] = {Shape{2}, {1, 2}};
  write(renamed);
  const Ids ids = golden_ids(masked("bert"));
  EXPECT_TRUE(same_bits(logits_of(*load_checkpoint(early).model, ids),
                        logits_of(*golden_checkpoint(masked("bert")).model, ids)));
  renamed["bert.embeddings.LayerNorm.weight"] = renamed.at("bert.embeddings.LayerNorm.gamma");
  write(renamed);
  EXPECT_THROW(load_checkpoint(early), BadCheckpoint);
}

/// Types of tokens: a model whose second type equals its first one adds the first row either way.
TEST(TokenTypes, SelectARowAndAreChecked) {
  const Checkpoint bert = golden_checkpoint(masked("bert"));
  const Ids ids = {5, 6, 7};
  const auto logits = [&](const Ids& types) {
    ThreadPool pool(1);
    Arena arena;
    std::vector<float> all;
    Pass pass{{pool, default_kernels(), arena}, {{0, 3, 0, nullptr}}};
    pass.logits = {LogitRequest::Rows::range, 0, 3,
                   [&](std::int64_t, const Tensor& rows) { all.assign(rows.data, rows.data + rows.count()); }};
    bert.model->forward(pass, {std::span<const std::int32_t>(ids), types});
    return all;
  };
  EXPECT_TRUE(same_bits(logits({}), logits({0, 0, 0})));
  EXPECT_FALSE(same_bits(logits({}), logits({0, 0, 1})));
  EXPECT_THROW(logits({0, 0}), BadInput);
  EXPECT_THROW(logits({0, 0, 3}), BadInput);
  EXPECT_THROW(logits({0, 0, -1}), BadInput);
}

INSTANTIATE_TEST_SUITE_P(All, MaskedGolden,
                         testing::Values("bert", "bert_pretraining", "roberta", "xlm_roberta", "distilbert"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace vitrine::test
