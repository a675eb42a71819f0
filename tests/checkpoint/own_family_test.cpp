// model_type "vitrine" describes published families with vitrine's own keys, and models outside all published families.
#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/init.h"
#include "model/count.h"
#include "model/initialize.h"
#include "support/figures.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

ModelConfig config_of(const Json& json) { return read_model_config(family_of(json, "test"), json, "test"); }

Json own(Json keys) {
  const Json sizes = {{"model_type", "vitrine"}, {"d_model", 64},      {"n_layers", 4}, {"n_heads", 4},
                      {"vocab_size", 300},       {"max_seq_len", 128}, {"d_ff", 96}};
  keys.insert(sizes.begin(), sizes.end());
  return keys;
}

/// The config of nanoGPT: LayerNorm and linear layers without biases, learned positions, exact GELU.
Json nano() {
  return own({{"positions", "learned"}, {"norm", "layer"}, {"activation", "gelu"}, {"gated", false}, {"tied", true}});
}

/// A config in which every key differs from its default.
Json much() {
  return own({{"n_kv_heads", 2},       {"head_dim", 32},
              {"rope_fraction", 0.5},  {"rope_interleaved", true},
              {"norm_bias", true},     {"norm", "layer"},
              {"norm_place", "both"},  {"qk_norm", "head_own_weight"},
              {"qkv_clip", 3.0},       {"qk_norm_after_rope", true},
              {"qkv_bias", true},      {"out_bias", true},
              {"ffn_bias", true},      {"head_bias", true},
              {"n_experts", 4},        {"top_k", 2},
              {"renormalize", false},  {"d_ff_shared", 48},
              {"window", 16},          {"full_every", 2},
              {"logit_softcap", 30},   {"score_softcap", 50},
              {"residual_scale", 0.5}, {"embedding_scale", 2.0},
              {"logit_scale", 0.25}});
}

TEST(OwnFamily, AlibiAndWidthsOfTheirOwn) {
  const ModelConfig config =
      config_of(own({{"positions", "alibi"}, {"alibi_max_bias", 4}, {"embedding_width", 24}, {"head_width", 40}}));
  for (std::size_t i = 0; i < config.n_layers(); ++i) {
    EXPECT_EQ(attention_of(config, i)->alibi, make_alibi(4, 4));
    EXPECT_FALSE(attention_of(config, i)->rope);
  }
  const ModelConfig plain = config_of(own({{"positions", "alibi"}}));
  EXPECT_EQ(attention_of(plain, 0)->alibi, make_alibi(4, 8));
  // 300 tokens of 24 and 40 instead of 64 elements, and two projections
  EXPECT_EQ(count_params(config), count_params(plain) - 300 * (40 + 24) + 64 * (24 + 40));
}

TEST(OwnFamily, DescribesPublishedFamilies) {
  const auto published = [](const std::string& preset, std::vector<std::string> set) {
    Json json = preset_or_config(preset);
    for (const char* size : {"d_model=64", "n_layers=4", "n_heads=4", "vocab_size=300", "max_seq_len=128", "d_ff=96"}) {
      set.emplace_back(size);
    }
    set_config_keys(json, set, preset);
    return config_of(json);
  };
  EXPECT_EQ(config_of(own({{"norm_eps", 1e-5}})), published("llama-2-7b", {"n_kv_heads=4"}));
  EXPECT_EQ(
      config_of(own({{"n_kv_heads", 2}, {"rope_theta", 1e6}, {"n_experts", 8}, {"top_k", 2}, {"norm_eps", 1e-5}})),
      published("mixtral-8x7b", {"n_kv_heads=2"}));
  EXPECT_EQ(config_of(own({{"norm_place", "both"},
                           {"norm_weight_offset", 1},
                           {"norm_eps", 1e-6},
                           {"n_kv_heads", 2},
                           {"head_dim", 16},
                           {"score_scale", 0.0625},
                           {"score_softcap", 50},
                           {"logit_softcap", 30},
                           {"window", 16},
                           {"full_every", 2},
                           {"activation", "gelu_pytorch_tanh"},
                           {"tied", true},
                           {"embedding_scale", 8}})),
            published("gemma-2-2b", {"n_kv_heads=2", "head_dim=16", "window=16"}));
  EXPECT_EQ(
      config_of(own({{"norm_place", "after"}, {"qk_norm", "all_heads"}, {"rope_theta", 5e5}, {"norm_eps", 1e-6}})),
      published("olmo-2-7b", {"n_kv_heads=4"}));
  EXPECT_EQ(config_of(own({{"positions", "learned"},
                           {"norm", "layer"},
                           {"norm_bias", true},
                           {"qkv_bias", true},
                           {"out_bias", true},
                           {"ffn_bias", true},
                           {"activation", "gelu_new"},
                           {"gated", false},
                           {"tied", true}})),
            published("gpt2", {}));
  EXPECT_EQ(config_of(own({{"norm", "layer"},
                           {"norm_bias", true},
                           {"qkv_bias", true},
                           {"out_bias", true},
                           {"ffn_bias", true},
                           {"activation", "gelu"},
                           {"gated", false},
                           {"parallel", true},
                           {"rope_fraction", 0.25}})),
            published("pythia-160m", {}));
  EXPECT_EQ(config_of(own({{"norm", "layer"},
                           {"norm_bias", true},
                           {"norm_weight_offset", 1},
                           {"activation", "relu2"},
                           {"gated", false},
                           {"rope_fraction", 0.5}})),
            published("nemotron-mini-4b", {"n_kv_heads=4", "head_dim=16"}));
  const auto read = [](Json json) {
    json.update({{"hidden_size", 64},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"vocab_size", 300},
                 {"max_position_embeddings", 128},
                 {"intermediate_size", 96}});
    return config_of(json);
  };
  EXPECT_EQ(config_of(own({{"norm", "layer"}, {"norm_weight", false}, {"qkv_clip", 0.5}})),
            read({{"model_type", "olmo"}, {"clip_qkv", 0.5}}));
  EXPECT_EQ(config_of(own({{"qk_norm", "head"}, {"qk_norm_after_rope", true}})),
            read({{"model_type", "hunyuan_v1_dense"}}));
  EXPECT_TRUE(attention_of(config_of(own({{"qk_norm", "head_own_weight"}, {"norm", "layer"}})), 0)->qk_norm ==
              attention_of(published("command-r-plus", {"n_kv_heads=4"}), 0)->qk_norm);
}

