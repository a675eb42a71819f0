#include "train/memory.h"

#include <algorithm>

#include "model/count.h"

namespace vitrine {
namespace {

constexpr double kFloat = 4;
constexpr double kLogitElements = 0x1p24;  // of a group

double as_double(std::int64_t n) { return static_cast<double>(n); }

/// Elements a token that a feed-forward sublayer keeps: the pre-activations, and what w_down reads.
double dense_elements(const DenseConfig& c) { return as_double(c.d_ff) * (c.gated ? 3 : 2); }

double ffn_elements(const BlockConfig& c) {
  if (const auto* dense = std::get_if<DenseConfig>(&c.ffn)) return dense_elements(*dense);
  const auto& moe = std::get<MoeConfig>(c.ffn);
  const double shared = moe.shared ? dense_elements(*moe.shared) + 1 : 0;
  return 2 * as_double(moe.n_experts) + as_double(moe.top_k) * dense_elements(moe.expert) + shared;
}

/// Elements a token that one block keeps for its backward pass.
double block_elements(const ModelConfig& config, const BlockConfig& c) {
  const double d = as_double(config.d_model), heads = as_double(c.attention.n_heads);
  const double d_q = heads * as_double(c.attention.head_dim);
  const double d_kv = as_double(c.attention.n_kv_heads * c.attention.head_dim);
  const BlockNorms& n = c.norms;
  double elements = 2 * d;  // the stream before attention, and before the FFN
  for (const auto* norm : {&n.attn_pre, &n.ffn_pre}) elements += *norm ? d + 1 : 0;
  for (const auto* norm : {&n.attn_post, &n.ffn_post}) elements += *norm ? d + 1 : 0;  // what they were given
  elements += d_q + 2 * d_kv;
  if (c.attention.qk_norm) elements += d_q + d_kv + heads + as_double(c.attention.n_kv_heads);
  elements += d_q + 2 * heads;  // z, maximum and sum
  return elements + ffn_elements(c);
}

}  // namespace

std::vector<MemoryPart> training_memory(const ModelConfig& config, const TrainWorkload& w) {
  const double n_params = as_double(count_params(config)), d = as_double(config.d_model);
  const double rows = as_double(w.batch) * as_double(w.seq_len), vocab = as_double(config.vocab_size);
  double kept = 2 * d + 1, widest = 0;  // the final norm's input and output
  for (const BlockConfig& block : config.blocks) {
    const double elements = block_elements(config, block);
    kept += w.recompute ? d : elements;
    widest = std::max(widest, elements);
  }
  if (w.recompute) kept += widest;
  const double logits = std::max(vocab, std::min(rows * vocab, kLogitElements));
  std::vector<MemoryPart> parts = {
      {"parameters", n_params * as_double(size_of(w.dtype))},
      {"masters", w.dtype == DType::f32 ? 0 : n_params * kFloat},
      {"gradients", n_params * kFloat},
      {"moments", n_params * kFloat * n_moments(w.optimizer)},
      {"activations", rows * kept * kFloat},
      {"logits", 2 * logits * kFloat},
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
