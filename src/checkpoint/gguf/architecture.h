// Architectures of GGUF files: the family of each, and the names of its keys and tensors.
//
// Each key corresponds to a key of the family's config.json, so that the family's only reader reads the config. What
// config.json cannot express is rejected. Three things differ by format, in all families:
//   norms    the file holds the factors of a row: where the family stores w for 1 + w, the 1 has been added
//   RoPE     an architecture has one layout of the pairs; the rows of q and k are permuted to it when a file is made
//   tying    there is no flag: without output.weight the head is the embedding
// Sources: ggml-org/llama.cpp, gguf-py/gguf/constants.py, src/llama-arch.cpp, src/llama-model.cpp, conversion scripts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf.h"
#include "base/gguf_writer.h"
#include "checkpoint/bind_tensors.h"
#include "checkpoint/family.h"
#include "checkpoint/load.h"

namespace vitrine {

struct GgufKey {
  /// For size_or_none, 0 means the same as an absent key. layers: whether each layer has a window, or a size n for
  /// which every n-th layer has none. The usual n is written as the flags. layer_flags: always the flags. layer_ropes:
  /// whether each layer has RoPE, if one has none. layer_sizes: a size, or a list of one for each layer. count: a whole
  /// number from 0; written as 0 if it is required and the config has none. layer_counts: a whole number from 0 for
  /// each layer, or one for all. layer_states: whether each layer has a state.
  enum class Kind : std::uint8_t {
    size,
    size_or_none,
    number,
    flag,
    layers,
    layer_flags,
    layer_ropes,
    layer_sizes,
    count,
    layer_counts,
    layer_states
  };

