// Architectures of GGUF files: which family an architecture is, and what its keys and tensors are called.
//
// Keys stand for words of the family's config.json, so a config is read by the family's one reader, and what its words
// cannot say is refused. Three things differ by format, for all families:
//   norms    weights are what a row is multiplied by; where config.json means 1 + w, the 1 is added already
//   RoPE     an architecture has one layout of the pairs; rows of q and k are permuted to it when a file is made
//   tying    there is no flag: without output.weight the head is the embedding
// Sources: ggml-org/llama.cpp, gguf-py/gguf/constants.py, src/llama-arch.cpp, src/llama-model.cpp, conversion scripts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf.h"
#include "checkpoint/bind_tensors.h"
#include "checkpoint/family.h"
#include "checkpoint/load.h"

namespace vitrine {

struct GgufKey {
  /// A size_or_none says with a 0 what its absence says.
  enum class Kind : std::uint8_t { size, size_or_none, number, flag };

  std::string_view name;  ///< Behind `llama.`.
  std::string_view word;  ///< Ours, where the family's table of keys has it (`d_model`), else config.json's.
  Kind kind = Kind::size;
  bool required = false;
  std::optional<double> usual{};  ///< What the key's absence means: then it is not written, older programs lack it.
};

struct GgufArchitecture {
  std::string_view name;                    ///< general.architecture
  std::string_view family;                  ///< model_type of the family whose config its keys say.
  std::vector<std::string_view> is_also{};  ///< Further families that files of this architecture are made of.
  RopeConfig::Layout layout = RopeConfig::Layout::halves;  ///< Of the rows of q and k.
  std::vector<GgufKey> keys{};                             ///< Besides those that all have.
  bool fused_qkv = false;                   ///< Written with attn_qkv in place of attn_q, attn_k, attn_v.
  bool has_experts = false;                 ///< Of two entries of one name, the one for expert_count > 0.
  bool may_lack_rope = false;               ///< Where rope.scaling.finetuned is false, heads are not turned at all.
  std::vector<std::string_view> ignored{};  ///< Keys that say nothing about the models of this architecture.
  std::string_view rotary_fraction{};       ///< config.json's word for the part of a head that is turned; empty: all.
  std::vector<TensorRule> tensors{};        ///< In place of those of the common names that hold the same parameters.
  /// Adds words to the config that no key says and that follow from others and from the tensors; null: none.
  void (*complete)(Json& config, const StoredTensors& tensors) = nullptr;
};

std::span<const GgufArchitecture> all_gguf_architectures();
/// The architecture that a file names. Throws BadCheckpoint where it names none, Unsupported for one that is not known.
const GgufArchitecture& gguf_architecture(const GgufMetadata& metadata);
/// All keys: those that every architecture has, and its own.
std::vector<GgufKey> gguf_keys(const GgufArchitecture& architecture);

/// How the name of a shared expert's gate ends: one row, which files hold as a vector.
constexpr std::string_view kSharedGateName = ".ffn_gate_inp_shexp.weight";

/// Of a scaling whether training knew of it; of architectures that may_lack_rope, whether heads are turned.
constexpr const char* kRopeFinetuned = "rope.scaling.finetuned";

/// LongRoPE's divisors within and beyond the original context.
constexpr const char* kRopeWithin = "rope_factors_short.weight";
constexpr const char* kRopeBeyond = "rope_factors_long.weight";

/// What the architecture calls its tensors.
std::vector<TensorRule> gguf_tensor_rules(const GgufArchitecture& architecture);

/// The family whose config the architecture's keys say, with GGUF's names of tensors in place of its own.
Family gguf_family(const GgufArchitecture& architecture);

/// The config that keys and tensors say. Throws Unsupported, by name, for keys of the architecture that are not known
/// (but those of `options`), BadCheckpoint for values that make no sense.
ModelConfig read_gguf_config(const GgufArchitecture& architecture, const GgufMetadata& metadata,
                             const StoredTensors& tensors, const LoadOptions& options);

}  // namespace vitrine
