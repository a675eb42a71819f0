#include "cli/opened_model.h"

#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <thread>

#include "base/mapped_file.h"
#include "base/nearest.h"
#include "checkpoint/adapters/control.h"
#include "checkpoint/adapters/modifier_text.h"
#include "model/count.h"
#include "tokenizer/read/chat_templates.h"

namespace vitrine::cli {
namespace {

/// The bytes of the caches of `n` sequences of `length` tokens.
std::int64_t cache_bytes(const GenerateContext& context, std::int64_t n, std::int64_t length) {
  CountedKvMemory counted;
  return n * context.model->make_cache(length, context.kv_types, counted).bytes();
}

/// What prefixes may keep: four sequences as long as the context, with their snapshots, unless the caller sets it.
std::int64_t prefix_bytes(const ServeOptions& o, const GenerateContext& context) {
  if (o.no_prefix_cache || is_bidirectional(context.model->config())) return 0;
  if (o.prefix_memory_mib) return *o.prefix_memory_mib << 20;
  const std::int64_t length = std::min<std::int64_t>(context.model->config().max_seq_len, 1 << 20);
  CountedKvMemory counted;
  const KvCache cache = context.model->make_cache(length, context.kv_types, counted);
  return 4 * (cache.bytes() + length / context.state_every * cache.snapshot_bytes());
}

/// The number of positions in a block of the pool: the default, or less if the memory holds few such blocks.
std::int64_t block_length(const GenerateContext& context, std::int64_t bytes, std::size_t max_sequences) {
  constexpr std::int64_t kShortest = 16;
  const auto fit = [&](std::int64_t length) {
    return cache_bytes(context, 2 * static_cast<std::int64_t>(max_sequences), length) <= bytes;
  };
  std::int64_t length = std::min(system_kv_memory().block_length(), context.model->config().max_seq_len);
  if (is_bidirectional(context.model->config())) return length;  // it has no cache
  while (length > kShortest && !fit(length)) length /= 2;
  return length;
}

/// Those of all requests have no name.
Options without_named(const ServeOptions& o) {
  Options result = o;
  std::erase_if(result.adapters, [](const std::string& text) { return !parse_adapter_text(text).name.empty(); });
  std::erase_if(result.controls, [](const std::string& text) { return !parse_control_text(text).name.empty(); });
  return result;
}

void open_modifiers(const ServeOptions& o, Session& session, ServedModifiers& modifiers) {
  open_probes(o, o, session);
  modifiers.of_all = session.applied;
  modifiers.dictionaries = session.applied.dictionaries;
  std::erase_if(modifiers.of_all.dictionaries,
                [](const AppliedDictionary& own) { return own.use != DictionaryUse::replace; });
  modifiers.base = &session.checkpoint;
  modifiers.is_head_replaced = std::any_of(session.adapters.begin(), session.adapters.end(),
                                           [](const auto& own) { return !own->saved.empty(); });
  std::error_code error;
  if (!o.adapter_folder.empty() && !std::filesystem::is_directory(o.adapter_folder, error)) {
    throw BadInput("--adapter-dir", "{} is no folder{}", o.adapter_folder, did_you_mean_file(o.adapter_folder));
  }
  modifiers.adapter_folder = o.adapter_folder;
  for (const std::string& text : o.adapters) {
    const ModifierText own = parse_adapter_text(text);
    if (own.name.empty()) continue;
    modifiers.named.add(own.name, modifiers.open(own.path, own.scale, *session.pool));
  }
  for (const std::string& text : o.controls) {
    const ModifierText own = parse_control_text(text);
    if (own.name.empty()) continue;
    modifiers.named.add(own.name, {load_control(own.path, session.checkpoint.model->config()), own.scale, own.layers});
  }
}

std::optional<ChatFormat> open_chat(const Session& session, const ChatTemplates& templates) {
  if (session.tokenizer == nullptr || templates.by_name.empty()) return std::nullopt;
  return std::optional<ChatFormat>(std::in_place, templates, *session.tokenizer, ChatVariables{}, "chat template");
}

/// The time of the last change of a file, or of a folder's config; 0 if that cannot be found out.
std::int64_t modified_at(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto time = fs::last_write_time(fs::is_directory(path, error) ? path + "/config.json" : path, error);
  if (error) return 0;
  const auto since = fs::file_time_type::clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

/// What a list of models says replaces what the checkpoint says.
void replace_defaults(const SamplingOverrides& own, SamplingOverrides& defaults) {
  for (const auto value : {&SamplingOverrides::temperature, &SamplingOverrides::top_p, &SamplingOverrides::min_p,
                           &SamplingOverrides::repeat_penalty, &SamplingOverrides::typical_p,
                           &SamplingOverrides::epsilon_cutoff, &SamplingOverrides::eta_cutoff}) {
    if (own.*value) defaults.*value = own.*value;
  }
  if (own.top_k) defaults.top_k = own.top_k;
  if (own.temperature) defaults.greedy = false;
}

ServedModel served_model(const ServeOptions& o, const Session& session, ChatTemplates templates,
                         const ChatFormat* chat) {
  const ModelConfig& config = session.checkpoint.model->config();
  ServedModel model;
  model.names = o.names;
  model.created = std::time(nullptr);
  model.family = session.checkpoint.family;
  model.vocab_size = config.encoder ? config.encoder->vocab_size : config.vocab_size;
  model.max_seq_len = config.encoder ? config.encoder->max_seq_len : config.max_seq_len;
  model.d_model = config.encoder ? config.encoder->d_model : config.d_model;
  model.can_generate = !config.encoder && !is_bidirectional(config) && !config.task;
  model.tokenizer = session.tokenizer.get();
  model.chat = chat;
  model.templates = std::move(templates);
  const SamplingConfig otherwise = model.defaults.otherwise;
  model.defaults = session.defaults();
  model.defaults.otherwise = otherwise;
  replace_defaults(o.defaults, model.defaults.sampling);
  if (model.defaults.constraints != nullptr) {
    model.defaults.constraints->limit(static_cast<std::size_t>(o.constraint_memory_mib) << 20);
  }
  model.chat_stop_ids = model.defaults.stop_ids;
  model.pad_id = session.checkpoint.pad_id;
  if (chat != nullptr) {
    if (const auto id = chat->end_of_answer()) model.chat_stop_ids.push_back(*id);
  }
  model.model = session.checkpoint.model.get();
  model.can_inspect = !o.no_inspect;
  if (!o.features_index.empty()) model.feature_indexes = open_feature_indexes(o.features_index);
  model.unknown_fields = o.unknown_fields == "ignore" ? UnknownFields::ignore : UnknownFields::refuse;
  model.max_trace_bytes = o.max_trace_mib << 20;
  model.sentences = read_sentence_config(session.checkpoint.tokenizer_path, session.tokenizer.get(), model.max_seq_len);
  return model;
}

}  // namespace

ServedFile::ServedFile(const ServeOptions& o, const SharedRounds& shared, std::int64_t kv_bytes, Metrics& metrics)
    : session_(open_for_texts(without_named(o), o.model, false)), store_(shared.store) {
  open_modifiers(o, session_, modifiers_);
  ChatTemplates templates = open_chat_templates(o.model.empty() ? default_model() : o.model, o.template_path);
  chat_ = open_chat(session_, templates);
  served_ = served_model(o, session_, std::move(templates), chat_ ? &*chat_ : nullptr);
  served_.modifiers = &modifiers_;
  GenerateContext context = session_.context(o);
  context.pool = &shared.pool;
  context.modifiers = modifiers_.of_all;
  context.interrupt = nullptr;  // rounds end; the server stops after them
  context.speculation = speculation_.emplace(o, o, session_, "lookup", &shared.pool).get();
  try {
    if (store_ != nullptr) context.store = &own_store_.emplace(*store_, session_.checkpoint, context);
  } catch (const Unsupported&) {
    if (shared.needs_store) throw;
  }
  memory_.emplace(kv_bytes, block_length(context, kv_bytes, o.max_sequences));
  if (const std::int64_t bytes = prefix_bytes(o, context); bytes > 0) context.prefixes = &prefixes_.emplace(bytes);
  const SchedulerConfig rounds{o.max_sequences, o.max_queue, o.queue_memory_mib << 20, o.round_ms / 1000,
                               shared.clients};
  scheduler_ = std::make_shared<Scheduler>(context, *memory_, rounds, metrics, shared.loop);
  session_.pool.reset();  // it has loaded adapters
}

void ServedFile::read_ahead() const {
  const auto read_all = [&model = *session_.checkpoint.model] {
    ::setpriority(PRIO_PROCESS, 0, 10);  // of this thread: rounds have the processors first
    for_each_param(model.config(), model.params(), [](const Param& param, const std::string&, const Shape& shape) {
      const MatrixView& view = param.view;
      if (interrupted() || view.data == nullptr) return;
      MappedFile::read_ahead({view.data, static_cast<std::size_t>(bytes_of(view.dtype, shape.count()))});
    });
  };
  std::thread(read_all).join();
}

ModelSummary summary_of(const ServeOptions& o, const std::string& path) {
  const Checkpoint checkpoint = load_checkpoint(path, {o.allowed_config_keys, o.allowed_tensors});
  const ModelFacts facts = checkpoint_facts(checkpoint, path, checked_compute(checkpoint, compute_of(o)));
  const auto& encoder = facts.config.encoder;
  return {.family = checkpoint.family,
          .max_seq_len = encoder ? encoder->max_seq_len : facts.config.max_seq_len,
          .n_parameters = count_params(facts.config),
          .bytes = facts.stored_bytes,
          .quantization = facts.types,
          .modified = modified_at(path)};
}

}  // namespace vitrine::cli