  std::string_view name;  ///< After `llama.`.
  std::string_view word;  ///< Our name, if the family's table of keys has it (`d_model`), else config.json's key.
  Kind kind = Kind::size;
  bool required = false;
  std::optional<double>
      usual{};  ///< The value that an absent key means. Sizes are not written then: older programs do not know the key.
};

struct GgufArchitecture {
  std::string_view name;                    ///< general.architecture
  std::string_view family;                  ///< model_type of the family whose config its keys hold.
  std::vector<std::string_view> is_also{};  ///< Further families that are written as this architecture.
  /// Of several entries of a family, whether it is written as this one; null: as the first.
  bool (*written_for)(const ModelConfig& config) = nullptr;
  RopeConfig::Layout layout = RopeConfig::Layout::halves;  ///< Of the rows of q and k.
  std::vector<GgufKey> keys{};                             ///< In addition to the shared ones.
  bool fused_qkv = false;                    ///< Written with attn_qkv in place of attn_q, attn_k, attn_v.
  std::string_view chosen_by{};              ///< Of two entries of one name, the one for files where this key is not 0,
  std::optional<std::int64_t> chosen_for{};  ///< or has this value.
  bool splits_kv_b = false;                  ///< attn_k_b and attn_v_b in place of attn_kv_b.
  /// rope_freqs.weight is of full layers alone, whose RoPE is proportional; `complete` reads it.
  bool has_rope_by_kind = false;
  /// In layers that read the keys and values of others: maps to them, which files have and nothing reads; empty: none.
  std::vector<std::string_view> unread{};
  /// The parts of a rotated head that the positions of a text, a row and a column turn: three thirds.
  bool has_rope_sections = false;
  /// Heads of a delta net with the same key are not next to each other: head h has key h modulo the number of keys.
  bool alternates_heads = false;
  /// The factors of embeddings, projections and logits are in the weights.
  bool folds_factors = false;
  bool has_gate_cutoffs = false;  ///< activation_sparsity_scale has the gate_cutoff of each layer; −∞: none.
  /// Keys, without the architecture before them, whose lists have a number for each layer: KEY holds what a rule calls
  /// blk.{l}.KEY, a tensor of one element.
  std::vector<std::string_view> numbers_of_layers{};
  bool tokenizer_keeps_merges = false;      ///< GgufTokenizerNeeds::keeps_merges
  bool may_lack_rope = false;               ///< If rope.scaling.finetuned is false, there is no RoPE.
  std::vector<std::string_view> ignored{};  ///< Keys without effect in models of this architecture.
  std::string_view rotary_fraction{};       ///< config.json's key for the part of a head that RoPE rotates; empty: all.
  std::vector<TensorRule> tensors{};        ///< They replace the common rules that hold the same parameters.
  /// Adds keys of config.json that no GGUF key holds and that follow from others and from the tensors; null: none.
  void (*complete)(Json& config, const StoredTensors& tensors) = nullptr;
  /// Changes the config that the family has read: what tensors and keys of tokens decide; null: nothing.
  void (*adapt)(ModelConfig& model, const GgufMetadata& metadata, const StoredTensors& tensors) = nullptr;
  /// What llama.cpp would leave out or assume, although the file can hold it; empty: nothing. Null: never anything.
  std::string_view (*misread)(const ModelConfig& config) = nullptr;
  bool is_encoder = false;  ///< Reads both ways, and has no head of tokens.
  bool has_dense = false;   ///< dense_2 and dense_3 map the vectors of texts.
  /// The key with the name of the feed-forward's activation, here and in config.json; empty: the activation is fixed.
  std::string_view activation{};
};

std::span<const GgufArchitecture> all_gguf_architectures();
/// Parts of all: those with routers and scaled queries, with latent attention, with several streams, with sinks in
/// layers with windows, and with mixers that have a state: alone, delta nets, and together with attention.
std::vector<GgufArchitecture> expert_architectures();
std::vector<GgufArchitecture> latent_architectures();
std::vector<GgufArchitecture> stream_architectures();
std::vector<GgufArchitecture> sink_architectures();
std::vector<GgufArchitecture> state_architectures();
std::vector<GgufArchitecture> delta_architectures();
std::vector<GgufArchitecture> hybrid_architectures();
/// Encoders.
std::vector<GgufArchitecture> encoder_architectures();
/// That with xIELU.
GgufArchitecture xielu_architecture();
/// The names of latent attention's tensors. Files have attn_k_b and attn_v_b, or attn_kv_b.
std::vector<TensorRule> latent_tensors();
/// Keys of Granite's multipliers.
std::vector<GgufKey> granite_keys();
/// Keys that most architectures share, with RMSNorm or with LayerNorm.
std::vector<GgufKey> rms_and_rope_keys();
std::vector<GgufKey> layer_norm_and_rope_keys(std::string_view eps);
std::vector<GgufKey> with_keys(std::vector<GgufKey> keys, const std::vector<GgufKey>& more);
/// The architecture of a file. Throws BadCheckpoint if the file names none, Unsupported for an unknown one.
const GgufArchitecture& gguf_architecture(const GgufMetadata& metadata);
/// All keys of an architecture: the shared ones, unless it has its own of that name, and its own.
std::vector<GgufKey> gguf_keys(const GgufArchitecture& architecture);

/// The standard deviations above the mean that the gates of each layer keep.
constexpr const char* kGateCutoffs = "activation_sparsity_scale";

/// The end of the name of a shared expert's gate: one row, which files hold as a vector.
constexpr std::string_view kSharedGateName = ".ffn_gate_inp_shexp.weight";

/// The end of the name of a router's correction, which some files hold as `[1, n]`.
constexpr std::string_view kCorrectionName = ".exp_probs_b.bias";

/// The ends of the names of a mixer's rates and skips, which some files hold as `[n, 1]`, of its norm by group,
/// `[groups, n]`, and of the matrices that are not quantized: the convolutions'.
constexpr std::string_view kRatesName = ".ssm_a", kSkipName = ".ssm_d", kGroupNormName = ".ssm_norm.weight";
constexpr std::string_view kConvolutionNames[] = {".ssm_conv1d.weight", ".ssm_conv1d_q.weight", ".ssm_conv1d_k.weight",
                                                  ".ssm_conv1d_v.weight", ".shortconv.conv.weight"};

/// The ends of the names of latent attention's products by head, `[head, out, in]` in files, and of both in one.
constexpr std::string_view kKeysByHead = ".attn_k_b.weight", kValuesByHead = ".attn_v_b.weight";
constexpr std::string_view kKeysAndValues = ".attn_kv_b.weight";

constexpr const char* kPositionTable = "position_embd.weight";
constexpr const char* kTypeTable = "token_types.weight";

/// Whether the model was trained with the scaling; in architectures that may_lack_rope, whether there is RoPE.
constexpr const char* kRopeFinetuned = "rope.scaling.finetuned";

constexpr const char* kRopeSections = "rope.dimension_sections";

/// Divisors of RoPE's frequencies; the largest is that of pairs that do not rotate.
constexpr const char* kRopeDivisors = "rope_freqs.weight";
constexpr float kNoRotation = 1e30f;

/// LongRoPE's divisors within and beyond the original context.
constexpr const char* kShortFactors = "rope_factors_short.weight";
constexpr const char* kLongFactors = "rope_factors_long.weight";

/// Numbers above 0, one for each pair of elements of a head. Throws BadCheckpoint.
std::vector<float> read_rope_factors(const StoredTensor& tensor, std::string_view name);

/// The names of the architecture's tensors.
std::vector<TensorRule> gguf_tensor_rules(const GgufArchitecture& architecture);

/// The family of the architecture, with GGUF's names of tensors in place of its own.
Family gguf_family(const GgufArchitecture& architecture);

/// Sets all weight_offsets to 0: norms in GGUF include the offset.
void fold_weight_offsets(ModelConfig& config);
/// Mixers with a state are in the form of files: rates of decay are A, not log(−A), delta nets' projections are joined,
/// and heads in the order of the architecture's. Factors that the weights include are 1.
void set_file_form(const GgufArchitecture& architecture, ModelConfig& config);
/// Whether a tied head is written apart, as its factor is not that of the embeddings.
bool unties_head(const GgufArchitecture& architecture, const ModelConfig& config);

struct GgufConfig {
  ModelConfig model;
  std::optional<RopeConfig::Layout> published_layout;  ///< As in Checkpoint.
  std::int64_t n_further_layers =
      0;  ///< Of the file, after the model's: they predict further tokens, and are not read.
};

/// The config of a file. Throws Unsupported for unknown keys of the architecture, except those that `options` allow,
/// and BadCheckpoint for impossible values.
GgufConfig read_gguf_config(const GgufArchitecture& architecture, const GgufMetadata& metadata,
                            const StoredTensors& tensors, const LoadOptions& options);

/// The architecture under which this model is written. Throws Unsupported if there is none.
const GgufArchitecture& gguf_architecture_of(const Checkpoint& checkpoint, std::string_view where);
/// The first under which models of this family are written.
const GgufArchitecture& gguf_architecture_of(std::string_view family, std::string_view where);

/// If the architecture has no attention windows, but the config does: shortens the context to the smallest window,
/// within which attention is the same without them, and removes them. Returns the new context if it is shorter.
std::optional<std::int64_t> leave_out_windows(const GgufArchitecture& architecture, ModelConfig& config);

/// The architecture's keys for `config`.
GgufKeys gguf_config_keys(const GgufArchitecture& architecture, const ModelConfig& config);

/// Numbers of the config that GGUF stores as a tensor.
struct RopeTensor {
  std::string name;
  std::vector<float> values;
};

/// Divisors of plain RoPE frequencies, for scalings that have no keys.
std::vector<RopeTensor> rope_tensors(const ModelConfig& config);

/// Throws Unsupported if a file with this header (keys and list of tensors) and these tensors would be read as a model
/// other than `config`, apart from what differs by format.
void check_round_trip(const GgufArchitecture& architecture, const std::string& header,
                      const std::vector<RopeTensor>& rope, ModelConfig config, std::string_view where);

}  // namespace vitrine
