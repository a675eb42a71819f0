// What a run starts from: parameters, the corpus, conversations, and the scores of a preference run's reference.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/masking.h"
#include "parallel/thread_pool.h"
#include "ranks/ranks.h"
#include "train/conversation_data.h"
#include "train/learner.h"
#include "train/preference.h"
#include "train/run_folder.h"
#include "train/text_data.h"
#include "train/train_config.h"
#include "train/trainable.h"

namespace vitrine {

/// The start of a run: parameters, and the other files of its checkpoints.
struct Start {
  Trainable trainable;
  ModelFiles files;
};

/// Whether a run learns vectors of texts.
bool makes_vectors(const TrainConfig& config);

/// The start from `checkpoint`, or, if it is "", from the config's model. Throws as load_checkpoint does, and
/// Unsupported for a checkpoint that is not a Hugging Face folder. `filled` follows parameters that are drawn.
Start start_from(const TrainConfig& config, const std::string& checkpoint, ThreadPool& pool, const Kernels& kernels,
                 const Filled& filled = {});

/// Sets the balancing loss that transformers would train the model with, if the run's config has none of its own: that
/// of all layers and tokens, if output_router_logits is set. Throws BadCheckpoint for a coefficient that is no number.
void take_balance_loss(StepOptions& steps, const ModelFiles& files);

/// Pairs for an encoder–decoder, else a stream of tokens. `config` is the model's config.json, which has the decoder's
/// start. Throws BadInput if the corpus does not fit the model, and as PairCorpus and SplitCorpus do.
std::unique_ptr<TrainingData> open_corpus(const TrainConfig& run, const ModelConfig& model, const Json& config);

/// For objective = "masked". The mask is config.json's mask_token_id, else the tokenizer's [MASK] or <mask>; BadInput
/// if there is none.
MaskOptions mask_options(const TrainConfig& run, const ModelConfig& model, const Json& config,
                         const std::string& tokenizer);

/// Reads conversations or pairs, before the model and before anything is written; null for shards. Sets the steps of
/// the config's epochs, and the time that templates read: that of the start, which a resumed run takes from its
/// checkpoint. Only rank 0 has a folder.
std::shared_ptr<const ConversationData> open_talk(Ranks& ranks, TrainConfig& config, const RunFolder* folder,
                                                  std::optional<std::int64_t> resumed);

/// Reads data.texts for the model of the start, and sets the steps of the config's epochs. Throws as TextData does.
std::shared_ptr<const TextData> open_texts(TrainConfig& config, const Start& start);

/// Lets the learner compare pairs. Rank 0 computes the scores of the reference once, and keeps them for a resumed run.
void prefer_pairs(Ranks& ranks, const TrainConfig& config, const ConversationData& talk, Learner& learner, bool resumes,
                  const std::function<void(const std::string&)>& tell);

}  // namespace vitrine
