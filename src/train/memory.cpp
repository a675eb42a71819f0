#include "train/memory.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/count.h"

namespace vitrine {
namespace {

constexpr double kFloat = 4;
constexpr double kLogitElements = 0x1p24;  // of a group
constexpr double kProgram = 16e6;          // code, tables, threads

double as_double(std::int64_t n) { return static_cast<double>(n); }

double norm_elements(const std::optional<NormConfig>& norm, double d) { return norm ? 2 * d + 2 : 0; }

/// Elements a token of a feed-forward sublayer: pre-activations, what w_down reads, what it makes.
double dense_elements(const DenseConfig& c, double d) { return as_double(c.d_ff) * (c.gated ? 3 : 2) + d; }

double ffn_elements(const BlockConfig& c, double d) {
  if (const auto* dense = std::get_if<DenseConfig>(&c.ffn)) return dense_elements(*dense, d);
  const auto& moe = std::get<MoeConfig>(c.ffn);
  const double k = as_double(moe.top_k);
  const double shared = moe.shared ? dense_elements(*moe.shared, d) + 2 * d + 2 : 0;
  // router, shares; each choice's rows, what becomes of them, and that once more by rank; their sum
  return 2 * as_double(moe.n_experts) + 2 * k + 1 + k * (1 + 2 * d + dense_elements(moe.expert, d)) + d + shared;
}

/// Elements a token that one block makes: each op's result stays, for its own backward or the next op's.
double block_elements(const ModelConfig& config, const BlockConfig& c, bool drops) {
  const AttentionConfig& a = c.attention;
  const double d = as_double(config.d_model), d_q = as_double(a.n_heads * a.head_dim);
  const double d_kv = as_double(a.n_kv_heads * a.head_dim);
  const BlockNorms& n = c.norms;
  double elements = norm_elements(n.attn_pre, d) + norm_elements(n.attn_post, d) + norm_elements(n.ffn_pre, d) +
                    norm_elements(n.ffn_post, d);
  elements += d_q + 2 * d_kv;  // q, k, v
  if (a.qk_norm) elements += 2 * (d_q + d_kv) + 2 * as_double(a.n_heads + a.n_kv_heads);
  if (a.rope) elements += d_q + d_kv + 3 * as_double(a.rope->dim);  // turned; angles, sines and cosines of both
  elements += d_q + d;                                              // z and what wo makes of it
  elements += 2 * d;                                                // the stream behind each sublayer
  if (c.residual_scale != 1.0f) elements += 2 * d;
  if (drops) elements += 2 * d;
  return elements + ffn_elements(c, d);
}

/// Elements a token of the gradients and of the ops' own room that stand at once within the backward of one block.
double backward_elements(const ModelConfig& config, const BlockConfig& c) {
  const AttentionConfig& a = c.attention;
  const double d = as_double(config.d_model), d_q = as_double(a.n_heads * a.head_dim);
  double wide = 0;
  if (const auto* dense = std::get_if<DenseConfig>(&c.ffn)) {
    wide = as_double(dense->d_ff) * (dense->gated ? 3 : 2);
  } else {
    const auto& moe = std::get<MoeConfig>(c.ffn);
    wide = as_double(moe.top_k) * (2 * d + as_double(moe.expert.d_ff) * (moe.expert.gated ? 3 : 2));
  }
  return 4 * d + 3 * d_q + wide;
}

}  // namespace

std::vector<MemoryPart> training_memory(const ModelConfig& config, const TrainWorkload& w) {
  const double n_params = as_double(count_params(config)), d = as_double(config.d_model);
  const double rows = as_double(w.batch) * as_double(w.seq_len), vocab = as_double(config.vocab_size);
  double kept = 3 * d + 2;  // the embedding, the final norm
  if (config.embedding.learned_positions) kept += 2 * d;
  if (w.dropout) kept += d;
  double widest = 0, backward = 0;
  for (const BlockConfig& block : config.blocks) {
    const double elements = block_elements(config, block, w.dropout);
    kept += w.recompute ? d : elements;
    widest = std::max(widest, elements);
    backward = std::max(backward, backward_elements(config, block));
  }
  if (w.recompute) kept += widest;
  const double group = std::max(1.0, std::min(rows, std::floor(kLogitElements / vocab)));
  double per_logit = 3;  // logits, their gradients, and those in the order in which a product reads them
  if (config.head.scale != 1.0f) per_logit += 2;
  if (config.head.softcap) per_logit += 2;
  std::vector<MemoryPart> parts = {
      {"parameters", n_params * as_double(size_of(w.dtype))},
      {"masters", w.dtype == DType::f32 ? 0 : n_params * kFloat},
      {"gradients", n_params * kFloat * as_double(w.gradient_buffers)},
      {"moments", n_params * kFloat * n_moments(w.optimizer)},
      {"activations", rows * (kept + backward) * kFloat},
      {"logits", group * (per_logit * vocab + 3 * d) * kFloat},
      {"program", kProgram},
  };
  std::erase_if(parts, [](const MemoryPart& part) { return part.bytes == 0; });
  return parts;
}

double training_flops_per_token(const ModelConfig& config) {
  double weights = config.head.tied ? as_double(config.vocab_size * config.d_model) : 0;
  for_each_shape(config, [&](const std::string& name, const Shape& shape) {
    const bool is_looked_up = name == "embed.weight" || name == "pos_embed.weight";
    if (shape.rank() < 2 || is_looked_up) return;
    double part = 1;
    if (name.find(".experts.") != std::string::npos) {
      for (const BlockConfig& block : config.blocks) {
        if (const auto* moe = std::get_if<MoeConfig>(&block.ffn))
          part = as_double(moe->top_k) / as_double(moe->n_experts);
      }
    }
    weights += part * as_double(shape.count());
  });
  return 6 * weights;
}

double total_bytes(const std::vector<MemoryPart>& parts) {
  double sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

}  // namespace vitrine
