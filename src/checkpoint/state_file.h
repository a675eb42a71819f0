// State files: what the layers of a model keep of a text that has been read, in place of the text.
//
//   safetensors, float32
//     blocks.L.SLOT.state        as a row of hook_ssm_carry: [H, dk, dv] of delta nets, [H, P, N] of Mamba-2, [C, N] of
//     Mamba-1 blocks.L.SLOT.conv         [k − 1, C]: the last inputs of the convolution, oldest first blocks.L.attn.k,
//     .v        [n, heads, size]: of the n last tokens, those that the layer keeps. Latent attention
//                                keeps one row of a token, as .k
//   metadata
//     length                     the number of tokens that have been read
//     model                      digest_of() the config
//     kv                         the types of keys and values; absent: f32. Heads of integers are rotated
//                                (KvKernels::rotate)
//     planned_length             what determines RoPE's frequencies (longest_planned_length()); absent: the context
//
// SLOT is SublayerNames::prefix. What continues from a file has the bits of what reads the whole text at once.
#pragma once

#include <memory>
#include <string>

#include "cache/kv_cache.h"
#include "checkpoint/safetensors.h"
#include "kernels/kernels.h"
#include "model/model.h"

namespace vitrine {

/// Throws Unsupported if no file can hold what the layers keep: with an encoder, recurrent layers, or layers that read
/// later tokens. `where` names the option.
void check_has_state_file(const ModelConfig& config, const char* where);

/// Writes a state file, which exists once write() has returned.
class StateWriter {
 public:
  /// Throws as FileWriter and check_has_state_file() do.
  StateWriter(const std::string& path, const Model& model);
  /// `cache`: of the model, with at least one token. Throws Unsupported if integers of keys or values are so small that
  /// floats do not say which they are.
  void write(const KvCache& cache, const Kernels& kernels);

 private:
  const Model& model_;
  std::string path_;
  SafetensorsWriter file_;
};

/// A cache that has the tokens of the file at `path`, and space for `n_more`, or up to the end of the context. Throws
/// BadInput, naming what does not fit, for a file of another model or other types of keys and values, with a missing,
/// extra, misshapen or non-finite tensor, or read for a shorter text; Unsupported as check_has_state_file() does.
std::shared_ptr<KvCache> read_state(const std::string& path, const Model& model, std::int64_t n_more, KvTypes types,
                                    const Kernels& kernels, KvMemory& memory = system_kv_memory());

}  // namespace vitrine
