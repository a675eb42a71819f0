// llama2.c's legacy checkpoints. Source: karpathy/llama2.c, export.py (legacy_export) and run.c (memory_map_weights).
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/family.h"
#include "checkpoint/formats.h"
#include "checkpoint/names.h"

namespace vitrine {
namespace {

struct Header {
  std::int32_t dim, hidden_dim, n_layers, n_heads, n_kv_heads;
  std::int32_t vocab_size;  // negative: the head is not tied
  std::int32_t seq_len;
};
static_assert(sizeof(Header) == 28);

constexpr std::int32_t kBos = 1;
constexpr std::int32_t kEos = 2;

std::optional<Header> read_header(const MappedFile& file) {
  Header h;
  if (file.bytes().size() < sizeof h) return std::nullopt;
  std::memcpy(&h, file.bytes().data(), sizeof h);
  const bool plausible = h.dim > 0 && h.hidden_dim > 0 && h.n_layers > 0 && h.n_layers <= 10000 && h.n_heads > 0 &&
                         h.n_kv_heads > 0 && h.seq_len > 0 && h.vocab_size != 0 && h.vocab_size != INT32_MIN &&
                         h.dim % h.n_heads == 0 && h.n_heads % h.n_kv_heads == 0 && h.dim / h.n_heads % 2 == 0 &&
                         h.dim / h.n_heads <= kMaxHeadDim;
  return plausible ? std::optional(h) : std::nullopt;
}

ModelConfig config_of(const Header& h) {
  ModelConfig model;
  model.d_model = h.dim;
  model.vocab_size = std::abs(h.vocab_size);
  model.max_seq_len = h.seq_len;
  model.head.tied = h.vocab_size > 0;
  const NormConfig norm{NormConfig::Kind::rms, 1e-5f, 0.0f, false};
  AttentionConfig attention;
  attention.n_heads = h.n_heads;
  attention.n_kv_heads = h.n_kv_heads;
  attention.head_dim = h.dim / h.n_heads;
  attention.score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
  attention.rope = make_rope(10000.0, attention.head_dim, RopeConfig::Layout::interleaved, {});
  const BlockConfig block{{{attention, {norm}}, {DenseConfig{h.hidden_dim, Activation::silu, true, false}, {norm}}}};
  model.final_norm = norm;
  model.blocks.assign(static_cast<std::size_t>(h.n_layers), block);
  return model;
}

/// The tensors in the file's order: one kind after another, each for all layers. A kind with an empty `ours` is not
/// read.
struct TensorKind {
  std::string_view stored;
  std::string_view ours;  // `{l}`: the layer
  std::int64_t per_layer = 0;
  std::int64_t count = 1;
};

std::array<TensorKind, 14> kinds_of(const Header& h) {
  const std::int64_t d = h.dim, layers = h.n_layers, ff = h.hidden_dim, vocab = std::abs(h.vocab_size);
  const std::int64_t d_kv = d / h.n_heads * h.n_kv_heads;
  const std::int64_t rotations = std::int64_t{h.seq_len} * (d / h.n_heads / 2);
  return {{{"token_embedding_table", "embed.weight", vocab * d},
           {"rms_att_weight", "blocks.{l}.ln1.weight", d, layers},
           {"wq", "blocks.{l}.attn.wq.weight", d * d, layers},
           {"wk", "blocks.{l}.attn.wk.weight", d_kv * d, layers},
           {"wv", "blocks.{l}.attn.wv.weight", d_kv * d, layers},
           {"wo", "blocks.{l}.attn.wo.weight", d * d, layers},
           {"rms_ffn_weight", "blocks.{l}.ln2.weight", d, layers},
           {"w1", "blocks.{l}.mlp.w_gate.weight", ff * d, layers},
           {"w2", "blocks.{l}.mlp.w_down.weight", d * ff, layers},
           {"w3", "blocks.{l}.mlp.w_up.weight", ff * d, layers},
           {"rms_final_weight", "ln_final.weight", d},
           {"freq_cis_real", "", rotations},  // RoPE's tables: computed, not read
           {"freq_cis_imag", "", rotations},
           {"wcls", "unembed.weight", h.vocab_size < 0 ? vocab * d : 0}}};
}

/// The size in bytes of a file with this header; empty if it exceeds 63 bits.
std::optional<std::int64_t> file_bytes(const Header& h) {
  std::optional<std::int64_t> floats = 0;
  for (const TensorKind& kind : kinds_of(h)) {  // two factors of 31 bits each: per_layer cannot overflow
    const auto size = checked_mul(kind.per_layer, kind.count);
    floats = floats && size ? checked_add(*floats, *size) : std::nullopt;
  }
  const auto bytes = floats ? checked_mul(*floats, 4) : std::nullopt;
  return bytes ? checked_add(*bytes, sizeof(Header)) : std::nullopt;
}

}  // namespace

bool is_llama2c(const MappedFile& file) {
  const auto h = read_header(file);
  return h && file_bytes(*h) == static_cast<std::int64_t>(file.bytes().size());
}

Checkpoint load_llama2c(const std::shared_ptr<const MappedFile>& file) {
  const auto h = read_header(*file);
  const std::size_t size = file->bytes().size();
  if (!h) throw BadCheckpoint(file->path(), "expected a llama2.c header, got {} bytes of something else", size);
  const auto expected = file_bytes(*h);
  if (expected != static_cast<std::int64_t>(size)) {
    throw BadCheckpoint(file->path(),
                        "expected {} bytes by the llama2.c header, got {} bytes (an incomplete download?)",
                        expected ? std::to_string(*expected) : "more than 2^63", size);
  }
  const ModelConfig config = config_of(*h);
  ModelParams params = empty_params(config);

  const std::byte* at = file->bytes().data() + sizeof(Header);
  std::map<std::string, std::pair<const std::byte*, std::string>> stored;  // by our name
  for (const TensorKind& kind : kinds_of(*h)) {
    for (std::int64_t layer = 0; layer < kind.count; ++layer, at += kind.per_layer * 4) {
      stored[with_layer(kind.ours, layer)] = {at, std::string(kind.stored)};
    }
  }
  for_each_param(config, params, [&](Param& param, const std::string& name, const Shape& shape) {
    const std::int64_t cols = shape[shape.rank() - 1];
    const auto& [data, stored_name] = stored.at(name);
    param = {name, stored_name, shape, {data, DType::f32, shape.count() / cols, cols, cols, 1}};
  });

  Checkpoint result;
  result.model =
      std::make_shared<const Model>(config, std::move(params), std::vector<std::shared_ptr<const void>>{file});
  result.files = {file};
  result.description = "llama2.c checkpoint";
  result.family = "llama";
  result.published_layout = RopeConfig::Layout::halves;
  result.bos_id = kBos;
  result.stop_ids = {kBos, kEos};  // in training, BOS separates the texts
  return result;
}

}  // namespace vitrine
