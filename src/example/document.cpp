// The model of the document that the example follows, with the matrices that have survived; and tiny random models.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "example/example.h"
#include "kernels/kernels.h"
#include "model/count.h"

namespace vitrine {
namespace {

constexpr std::int64_t kWidth = 4, kTokens = 5;
constexpr double kSpread = 0.25;  // the standard deviation of the surviving numbers
const char* const kKept = "from the document";
const char* const kAbout =
    "The example follows an earlier document of which only some matrices have survived. The surviving rows are kept; "
    "the others are drawn at random from the seed. Each row states its origin.";

/// Pre-norm LayerNorm, 2 heads of 2 elements, ReLU, biases only in the norms, tied embeddings.
ModelConfig document_config() {
  const NormConfig norm{NormConfig::Kind::layer, 1e-5f, 0.0f, true};
  AttentionConfig attention;
  attention.n_heads = attention.n_kv_heads = attention.head_dim = 2;
  attention.score_scale = static_cast<float>(1 / std::sqrt(2.0));
  const BlockConfig block{{{attention, {norm}}, {DenseConfig{8, Activation::relu, false, false}, {norm}}}};
  ModelConfig config;
  config.d_model = kWidth;
  config.vocab_size = 8;
  config.max_seq_len = kTokens;
  config.embedding.position_table = true;
  config.blocks = {block, block};
  config.final_norm = norm;
  config.head.tied = true;
  return config;
}

const TrainParam& param_named(const ExampleModel& model, std::string_view name) {
  for (const TrainParam& param : model.trainable.params()) {
    if (param.name == name) return param;
  }
  throw InternalError("example", "there is no parameter {}", name);
}

void keep_row(ExampleModel& model, const std::string& name, std::int64_t row, const std::array<float, kWidth>& values) {
  std::copy(values.begin(), values.end(), param_named(model, name).value + row * kWidth);
  model.origins.push_back({name, kKept, row, 1});
}

}  // namespace

ExampleModel document_model(std::uint64_t seed) {
  ExampleModel model{Trainable(document_config(), DType::f32),
                     "The worked example: 8 words, 2 blocks",
                     {"the", "cat", "sat", "on", "dog", "mat", "ran", "and"},
                     {},
                     "seed " + std::to_string(seed) + ", in tenths",
                     {"pos_embed.weight"},
                     kAbout};
  const std::span<const TrainParam> params = model.trainable.params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::span<float> values(params[i].value, static_cast<std::size_t>(params[i].count()));
    if (params[i].shape.rank() == 1) {
      std::fill(values.begin(), values.end(), params[i].name.ends_with(".weight") ? 1.0f : 0.0f);
      model.origins.push_back({params[i].name, kKept, 0, params[i].shape[0]});
      continue;
    }
    draw_initial({0, kSpread, 3}, seed, i, 0, values);
    for (float& x : values) x = std::round(x * 10) / 10 + 0.0f;  // no −0
  }
  keep_row(model, "embed.weight", 0, {.1f, .2f, 0, .1f});
  keep_row(model, "embed.weight", 1, {.3f, .1f, .2f, 0});
  keep_row(model, "embed.weight", 5, {.1f, .4f, .2f, .3f});
  keep_row(model, "pos_embed.weight", 0, {0, 0, 0, 0});
  // The document's W_Q of block 1, head 1 has a column per query element; ours has a row.
  keep_row(model, "blocks.0.attn.wq.weight", 0, {.5f, .1f, .2f, 0});
  keep_row(model, "blocks.0.attn.wq.weight", 1, {.1f, .4f, .3f, .2f});
  return model;
}

ExampleModel random_model(const ModelConfig& config, const std::string& title, std::uint64_t seed) {
  const std::int64_t n = count_params(config);
  if (n > kMaxParams) {
    throw BadInput(title, "expected at most {} parameters, because each is written out, got {}", kMaxParams, n);
  }
  if (config.embedding.width || config.head.width) {
    throw Unsupported(title, "an embedding or a head with a width of its own is not worked out");
  }
  ThreadPool pool(1);
  InitOptions init;
  init.scheme = InitOptions::Scheme::glorot;
  init.embedding_std = 0.5 / static_cast<double>(config.embedding.scale);  // readable numbers
  return {draw_trainable(config, DType::f32, init, seed, pool, default_kernels()),
          title,
          {},
          {},
          "seed " + std::to_string(seed),
          {}};
}

}  // namespace vitrine