TEST(OwnFamily, IsWrittenAndReadBack) {
  ThreadPool pool(2);
  for (const Json& json : {nano(), much(), own({{"positions", "none"}, {"d_ff", "8/3 d, round up to 64"}})}) {
    Json config = json;
    set_config_values(config, Json::object(), "test");
    const ScratchFolder folder;
    const std::int64_t n = init_checkpoint(config, "test", folder / "m", DType::f32, 7, pool);
    const Checkpoint checkpoint = load_checkpoint(folder / "m");
    EXPECT_EQ(checkpoint.model->config(), config_of(config));
    EXPECT_EQ(n, count_params(config_of(config)));
    std::uint64_t index = 0;
    for_each_param(checkpoint.model->config(), checkpoint.model->params(),
                   [&](const Param& param, const std::string& name, const Shape& shape) {
                     std::vector<float> expected(static_cast<std::size_t>(shape.count()));
                     draw_initial(
                         init_rule(checkpoint.model->config(), norms_of(checkpoint.model->config()), name, shape), 7,
                         index++, 0, expected);
                     EXPECT_EQ(param.stored_name, name);
                     EXPECT_EQ(std::memcmp(param.view.data, expected.data(), expected.size() * 4), 0) << name;
                   });
    logits_of(*checkpoint.model, some_ids(*checkpoint.model, 40));
  }
}

