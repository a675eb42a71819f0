#include "train/start.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/file_writer.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/load.h"
#include "checkpoint/new_head.h"
#include "data/dataset.h"
#include "data/pack.h"
#include "data/pairs.h"
#include "tokenizer/tokenizer.h"
#include "train/new_head.h"
#include "train/sentence_files.h"

namespace vitrine {

namespace {

/// Writes {"chosen": [...], "rejected": [...]}. Throws as FileWriter does.
void write_references(const std::string& path, const std::vector<PairScore>& scores) {
  Json chosen = Json::array(), rejected = Json::array();
  for (const PairScore& score : scores) {
    chosen.push_back(score.chosen);
    rejected.push_back(score.rejected);
  }
  write_file(path, Json{{"chosen", chosen}, {"rejected", rejected}}.dump() + "\n");
}

/// Throws BadCheckpoint if the file is malformed or has not `n` pairs.
std::vector<PairScore> read_references(const std::string& path, std::size_t n) {
  const Json json = read_json_file(path);
  try {
    const auto chosen = json.at("chosen").get<std::vector<double>>();
    const auto rejected = json.at("rejected").get<std::vector<double>>();
    if (chosen.size() != n || rejected.size() != n) {
      throw BadCheckpoint(path, "expected the scores of {} pairs, got {} and {}", n, chosen.size(), rejected.size());
    }
    std::vector<PairScore> scores;
    for (std::size_t i = 0; i < n; ++i) scores.push_back({chosen[i], rejected[i]});
    return scores;
  } catch (const Json::exception&) {
    throw BadCheckpoint(path, "expected lists of numbers as \"chosen\" and \"rejected\"");
  }
}

/// How a new head is drawn: as the model's config says.
InitOptions init_of_head(const Json& config) {
  InitOptions init;
  init.scheme = InitOptions::Scheme::normal;
  const Json range = config.value("initializer_range", Json());
  if (range.is_number() && range > 0) init.std = range.get<double>();
  return init;
}

/// The start of a run that trains an adapter: a new one, that of lora.from, or, if it is not "", that of `checkpoint`.
/// A new head learns with it.
Start start_adapter(const TrainConfig& c, const std::string& checkpoint, ThreadPool& pool) {
  Checkpoint base = load_checkpoint(c.model.checkpoint);
  const std::string& where = c.model.checkpoint;
  Json config = base.config.empty() ? Json::object() : parse_json(base.config, where);
  const bool has_new_head = !c.model.labels.empty();
  if (has_new_head) {
    config = config_with_head(config, where, c.text->task, c.model.labels, c.model.problem);
    const FillParam fill = [&](const ModelConfig& model, const std::string& name, const Shape& shape, std::uint64_t i,
                               std::span<float> values) {
      draw_initial(init_rule(model, norms_of(model), name, shape, init_of_head(config)), c.train.seed, i, 0, values);
    };
    base = with_new_head(base, config, where, fill);
  }
  const std::string tokenizer = c.data.tokenizer.empty() ? base.tokenizer_path : c.data.tokenizer;
  const std::string& from = checkpoint.empty() ? c.lora->from : checkpoint;
  WritableAdapter adapter = from.empty() ? new_adapter(base, c.lora->adapter, c.train.seed, "lora.")
                                         : writable_copy(*load_adapter(from, base, pool, c.text.has_value()));
  if (has_new_head) add_head(adapter, *base.model, "lora.");
  check_options(*adapter.adapter, base, c.lora->adapter, c.lora->given, "lora.");
  const PeftOptions options{adapter.adapter->rslora, c.lora->dropout, c.model.checkpoint};
  const Family family = has_new_head ? *base.table : family_named(base.family);
  TextSteps steps;
  if (makes_vectors(c)) steps = steps_of_vectors(c.model.checkpoint);
  return {Trainable(std::move(base), std::move(adapter), std::move(steps)), {family, config, tokenizer, options}};
}

/// The tokenizer of the model that the run began with, if there is one: the run deletes its own checkpoints, which have
/// copies of it.
std::string own_tokenizer(const TrainConfig& c, const std::string& checkpoint, const Checkpoint& loaded) {
  if (c.model.checkpoint.empty()) return "";
  const bool is_first = checkpoint == c.model.checkpoint;
  if (is_first || !std::filesystem::exists(c.model.checkpoint)) return loaded.tokenizer_path;
  return load_checkpoint(c.model.checkpoint).tokenizer_path;
}

/// The start of a run that gives a model a new head.
Start start_with_head(const TrainConfig& c, const Checkpoint& base, ModelFiles files, ThreadPool& pool,
                      const Kernels& k) {
  const std::string& where = c.model.checkpoint;
  files.config = config_with_head(files.config, where, c.text->task, c.model.labels, c.model.problem);
  files.family = family_of(files.config, where);
  const ModelConfig config = read_model_config(files.family, files.config, where);
  const InitOptions init = init_of_head(files.config);
  const auto source = [&](const std::string& name) { return source_of_head(files.family, name); };
  Trainable trainable = extend_trainable(*base.model, config, c.train.dtype, init, source, c.train.seed, pool, k);
  return {std::move(trainable), std::move(files)};
}

}  // namespace

bool makes_vectors(const TrainConfig& c) { return c.text && c.text->task == LearnedTask::embed; }

Start start_from(const TrainConfig& c, const std::string& checkpoint, ThreadPool& pool, const Kernels& k,
                 const Filled& filled) {
  if (c.lora) return start_adapter(c, checkpoint, pool);
  if (checkpoint.empty()) {
    return {draw_trainable(c.model.read(), c.train.dtype, c.model.init, c.train.seed, pool, k, filled),
            {family_of(c.model.config, c.model.where), c.model.config, c.data.tokenizer}};
  }
  const Checkpoint loaded = load_checkpoint(checkpoint);
  if (loaded.table == nullptr || loaded.config.empty()) {
    throw Unsupported(checkpoint, "expected a Hugging Face folder to train from, got a {}", loaded.description);
  }
  const Json config = parse_json(loaded.config, checkpoint);
  const std::string tokenizer = c.data.tokenizer.empty() ? own_tokenizer(c, checkpoint, loaded) : c.data.tokenizer;
  ModelFiles files{family_of(config, checkpoint), config, tokenizer};
  if (c.text) files.sentences = sentence_files(checkpoint, c.text->task, loaded.model->config().d_model);
  const bool is_first = checkpoint == c.model.checkpoint;
  if (is_first && !c.model.labels.empty()) return start_with_head(c, loaded, std::move(files), pool, k);
  const TextSteps steps = makes_vectors(c) ? steps_of_vectors(checkpoint) : TextSteps();
  return {copy_trainable(loaded.model, c.train.dtype, pool, k, {}, steps), std::move(files)};
}

void take_balance_loss(StepOptions& steps, const ModelFiles& files) {
  const std::optional<double>& usual = files.family.balance_loss;
  if (!steps.balance_of_model || !usual || files.config.value("output_router_logits", Json()) != true) return;
  const Json coefficient = files.config.value("router_aux_loss_coef", Json());
  if (!coefficient.is_null() && (!coefficient.is_number() || !(coefficient.get<double>() >= 0))) {
    throw BadCheckpoint("config.json", "router_aux_loss_coef: expected a number from 0 on, got {}", coefficient.dump());
  }
  steps.balance_loss = coefficient.is_null() ? *usual : coefficient.get<double>();
  steps.balance = StepOptions::Balance::hugging_face;
}

namespace {

std::optional<std::int32_t> id_at(const Json& config, const char* key) {
  const auto it = config.find(key);
  return it != config.end() && it->is_number_integer() ? std::optional(it->get<std::int32_t>()) : std::nullopt;
}

}  // namespace

std::unique_ptr<TrainingData> open_corpus(const TrainConfig& c, const ModelConfig& model, const Json& config) {
  const DatasetOptions options{c.train.seq_len, c.train.batch, c.train.seed, c.data.validation_fraction,
                               c.data.mask_documents};
  const bool is_pairs = is_pair_folder(c.data.train);
  if (is_pairs && !model.encoder) throw BadInput("data.train", "it holds pairs, but the model has no encoder");
  if (!is_pairs && model.encoder) {
    throw BadInput("data.train", "expected pairs for an encoder–decoder (vitrine data pack SRC --target TGT)");
  }
  if (!is_pairs) return std::make_unique<SplitCorpus>(c.data.train, c.data.validation, options, model.vocab_size);
  if (c.data.mask_documents) throw BadInput("data.mask_documents", "it has no effect on pairs");
  const auto decoder_start = id_at(config, "decoder_start_token_id"), bos = id_at(config, "bos_token_id");
  if (!decoder_start && !bos) {
    throw BadInput("model", "expected decoder_start_token_id in the model's config: the decoder reads it first");
  }
  auto corpus =
      std::make_unique<PairCorpus>(c.data.train, c.data.validation, options, decoder_start ? *decoder_start : *bos);
  if (corpus->info().vocab_size > model.vocab_size || corpus->source_info()->vocab_size > model.encoder->vocab_size) {
    throw BadInput("data", "the corpus has ids up to {} and {}, but the model has only {} and {} tokens",
                   corpus->source_info()->vocab_size - 1, corpus->info().vocab_size - 1, model.encoder->vocab_size,
                   model.vocab_size);
  }
  return corpus;
}

MaskOptions mask_options(const TrainConfig& run, const ModelConfig& model, const Json& config,
                         const std::string& tokenizer) {
  std::optional<std::int32_t> mask = id_at(config, "mask_token_id");
  if (!mask && !tokenizer.empty()) {
    const auto own = load_tokenizer(tokenizer);
    mask = special_token(*own, "[MASK]");
    if (!mask) mask = special_token(*own, "<mask>");
  }
  if (!mask || *mask < 0 || *mask >= model.vocab_size) {
    throw BadInput("train.objective",
                   "expected mask_token_id in the model's config, or a tokenizer with [MASK] or <mask>");
  }
  return {run.train.mask_fraction, *mask, model.vocab_size, run.train.seed};
}

namespace {

/// Turns epochs into steps.
void set_steps(TrainConfig& c, const TrainingData& data) {
  if (c.train.epochs == 0) return;
  const double steps = std::ceil(c.train.epochs * data.samples_per_epoch() / static_cast<double>(c.train.batch));
  c.train.steps = c.schedule.steps = static_cast<std::int64_t>(std::min(steps, 1e12));
  validate(c.schedule);
}

}  // namespace

std::shared_ptr<const ConversationData> open_talk(Ranks& ranks, TrainConfig& c, const RunFolder* folder,
                                                  std::optional<std::int64_t> resumed) {
  if (!c.data.is_talk()) return nullptr;
  ranks.together([&] {
    if (!c.data.talk.now.empty() || !resumed || folder == nullptr) return;
    const Json& fixed = folder->read_state(*resumed).words.fixed;
    if (fixed.contains("now") && fixed["now"].is_string()) c.data.talk.now = fixed["now"].get<std::string>();
  });
  if (c.data.talk.now.empty()) c.data.talk.now = current_time();
  c.data.talk.now = ranks.broadcast(c.data.talk.now);
  auto talk = ranks.together([&] { return std::make_shared<const ConversationData>(c); });
  set_steps(c, *talk);
  return talk;
}

std::shared_ptr<const TextData> open_texts(TrainConfig& c, const Start& start) {
  const std::string& tokenizer = start.files.tokenizer.empty() ? c.model.checkpoint : start.files.tokenizer;
  auto texts = std::make_shared<const TextData>(c, start.trainable.model().config(), tokenizer);
  set_steps(c, *texts);
  return texts;
}

void prefer_pairs(Ranks& ranks, const TrainConfig& c, const ConversationData& talk, Learner& learner, bool resumes,
                  const std::function<void(const std::string&)>& tell) {
  std::vector<PairScore> references;
  if (c.preference.has_reference()) {
    const std::string path = c.out + "/reference.json";
    learner.at_first([&] {
      if (resumes) {
        references = read_references(path, talk.n_lines());
        return;
      }
      tell("the reference scores all pairs");
      const bool with_adapter = c.preference.reference == PreferenceOptions::Reference::start;
      references = talk.score_all([&](const Batch& batch) { return learner.score_answers(batch, with_adapter); });
      write_references(path, references);
    });
    references.resize(static_cast<std::size_t>(talk.n_lines()));
    ranks.broadcast(std::as_writable_bytes(std::span(references)));
  }
  learner.prefer(c.preference, std::move(references));
}

}  // namespace vitrine
