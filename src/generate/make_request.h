// Makes what the engine takes from the options of a caller and the defaults of a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "constrain/cache.h"
#include "generate/engine.h"
#include "generate/options.h"

namespace vitrine {

/// What a checkpoint and its tokenizer contribute to requests.
struct RequestDefaults {
  SamplingOverrides sampling{};          ///< generation_config.json
  SearchDefaults search{};               ///< the same
  std::vector<std::int32_t> stop_ids{};  ///< Any of them ends a text.
  std::optional<std::int32_t> bos{};     ///< Of the tokenizer, else of the checkpoint.
  std::optional<std::int32_t> start{};   ///< The first token that a decoder with an encoder reads.
  bool has_encoder = false;
  const Tokenizer* tokenizer = nullptr;  ///< Borrowed; may be null.
  /// Of the tokenizer; null without one.
  std::shared_ptr<constrain::ConstraintCache> constraints{};
  SamplingConfig otherwise{};     ///< For what neither the caller nor the checkpoint sets,
  std::int64_t max_tokens = 128;  ///< also here.
};
RequestDefaults defaults_of(const Checkpoint& checkpoint, const Tokenizer* tokenizer);

/// What ends a text; of one that fills in the middle of another, also the tokens for that.
std::vector<std::int32_t> stop_ids_of(const RequestDefaults& model, bool fills);
/// The ids of a text; of one that has no token BOS, if there is one.
std::vector<std::int32_t> or_bos(std::vector<std::int32_t> ids, const RequestDefaults& model);
/// The same. Throws BadInput, naming `where`, if there is no BOS either.
std::vector<std::int32_t> ids_or_bos(std::vector<std::int32_t> ids, const RequestDefaults& model, const char* where);
/// What the decoder of an encoder–decoder reads for a text: the start symbol, then the text. Throws BadInput if there
/// is no start symbol.
std::vector<std::int32_t> decoder_ids(const RequestDefaults& model, const std::string& text, SpecialTokens policy);
/// Throws BadInput if there is none.
std::int32_t start_id(const RequestDefaults& model);

/// The texts of the sampler's options as it reads them. The sequences of a request share them.
struct SamplerTexts {
  std::shared_ptr<const DryBreakers> dry_breakers{};  ///< Null if DRY is off.
  std::shared_ptr<const BannedStrings> banned{};      ///< Null if there are none.
  std::shared_ptr<const InfillChoice> infill{};       ///< Null without this step.
};
/// Throws BadInput for texts without a tokenizer, and for too many of them.
SamplerTexts sampler_texts_of(const RequestDefaults& model, const GenerateOptions& caller);

/// The constraint that the options name. Throws BadInput for more than one.
std::optional<constrain::Source> constraint_of(const GenerateOptions& options);

struct SamplingChoice {
  SamplingConfig config;
  std::vector<std::string> from_checkpoint;  ///< Names of the values that generation_config.json gave.
};

/// Each value is the caller's if given, else the checkpoint's, else the default. If the checkpoint's config is greedy,
/// tokens are sampled only if the caller gives a sampling option.
SamplingChoice choose_sampling(const GenerateOptions& caller, const RequestDefaults& model);

/// The request to continue `ids`, or, in an encoder–decoder, to write what follows from `ids`, which the encoder reads:
/// there the prompt is the start symbol, followed by the prefix. If the caller wants to sample, or sets `beam`, the
/// checkpoint's beams do not apply. With `suffix`, `ids` are those of fim_prompt(), and the tokens for filling in the
/// middle end the text, too. `from_checkpoint` receives the names of the values of SamplingChoice.
/// `texts` are those of the same options, if the caller has them. Throws BadInput for options that contradict each
/// other or do not fit the model, and what Constraint throws.
GenerateRequest make_request(const RequestDefaults& model, std::vector<std::int32_t> ids, const GenerateOptions& caller,
                             std::vector<std::string>* from_checkpoint = nullptr, const SamplerTexts* texts = nullptr);

}  // namespace vitrine