TEST(OwnFamily, RefusesUnknownKeysAndValues) {
  const auto error_of = [](const Json& json) -> std::string {
    try {
      config_of(json);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  using testing::HasSubstr;
  EXPECT_THAT(error_of(own({{"positions", "learnt"}})), HasSubstr("rope, learned, none"));
  EXPECT_THAT(error_of(own({{"positions", "learned"}, {"rope_theta", 1e4}})), HasSubstr("rope_theta"));
  EXPECT_THAT(error_of(own({{"hidden_size", 64}})), HasSubstr("hidden_size"));
  EXPECT_THAT(error_of(own({{"rope_fraction", 0.1}})), HasSubstr("rope_fraction"));
  EXPECT_THAT(error_of(own({{"rope_theta", 0}})), HasSubstr("rope_theta"));
  EXPECT_THAT(error_of(own({{"n_experts", 4}})), HasSubstr("top_k"));
  EXPECT_THAT(error_of(own({{"full_every", 2}})), HasSubstr("full_every"));
  EXPECT_THAT(error_of(own({{"norm", "batch"}})), HasSubstr("rms, layer"));
}

Json cells(const char* layers, const Json& more = Json::object()) {
  Json json = {{"model_type", "vitrine"}, {"layers", layers}, {"d_model", 8},
               {"n_layers", 2},           {"vocab_size", 20}, {"max_seq_len", 32}};
  json.update(more);
  return json;
}

/// A recurrent encoder–decoder.
Json cell_pair(const char* layers, const Json& decoder = Json::object(), const Json& encoder = Json::object()) {
  Json json = cells(layers, decoder);
  json["encoder"] = encoder;
  return json;
}

TEST(OwnFamily, RecurrentAndDenseLayersAreWrittenAndReadBack) {
  ThreadPool pool(2);
  const Json additive = {{"attention", "additive"}, {"bridge", "linear"}};
  const Json heads = {{"layers", "attention"}, {"n_heads", 2}, {"d_ff", 12}};
  const std::pair<Json, std::int64_t> cases[] = {
      {cells("rnn", {{"d_hidden", 6}}), 20 * 8 + 20 * 6 + 6 * (8 + 6 + 2) + 6 * (6 + 6 + 2)},
      {cells("gru", {{"bidirectional", true}}), 20 * 8 + 20 * 16 + 2 * 24 * (8 + 8 + 2) + 2 * 24 * (16 + 8 + 2)},
      {cells("lstm", {{"tied", true}}), 20 * 8 + 2 * 32 * (8 + 8 + 2)},
      {cells("dense", {{"context", 3}, {"d_hidden", 5}, {"activation", "tanh"}}), 20 * 8 + 5 * 25 + 5 * 6 + 20 * 5},
      {cell_pair("lstm"), 2 * 20 * 8 + 4 * 32 * (8 + 8 + 2)},
      {cell_pair("gru", additive), 2 * 20 * 8 + 4 * 24 * 18 + 24 * 8 + 2 * 8 * 8 + 8 + 2 * (8 * 8 + 8)},
      {cell_pair("gru", {{"attention", "additive"}}, heads), -1},
  };
  for (const auto& [config, n_params] : cases) {
    const ScratchFolder folder;
    const std::int64_t n = init_checkpoint(config, "test", folder / "m", DType::f32, 7, pool);
    const Checkpoint checkpoint = load_checkpoint(folder / "m");
    EXPECT_EQ(checkpoint.model->config(), config_of(config));
    if (n_params > 0) {
      EXPECT_EQ(n, n_params) << config;
    }
  }
}

TEST(OwnFamily, RefusesCellsThatDoNotFit) {
  const auto error_of = [](const Json& json) -> std::string {
    try {
      config_of(json);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  using testing::HasSubstr;
  const Json both = {{"bidirectional", true}};
  EXPECT_THAT(error_of(cell_pair("gru", Json::object(), {{"d_hidden", 9}})),
              HasSubstr("copied states must have equal sizes"));
  EXPECT_THAT(error_of(cell_pair("gru", Json::object(), both)), HasSubstr("both directions"));
  EXPECT_THAT(error_of(cell_pair("gru", Json::object(), {{"n_layers", 1}})), HasSubstr("as many layers"));
  EXPECT_THAT(error_of(cell_pair("lstm", Json::object(), {{"layers", "gru"}})), HasSubstr("state of an LSTM"));
  EXPECT_THAT(error_of(cell_pair("gru", both)), HasSubstr("earlier tokens"));
  EXPECT_THAT(error_of(cell_pair("gru", Json::object(), {{"layers", "attention"}, {"n_heads", 2}, {"d_ff", 8}})),
              HasSubstr("additive attention, got neither"));
  EXPECT_THAT(error_of(cell_pair("dense")), HasSubstr("dense layers cannot read"));
  EXPECT_THAT(error_of(cells("gru", {{"attention", "additive"}})), HasSubstr("attention"));
  EXPECT_THAT(error_of(cells("lstm", {{"bridge", "copy"}})), HasSubstr("bridge"));
  EXPECT_THAT(error_of(cells("lstm", {{"tied", true}, {"d_hidden", 9}})), HasSubstr("tied"));
  EXPECT_THAT(error_of(cells("lstm", {{"positions", "rope"}})), HasSubstr("requires attention"));
  EXPECT_THAT(error_of(cells("lstm", {{"n_heads", 2}})), HasSubstr("n_heads"));
  EXPECT_THAT(error_of(cells("rnn", {{"activation", "gelu"}})), HasSubstr("tanh, relu"));
  EXPECT_THAT(error_of(cells("gru", {{"context", 2}})), HasSubstr("context"));
  EXPECT_THAT(error_of(cells("dense", {{"context", 2}, {"positions", "learned"}})), HasSubstr("neither positions"));
  EXPECT_THAT(error_of(cells("transformer")), HasSubstr("attention, rnn, gru, lstm, dense"));
}

/// Without attention and positions nothing depends on how long a text is.
TEST(OwnFamily, HasNoLongestTextWithoutAttention) {
  const auto without_limit = [](Json json) {
    json.erase("max_seq_len");
    return config_of(json).max_seq_len;
  };
  const Json mixers = own({{"layers", {"delta", "conv"}}});
  for (Json json : {mixers, own({{"layers", "mamba"}}), cells("gru"), cells("dense", {{"context", 3}})}) {
    json.erase("n_heads");
    if (json["layers"] != "gru" && json["layers"] != "dense") json["n_state_heads"] = 4;
    if (json["layers"] == "mamba") json.erase("n_state_heads");
    EXPECT_EQ(without_limit(json), kNoContextLimit) << json;
  }
  for (Json json :
       {own(Json::object()), own({{"layers", {"conv", "attention"}}}), cells("lstm", {{"positions", "learned"}}),
        cells("gru", {{"positions", "sinusoidal"}}), cell_pair("gru")}) {
    try {
      without_limit(json);
      ADD_FAILURE() << json;
    } catch (const BadCheckpoint& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("max_seq_len")) << json;
    }
  }
  ThreadPool pool(2);
  Json config = cells("lstm");
  config.erase("max_seq_len");
  const ScratchFolder folder;
  init_checkpoint(config, "test", folder / "m", DType::f32, 7, pool);
  const Checkpoint checkpoint = load_checkpoint(folder / "m");
  const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 50);
  EXPECT_TRUE(same_bits(chunked_logits_of(*checkpoint.model, ids, 7), logits_of(*checkpoint.model, ids)));
}

/// One projection to keys and values, keys and values of earlier layers, per-layer embeddings.
TEST(OwnFamily, HasMechanismsOfGemma) {
  ThreadPool pool(2);
  const Json json = own({{"window", 8},
                         {"full_every", 2},
                         {"n_kv_heads", 2},
                         {"values_are_keys", true},
                         {"n_shared_kv_layers", 2},
                         {"per_layer_width", 6},
                         {"per_layer_vocab_size", 200},
                         {"activation", "gelu_pytorch_tanh"}});
  const ScratchFolder folder;
  init_checkpoint(json, "test", folder / "m", DType::f32, 7, pool);
  const Checkpoint checkpoint = load_checkpoint(folder / "m");
  const ModelConfig& config = checkpoint.model->config();
  EXPECT_EQ(config, config_of(json));
  EXPECT_EQ(attention_of(config, 1)->kv_layer, std::nullopt);
  EXPECT_EQ(attention_of(config, 2)->kv_layer, 0);
  EXPECT_EQ(attention_of(config, 3)->kv_layer, 1);
  ASSERT_TRUE(config.per_layer);
  EXPECT_EQ(config.per_layer->vocab_size, 200);
  EXPECT_FLOAT_EQ(config.per_layer->projection_scale, 0.125F);
  // of eight matrices of 32 × 64 for keys and values, two are left
  const Json plain = own({{"n_kv_heads", 2}});
  const std::int64_t embeddings = 200 * 24 + 24 * 64 + 6 + 4 * (2 * 6 * 64 + 64);
  EXPECT_EQ(count_params(config), count_params(config_of(plain)) - 6 * 32 * 64 + embeddings);
  const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 40);
  const std::vector<float> whole = logits_of(*checkpoint.model, ids);
  EXPECT_TRUE(same_bits(chunked_logits_of(*checkpoint.model, ids, 5), whole));
  const auto refusal_of = [&](const Json& changes) -> std::string {
    Json changed = json;
    changed.update(changes);
    try {
      config_of(changed);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal_of({{"n_shared_kv_layers", 3}}), testing::HasSubstr("n_shared_kv_layers"));
  EXPECT_THAT(refusal_of({{"value_dim", 8}}), testing::HasSubstr("values_are_keys"));
  EXPECT_THAT(refusal_of({{"n_experts", 4}, {"top_k", 2}}), testing::HasSubstr("per_layer_width"));
  EXPECT_THAT(refusal_of({{"encoder", Json::object()}}), testing::HasSubstr("n_shared_kv_layers"));
}

/// Any value of any key is read or refused by an error, as in hostile_config_test.cpp for published families.
TEST(OwnFamily, SurvivesAnyValueOfAnyKey) {
  const Json additive = {{"attention", "additive"}, {"d_attention", 4}, {"bridge", "linear"}, {"d_hidden", 6}};
  for (const Json& good : {nano(), much(), cells("rnn", {{"activation", "relu"}, {"d_hidden", 6}}),
                           cells("dense", {{"context", 3}, {"pad_token_id", 2}, {"d_hidden", 4}}),
                           cell_pair("gru", additive, {{"bidirectional", true}})}) {
    for (const auto& [key, value] : good.items()) {
      for (const char* bad : {"null", "\"x\"", "-1", "0", "1", "3", "0.5", "1e300", "-1e300", "1e-300", "true", "[]",
                              "{}", "2147483647", "9223372036854775807", "18446744073709551615"}) {
        Json json = good;
        json[key] = Json::parse(bad);
        if (key == "n_layers" && json[key].is_number() && json[key] > 100) continue;  // read, and large
        try {
          config_of(json);
        } catch (const InternalError& e) {
          FAIL() << key << " " << bad << ": " << e.what();
        } catch (const Error&) {
        }
      }
    }
  }
}

}  // namespace
}  // namespace vitrine::test
