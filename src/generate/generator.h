// Continuing texts: prefill, decode, stop reasons; several sequences in one forward.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/result.h"
#include "generate/sampler.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

struct GenerateRequest {
  std::vector<std::int32_t> prompt;  ///< At least one id.
  std::int64_t max_tokens = 128;
  SamplingConfig sampling;
  std::uint64_t seed = 0;
  std::uint64_t sequence = 0;             ///< Tells sequences of one seed apart; not the place in a batch.
  std::vector<std::int32_t> stop_ids;     ///< Any of them ends the text and is not part of it.
  std::vector<std::string> stop_strings;  ///< Need a tokenizer.
  int n_logprobs = 0;                     ///< Log-probabilities to report for each token; 0: none.
};

struct GenerateTimings {
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
};

/// What generation runs on. All pointers are borrowed; only `interrupt` and `tokenizer` may be null.
struct GenerateContext {
  const Model* model = nullptr;
  ThreadPool* pool = nullptr;
  const Kernels* kernels = nullptr;
  const Tokenizer* tokenizer = nullptr;
  DType kv_dtype = DType::f32;
  const std::atomic<bool>* interrupt = nullptr;
};

/// Receives text as it comes: whole characters of request `request`.
using StreamText = std::function<void(std::size_t request, const std::string& text)>;

/// Continues all requests together: each round is one forward, in which a sequence has a chunk of its prompt or its
/// last token. A sequence's tokens do not depend on the others. A text ends at a stop id, a stop string, max_tokens or
/// the model's context. Throws BadInput for prompts that are empty, hold unknown ids or leave no room in the context
/// (naming both numbers); Interrupted.
std::vector<GenerateResult> generate(const GenerateContext& context, std::span<const GenerateRequest> requests,
                                     const StreamText& stream = {}, GenerateTimings* timings = nullptr);

/// The longest chunk of a prompt that goes into one forward: it bounds the memory of activations.
constexpr std::int64_t kPrefillChunk = 256;

}  // namespace vitrine
