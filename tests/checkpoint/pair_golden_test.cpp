// Compares encoder–decoders with transformers (tools/goldens pairs) or, in our own words, with PyTorch
// (tools/goldens own): every site of the forward, and every gradient; and every way to run them with each
// other.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/hostile_folder.h"
#include "checkpoint/safetensors.h"
#include "support/backward.h"
#include "support/data.h"
#include "support/pair.h"

namespace vitrine::test {
namespace {

/// Of a tensor, relative to 1 + its largest magnitude.
constexpr double kSiteTolerance = 2e-6;

std::string golden(const std::string& name) { return "pairs/" + name; }

Pair golden_pair(const std::string& name) {
  const auto values = golden_values(golden(name));
  const auto ids = [&](const char* site) {
    Ids result;
    for (const float id : values.at(site).data) result.push_back(static_cast<std::int32_t>(id));
    return result;
  };
  return {ids("encoder.hook_tokens"), ids("decoder.hook_tokens")};
}

class PairGolden : public testing::TestWithParam<std::string> {
 protected:
  const Checkpoint checkpoint_ = golden_checkpoint(golden(GetParam()));
  const Model& model_ = *checkpoint_.model;
  const Pair pair_ = golden_pair(GetParam());
  const TempFolder folder_;
};

TEST_P(PairGolden, EverySiteEqualsTheReference) {
  const auto expected = golden_values(golden(GetParam()));
  Probe probe(model_, {"*"});
  const std::vector<float> logits = logits_of(model_, pair_, {.threads = 2, .taps = &probe});
  EXPECT_TRUE(same_bits(logits, logits_of(model_, pair_))) << "taps changed the logits";
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
    for (std::size_t i = 0; i < ours.data.size(); ++i) {
      if (ours.data[i] == it->second.data[i]) continue;  // −∞
      ASSERT_NEAR(ours.data[i], it->second.data[i], bound) << site;
    }
    ++compared;
  }
  EXPECT_EQ(compared, expected.size()) << "the golden has sites that the forward did not visit";
}

TEST_P(PairGolden, ReplacingASiteByItselfChangesNoBit) {
  Probe probe(model_, {"*"}, Probe::Replace::by_itself);
  EXPECT_TRUE(same_bits(logits_of(model_, pair_, {.taps = &probe}), logits_of(model_, pair_)));
}

TEST_P(PairGolden, GradientsEqualPyTorch) {
  const Values reference = golden_gradient_file(golden(GetParam()));
  const auto loss = static_cast<double>(reference.at("loss").data[0]);
  const auto n = static_cast<double>(pair_.target.size() - 1);
  Values first;
  for (const bool recompute : {false, true}) {
    for (const bool tapped : {false, true}) {
      Probe probe(model_, {"*pattern", "*hook_attn_out", "*hook_cross_attn_out"});
      PairGradients model_gradients(
          model_, {.threads = recompute ? 1 : 2, .taps = tapped ? &probe : nullptr, .recompute = recompute});
      model_gradients.forward_backward({pair_}, static_cast<float>(1 / n));
      EXPECT_NEAR(model_gradients.cross_entropy / n, loss, 1e-5 * loss);
      const Values ours = model_gradients.gradients();
      if (first.empty()) first = ours;
      EXPECT_EQ(first_difference(first, ours), "") << "recompute " << recompute << ", tapped " << tapped;
    }
  }
  Values of_file;  // by the names of the file
  for_each_param(model_.config(), model_.params(), [&](const Param& param, const std::string& name, const Shape&) {
    const bool is_fixed = is_constant(model_.config(), name);
    EXPECT_NE(is_fixed, reference.contains(param.stored_name)) << name;
    if (!is_fixed) of_file[param.stored_name] = first.at(name);
  });
  Values expected = reference;
  expected.erase("loss");
  const Distance d = distance(of_file, expected, 1e-4, 2e-7);  // the gradient of a bias of keys is 0
  EXPECT_LE(d.worst, 1) << d.name;
}

/// The gradient of the loss at a source is that of a batch with other sources, to the bit.
TEST_P(PairGolden, ABatchHasTheSumOfTheGradients) {
  const Pair other{Ids(pair_.source.rbegin(), pair_.source.rend() - 4),
                   Ids(pair_.target.begin(), pair_.target.end() - 5)};
  PairGradients both(model_, {.threads = 2}), one(model_), two(model_);
  both.forward_backward({pair_, other});
  one.forward_backward({pair_});
  two.forward_backward({other});
  EXPECT_NEAR(both.cross_entropy, one.cross_entropy + two.cross_entropy, 1e-9);
  Values sum = one.gradients();
  for (auto& [name, value] : sum) {
    const std::vector<float> more = two.gradients().at(name).data;
    for (std::size_t i = 0; i < more.size(); ++i) value.data[i] += more[i];
  }
  const Distance d = distance(both.gradients(), sum, 2e-6, 1e-7);
  EXPECT_LE(d.worst, 1) << d.name;
}

TEST_P(PairGolden, ChunksAndStepsEqualOnePass) {
  for (const KvTypes kv :
       {KvTypes(), KvTypes(KvType::bf16), KvTypes(KvType::int8), KvTypes(KvType::int8, KvType::int4)}) {
    const std::vector<float> whole = logits_of(model_, pair_, {.kv_types = kv});
    for (const std::int64_t chunk : {1, 5}) {
      EXPECT_TRUE(same_bits(whole, chunked_logits_of(model_, pair_, chunk, {.threads = 2, .kv_types = kv})))
          << "chunks of " << chunk;
    }
  }
}

TEST_P(PairGolden, SourcesAreIndependent) {
  const Pair other{Ids(pair_.source.begin() + 3, pair_.source.end()),
                   Ids(pair_.target.begin(), pair_.target.end() - 3)};
  const std::vector<std::vector<float>> both = batch_logits_of(model_, {pair_, other, pair_});
  EXPECT_TRUE(same_bits(both[0], logits_of(model_, pair_)));
  EXPECT_TRUE(same_bits(both[1], logits_of(model_, other)));
  EXPECT_TRUE(same_bits(both[2], both[0]));
}

INSTANTIATE_TEST_SUITE_P(All, PairGolden,
                         testing::Values("t5", "t5_11", "mt5", "bart", "mbart", "marian", "marian_two", "pegasus",
                                         "m2m_100", "own_rnn", "own_lstm", "own_additive", "own_additive_lstm",
                                         "own_attention_to_gru", "own_lstm_to_attention"),
                         [](const auto& param_info) { return param_info.param; });

/// config.json with this project's own words, for goldens that it can describe.
Json own_words(const ModelConfig& c, const Json& position_keys) {
  const BlockConfig& block = c.blocks.front();
  const auto& attention = *find<AttentionConfig>(block);
  const auto& ffn = *find<DenseConfig>(block);
  const SublayerNorms& norms = block.sublayers.front().norms;
  const NormConfig& norm = norms.pre ? *norms.pre : *norms.sum;
  const char* const activations[] = {"relu", "silu", "gelu_new", "gelu"};
  Json json = {{"model_type", "vitrine"},
               {"d_model", c.d_model},
               {"vocab_size", c.vocab_size},
               {"max_seq_len", c.max_seq_len},
               {"n_layers", c.n_layers()},
               {"n_heads", attention.n_heads},
               {"head_dim", attention.head_dim},
               {"score_scale", attention.score_scale},
               {"d_ff", ffn.d_ff},
               {"activation", activations[static_cast<int>(ffn.activation)]},
               {"gated", ffn.gated},
               {"norm", norm.kind == NormConfig::Kind::rms ? "rms" : "layer"},
               {"norm_bias", norm.bias},
               {"norm_eps", norm.eps},
               {"norm_place", norms.sum ? "after_residual" : "before"},
               {"embedding_scale", c.embedding.scale},
               {"embedding_norm", c.embedding.norm.has_value()},
               {"tied", c.head.tied},
               {"logit_scale", c.head.scale},
               {"head_bias", c.head.bias},
               {"qkv_bias", attention.qkv_bias},
               {"out_bias", attention.out_bias},
               {"ffn_bias", ffn.bias},
               {"shared_embedding", c.shared_embedding}};
  const AttentionConfig& first = *attention_of(*c.encoder, 0);
  json["encoder"] = {{"n_layers", c.encoder->n_layers()},
                     {"n_heads", first.n_heads},
                     {"head_dim", first.head_dim},
                     {"score_scale", first.score_scale},
                     {"d_ff", find<DenseConfig>(c.encoder->blocks.front())->d_ff},
                     {"vocab_size", c.encoder->vocab_size}};
  json.update(position_keys);
  return json;
}

TEST_P(PairGolden, OurOwnWordsDescribeTheModel) {
  if (GetParam().starts_with("own_")) GTEST_SKIP() << "it is in our own words";
  const ModelConfig& c = model_.config();
  Json positions = {{"positions", "learned"}, {"first_position", c.embedding.first_position}};
  if (c.relative_bias) {
    positions = {{"positions", "relative"},
                 {"relative_buckets", c.relative_bias->n_buckets},
                 {"relative_max_distance", c.relative_bias->max_distance}};
  } else if (c.embedding.sinusoid) {
    const char* const names[] = {"interleaved", "halves", "tensor2tensor"};
    positions = {{"positions", "sinusoidal"}, {"sinusoid", names[static_cast<int>(*c.embedding.sinusoid)]}};
  }
  if (c.embedding.first_position > 0) positions["first_position"] = c.embedding.first_position;
  const std::string own = folder_ / "own";
  std::filesystem::create_directories(own);
  std::ofstream(own + "/config.json") << own_words(c, positions).dump();
  Values params = params_of(model_);
  std::erase_if(params,
                [&](const auto& entry) { return c.embedding.sinusoid && entry.first.ends_with("pos_embed.weight"); });
  SafetensorsWriter writer(own + "/model.safetensors", 256 + 240 * static_cast<std::int64_t>(params.size()));
  for (auto& [name, value] : params) writer.add(name, {value.data.data(), value.shape});
  writer.commit();
  const Checkpoint loaded = load_checkpoint(own);
  EXPECT_TRUE(same_bits(logits_of(*loaded.model, pair_), logits_of(model_, pair_)));
}

/// A source that a pass lacks, or that does not fit, is an error that says so.
TEST(Sources, AreChecked) {
  const Checkpoint t5 = golden_checkpoint(golden("t5"));
  const Model& model = *t5.model;
  const Ids source = {4, 5, 6}, target = {0, 7};
  const auto error = [&](std::vector<Segment> segments, std::vector<Segment> sources, const Ids& read) {
    ThreadPool pool(1);
    Arena arena;
    Pass pass{{pool, default_kernels(), arena}, std::move(segments)};
    pass.sources = std::move(sources);
    try {
      model.forward(pass, {std::span<const std::int32_t>(target), {}, read});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error({{0, 2, 0, nullptr, 0}}, {{0, 3}}, source), "no error");
  EXPECT_NE(error({{0, 2}}, {}, {}).find("has no source"), std::string::npos);
  EXPECT_NE(error({{0, 2, 0, nullptr, 1}}, {{0, 3}}, source).find("source 1 of 1"), std::string::npos);
  EXPECT_NE(error({{0, 2, 0, nullptr, 0}}, {{0, 2}}, source).find("cover 3 tokens"), std::string::npos);
  EXPECT_NE(error({{0, 2, 0, nullptr, 0}}, {{0, 3}}, {4, 5, 99}).find("99"), std::string::npos);
}

}  // namespace
}  // namespace vitrine::test
