#include "train/train_config.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/nearest.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/presets.h"
#include "inspect/recorder.h"
#include "train/config_section.h"
#include "train/optimizer_sections.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40;
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 24;
constexpr double kMaxNumber = 1e9;

void read_init(ConfigSection& section, InitOptions& init) {
  using Scheme = InitOptions::Scheme;
  init.scheme = section.choice<Scheme>(
      "init", {{"auto", Scheme::by_config}, {"glorot", Scheme::glorot}, {"gpt2", Scheme::normal}});
  if (init.scheme != Scheme::normal) section.refuse("init_std", "it applies to init = \"gpt2\" only");
  init.std = section.number("init_std", init.std, 0, kMaxNumber);
  if (section.has("embedding_std")) init.embedding_std = section.number("embedding_std", 0, 0, kMaxNumber);
}

ModelSource read_model(ConfigSection& section, const std::string& path) {
  ModelSource model;
  const bool has_preset = section.has("preset"), has_config = section.has("config"), has_from = section.has("from");
  if (has_preset + has_config + has_from != 1) {
    std::string given;
    for (const char* key : {"preset", "config", "from"}) {
      if (section.has(key)) given += (given.empty() ? "" : " and ") + std::string(key);
    }
    throw BadInput(path, "[model]: expected one of preset, config and from, got {}", given.empty() ? "none" : given);
  }
  if (has_from) {
    model.checkpoint = section.text("from");
    for (const char* key : {"set", "init", "init_std", "embedding_std"}) {
      section.refuse(key, "it has no effect on a model from a checkpoint");
    }
    read_new_head(section, model.labels, model.problem);
  } else {
    for (const char* key : {"labels", "problem_type"}) section.refuse(key, "it describes a new head on model.from");
    const bool is_inline = has_config && section.is_table("config");
    model.where = is_inline ? path : section.text(has_preset ? "preset" : "config");
    model.config = is_inline ? *section.table("config") : preset_or_config(model.where);
    if (const Json* values = section.table("set")) set_config_values(model.config, *values, model.where);
    if (is_inline) set_config_values(model.config, Json::object(), model.where);  // for a formula of d_ff
    read_init(section, model.init);
    model.read();  // for its errors
  }
  section.finish();
  return model;
}

/// The keys of conversations and pairs.
TalkOptions read_talk(ConfigSection& section) {
  using Mask = ConversationOptions::Mask;
  using Learn = ConversationOptions::Learn;
  TalkOptions talk;
  talk.mask = section.choice<Mask>(
      "mask", {{"auto", Mask::automatic}, {"marks", Mask::marks}, {"difference", Mask::difference}});
  talk.learn =
      section.choice<Learn>("learn", {{"assistant", Learn::assistant}, {"last", Learn::last}, {"all", Learn::all}});
  talk.chat_template = section.text("template", "");
  talk.now = section.text("now", "");
  if (!talk.now.empty()) TemplateClock::parse(talk.now);  // for its errors
  talk.is_shuffled = section.choice<bool>("order", {{"shuffled", true}, {"file", false}});
  talk.too_long =
      section.choice<TooLong>("too_long", {{"error", TooLong::refuse}, {"drop", TooLong::drop}, {"cut", TooLong::cut}});
  return talk;
}

DataOptions read_data(ConfigSection& section) {
  DataOptions data;
  data.activations = section.text("activations", "");
  data.ids = section.text("ids", "");
  const bool is_apart = !data.activations.empty() || !data.ids.empty();
  if (is_apart) {
    if (!data.activations.empty()) section.refuse("ids", "activations already gives the data");
    for (const char* key : {"train", "conversations", "pairs", "texts", "validation", "validation_fraction",
                            "tokenizer", "mask_documents"}) {
      section.refuse(key, data.ids.empty() ? "activations already gives the data" : "ids already gives the data");
    }
  }
  data.conversations = section.text("conversations", "");
  data.pairs = section.text("pairs", "");
  data.texts = section.text("texts", "");
  const bool has_talk = !data.conversations.empty() || !data.pairs.empty(), has_texts = !data.texts.empty();
  if (!data.conversations.empty()) section.refuse("pairs", "conversations already gives the data");
  if (has_talk) section.refuse("texts", "conversations or pairs already gives the data");
  if (has_talk || has_texts) section.refuse("train", "conversations, pairs or texts already gives the data");
  if (!has_talk && !has_texts) data.train = is_apart ? "" : section.text("train");
  if (!data.is_talk()) {
    for (const char* key : {"mask", "learn", "template", "now", "too_long"}) {
      section.refuse(key, "it applies to conversations and pairs only");
    }
  }
  if (!has_talk && !has_texts && data.ids.empty()) {
    section.refuse("order", "it applies to conversations, pairs, texts and ids only");
  }
  if (has_talk || has_texts) section.refuse("mask_documents", "conversations, pairs and texts are always separate");
  data.talk = read_talk(section);
  data.validation = section.text("validation", "");
  if (!data.validation.empty()) section.refuse("validation_fraction", "validation already gives the validation tokens");
  data.validation_fraction = section.number("validation_fraction", 0, 0, 0.9);
  data.tokenizer = section.text("tokenizer", "");
  data.mask_documents = section.flag("mask_documents", false);
  section.finish();
  return data;
}

/// The table of what learns next to the model: "[sae]", "[lens]", or "" if the model or an adapter learns.
std::string table_apart(const TomlFile& file) {
  for (const char* const name : {"sae", "lens"}) {
    if (file.values.contains(name)) return std::string("[") + name + "]";
  }
  return "";
}

/// `apart`: as table_apart() names it. `needs_counts`: steps and batch have no defaults.
StepOptions read_steps(ConfigSection& section, const DataOptions& data, const std::string& apart, bool needs_counts) {
  using Balance = StepOptions::Balance;
  using Objective = StepOptions::Objective;
  StepOptions train;
  train.objective = section.choice<Objective>("objective", {{"next", Objective::next}, {"masked", Objective::masked}});
  if (train.objective == Objective::next) section.refuse("mask_fraction", "it applies to objective = \"masked\" only");
  train.mask_fraction = section.number("mask_fraction", train.mask_fraction, 1e-6, 1);
  const bool has_texts = !data.texts.empty();
  if (!apart.empty()) {
    for (const char* key : {"objective", "micro_batches", "dtype", "dropout", "label_smoothing", "z_loss",
                            "balance_loss", "router_z_loss", "router_bias_rate", "recompute"}) {
      section.refuse(key, "it has no effect on " + apart + ", whose parameters alone learn");
    }
  }
  if (apart == "[sae]") section.refuse("seq_len", "it has no effect on [sae], which has context");
  if (!data.is_talk() && !has_texts) section.refuse("epochs", "it applies to conversations, pairs and texts only");
  for (const char* key : {"objective", "label_smoothing", "z_loss", "balance_loss", "router_z_loss"}) {
    if (has_texts) section.refuse(key, "it has no effect on texts, whose loss is in [loss]");
  }
  if (section.has("epochs")) {
    section.refuse("steps", "epochs already gives the number of steps");
    train.epochs = section.number("epochs", 1, 1e-9, kMaxNumber);
  } else {
    train.steps = needs_counts ? section.integer("steps", 1) : section.integer("steps", 0, 1);
  }
  if (train.steps > kMaxSteps) section.fail("steps", "there are too many steps");
  train.batch = needs_counts ? section.integer("batch", 1) : section.integer("batch", 1, 1);
  if (train.batch > kMaxBatch) section.fail("batch", "there are too many sequences");
  train.seq_len =
      has_texts || !apart.empty() ? section.integer("seq_len", 0, 1, kMaxSteps) : section.integer("seq_len", 1);
  train.micro_batches = section.integer("micro_batches", 1, 1);
  if (train.batch % train.micro_batches != 0) {
    section.fail("micro_batches", "expected a divisor of batch " + std::to_string(train.batch));
  }
  train.seed = static_cast<std::uint64_t>(section.integer("seed", 1, 0));
  train.dtype = section.choice<DType>("dtype", {{"f32", DType::f32}, {"bf16", DType::bf16}});
  train.dropout = section.number("dropout", 0, 0, 0.999);
  train.label_smoothing = section.number("label_smoothing", 0, 0, 1);
  train.z_loss = section.number("z_loss", 0, 0, kMaxNumber);
  train.balance_of_model = !section.has("balance_loss");
  train.balance_loss = section.number("balance_loss", 0, 0, kMaxNumber);
  if (train.balance_loss == 0) section.refuse("balance", "it has no effect without balance_loss");
  train.balance =
      section.choice<Balance>("balance", {{"sequence", Balance::sequence}, {"hugging_face", Balance::hugging_face}});
  train.router_z_loss = section.number("router_z_loss", 0, 0, kMaxNumber);
  train.router_bias_rate = section.number("router_bias_rate", 0, 0, kMaxNumber);
  train.recompute = section.flag("recompute", false);
  section.finish();
  return train;
}

PreferenceOptions read_preference(ConfigSection& section, const DataOptions& data) {
  using Objective = PreferenceOptions::Objective;
  using Reference = PreferenceOptions::Reference;
  PreferenceOptions options;
  if (data.pairs.empty()) {
    for (const char* key : {"objective", "beta", "label_smoothing", "gamma", "reference"}) {
      section.refuse(key, "it applies to data.pairs only");
    }
  }
  options.objective = section.choice<Objective>("objective", {{"dpo", Objective::dpo},
                                                              {"ipo", Objective::ipo},
                                                              {"hinge", Objective::hinge},
                                                              {"simpo", Objective::simpo},
                                                              {"orpo", Objective::orpo}});
  options.beta = section.number("beta", options.beta, 1e-9, kMaxNumber);
  if (options.objective != Objective::dpo) section.refuse("label_smoothing", "it applies to objective = \"dpo\" only");
  options.label_smoothing = section.number("label_smoothing", 0, 0, 0.5);
  if (options.objective != Objective::simpo) section.refuse("gamma", "it applies to objective = \"simpo\" only");
  options.gamma = section.number("gamma", 0, -kMaxNumber, kMaxNumber);
  if (!options.has_reference()) section.refuse("reference", "this objective has none");
  options.reference = section.choice<Reference>("reference", {{"base", Reference::base}, {"start", Reference::start}});
  section.finish();
  return options;
}

/// Checks that the other sections allow conversations and pairs.
void check_talk(const TrainConfig& config, const std::string& path) {
  if (config.train.objective != StepOptions::Objective::next) {
    throw BadInput(path, "train.objective: conversations and pairs are learned with \"next\"");
  }
  if (config.model.checkpoint.empty() && config.data.tokenizer.empty()) {
    throw BadInput(path, "data.tokenizer: the key is missing; a model from random weights has no tokenizer");
  }
  if (!config.data.pairs.empty() && (config.train.label_smoothing > 0 || config.train.z_loss > 0)) {
    throw BadInput(path, "train.label_smoothing and train.z_loss do not apply to data.pairs");
  }
}

LoraOptions read_lora(ConfigSection& section) {
  LoraOptions lora;
  lora.from = section.text("from", "");
  for (const char* key : {"rank", "alpha", "scaling", "targets", "layers"}) {
    if (section.has(key) && !lora.from.empty()) lora.given.emplace_back(key);
  }
  lora.adapter.rank = section.integer("rank", lora.adapter.rank, 1, 1 << 16);
  lora.adapter.alpha = section.number("alpha", 2 * static_cast<double>(lora.adapter.rank), 1e-9, kMaxNumber);
  lora.adapter.rslora = section.choice<bool>("scaling", {{"standard", false}, {"rslora", true}});
  if (section.is_list("targets")) {
    lora.adapter.targets = section.texts("targets");
    if (lora.adapter.targets.empty()) section.fail("targets", "expected at least one target, got []");
  } else if (section.text("targets", "all") != "all") {
    section.fail("targets", "expected \"all\" or a list of q, k, v, o, gate, up, down and names of modules");
  }
  if (section.has("layers")) lora.adapter.layers = section.integers("layers");
  lora.dropout = section.number("dropout", 0, 0, 0.999);
  section.finish();
  return lora;
}

/// Checks that the other sections allow [lora].
void check_lora(const TrainConfig& config, const std::string& path) {
  if (config.model.checkpoint.empty()) throw BadInput(path, "model.from: the key is missing; [lora] adapts a model");
  if (config.train.dtype != DType::f32) {
    throw BadInput(path, "train.dtype: expected f32, in which adapters are trained, got {}",
                   name_of(config.train.dtype));
  }
  if (config.train.router_bias_rate > 0) {
    throw BadInput(path, "train.router_bias_rate: [lora] leaves the model, and so its corrections, as they are");
  }
}

LogOptions read_log(ConfigSection& section, const DataOptions& data) {
  LogOptions log;
  const auto steps = [&](const char* key, std::int64_t otherwise, std::int64_t lowest) {
    return section.integer(key, otherwise, lowest, kMaxSteps);
  };
  log.every = steps("every", log.every, 1);
  const bool validates = !data.validation.empty() || data.validation_fraction > 0;
  if (!validates) section.refuse("validate_every", "[data] has no validation tokens");
  log.validate_every = steps("validate_every", 0, 0);
  if (log.validate_every == 0) section.refuse("validate_batches", "it has no effect without validate_every");
  log.validate_batches = steps("validate_batches", 0, 0);
  if (!data.texts.empty()) section.refuse("sample_every", "a model that learns from texts generates none");
  log.sample_every = steps("sample_every", 0, 0);
  for (const char* key : {"sample_prompt", "sample_tokens"}) {
    if (log.sample_every == 0) section.refuse(key, "it has no effect without sample_every");
  }
  log.sample_prompt = section.text("sample_prompt", "");
  log.sample_tokens = steps("sample_tokens", log.sample_tokens, 1);
  log.save_every = steps("save_every", 0, 0);
  log.keep_last = steps("keep_last", log.keep_last, 1);
  log.taps_every = steps("taps_every", 0, 0);
  log.taps = section.texts("taps");
  log.writes = section.texts("writes");
  if (log.taps_every == 0 && !log.taps.empty()) section.fail("taps", "it has no effect without taps_every");
  if (log.taps_every > 0 && log.taps.empty()) section.fail("taps_every", "it has no effect without taps");
  for (const std::string& text : log.writes) parse_site_write(text);  // for its errors
  section.finish();
  return log;
}

/// Checks that the other sections allow `table`, whose parameters alone learn.
void check_apart(const TrainConfig& config, const TomlFile& file, const std::string& path, const std::string& table) {
  if (!config.model.config.is_null()) throw BadInput(path, "model.from: the key is missing; {} reads a model", table);
  if (file.values.contains("lora")) {
    throw BadInput(path, "[lora] has no effect on {}, whose parameters alone learn", table);
  }
  const LogOptions& log = config.log;
  if (log.validate_every > 0 || log.sample_every > 0 || log.taps_every > 0 || !log.writes.empty()) {
    throw BadInput(path, "[log]: validation, samples, taps and writes do not apply to {}", table);
  }
}

void check_sae(const TrainConfig& config, const TomlFile& file, const std::string& path) {
  if (config.data.is_talk() || config.text || !config.data.ids.empty()) {
    throw BadInput(path, "[sae]: expected data.train or data.activations");
  }
  check_apart(config, file, path, "[sae]");
  if (config.optimizer.kind != OptimizerConfig::Kind::adamw) {
    throw BadInput(path, "optimizer.name: [sae] learns with \"adamw\"");
  }
}

void check_lens(const TrainConfig& config, const TomlFile& file, const std::string& path) {
  if (config.data.ids.empty()) throw BadInput(path, "data.ids: the key is missing; [lens] learns from lists of ids");
  if (file.values.contains("sae")) throw BadInput(path, "[lens]: a run has [sae] or [lens], not both");
  check_apart(config, file, path, "[lens]");
  if (config.lens->kind == LensKind::tuned) return;
  for (const char* const table : {"optimizer", "clip", "schedule"}) {
    if (file.values.contains(table)) throw BadInput(path, "[{}] has no effect on a Jacobian lens, a mean", table);
  }
  if (!config.data.talk.is_shuffled) throw BadInput(path, "data.order has no effect on a Jacobian lens, a mean");
}

/// A config, and all keys that the reader knows.
struct Reading {
  TrainConfig config;
  std::vector<std::string> keys;
};

Reading read(const TomlFile& file, const std::string& path) {
  const std::vector<std::string> names = {"model",    "data", "train", "lora", "preference", "loss", "optimizer",
                                          "schedule", "clip", "log",   "out",  "lens",       "sae"};
  for (const auto& [name, value] : file.values.items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw BadInput(file.place_of(name, path), "there is no section [{}]{}", name, did_you_mean(name, names));
  }
  std::map<std::string, ConfigSection> sections;
  for (const std::string& name : names) {
    if (name != "sae") sections.emplace(name, ConfigSection(file, path, name));
  }
  const auto section = [&](const char* name) -> ConfigSection& { return sections.at(name); };

  Reading reading;
  TrainConfig& config = reading.config;
  const bool has_sae = file.values.contains("sae"), has_lens = file.values.contains("lens");
  const bool needs_model = !has_sae || !file.values.value("data", Json::object()).contains("activations");
  if (needs_model || file.values.contains("model")) config.model = read_model(section("model"), path);
  config.data = read_data(section("data"));
  if (!config.data.activations.empty() && !has_sae) throw BadInput(path, "data.activations: it applies to [sae] only");
  config.text = read_text_options(section("train"), section("loss"), !config.data.texts.empty());
  if (!config.data.ids.empty() && !has_lens) throw BadInput(path, "data.ids: it applies to [lens] only");
  if (has_lens) config.lens = read_lens_training(section("lens"));
  const bool needs_counts = !config.lens || config.lens->kind == LensKind::tuned;
  config.train = read_steps(section("train"), config.data, table_apart(file), needs_counts);
  config.preference = read_preference(section("preference"), config.data);
  if (config.data.is_talk()) check_talk(config, path);
  if (config.text && config.model.checkpoint.empty()) {
    throw BadInput(path, "model.from: the key is missing; a task needs a model that reads texts");
  }
  if (!config.model.labels.empty() && (!config.text || config.text->task == LearnedTask::embed)) {
    throw BadInput(path, "model.labels: they are of task = \"classify\", \"tag\" and \"rerank\"");
  }
  if (file.values.contains("lora")) {
    config.lora = read_lora(section("lora"));
    config.train.adapter_dropout = config.lora->dropout;
    check_lora(config, path);
  }
  config.optimizer = read_optimizer(section("optimizer"), section("clip"), has_sae || has_lens);
  // Epochs become steps when the data is read.
  const std::int64_t steps = config.train.steps > 0 ? config.train.steps : kMaxSteps;
  config.schedule = read_schedule(section("schedule"), steps, path, has_sae ? 3e-4 : ScheduleConfig().peak);
  config.log = read_log(section("log"), config.data);
  if (has_sae) {
    check_sae(config, file, path);
    config.sae = read_dictionary_training(file, path, config.data.activations.empty(), reading.keys);
  }
  if (has_lens) check_lens(config, file, path);
  config.out = section("out").text("folder");
  section("out").finish();
  if (!config.model.config.is_null()) check_with_model(config, config.model.read());
  for (const std::string& name : names) {
    if (name == "sae") continue;
    for (const std::string& key : section(name.c_str()).known()) reading.keys.push_back(name + "." + key);
  }
  return reading;
}

Reading read(std::string_view text, const std::string& path) {
  if (text.size() > kMaxBytes)
    throw BadInput(path, "expected at most {} bytes of TOML, got {}", kMaxBytes, text.size());
  return read(parse_toml(text, path), path);
}

}  // namespace

ModelConfig ModelSource::read() const { return read_model_config(family_of(config, where), config, where); }

TrainConfig parse_train_config(std::string_view text, const std::string& path) { return read(text, path).config; }

TrainConfig train_config_of(Json tables, const std::string& where) {
  if (!tables.is_object()) throw BadInput(where, "expected an object of tables, got {}", tables.type_name());
  return read(TomlFile{std::move(tables), {}}, where).config;
}

std::vector<std::string> train_config_keys() {
  const std::string least =
      "data.train = 'tokens'\ntrain.steps = 1\ntrain.batch = 1\ntrain.seq_len = 1\nout.folder = 'run'\n";
  std::vector<std::string> keys = read(least + "model.preset = 'gpt2'", "train_config_keys").keys;
  for (const std::string& key : read(least + "model.from = 'gpt2'\nlora.rank = 8", "train_config_keys").keys) {
    if (key.starts_with("lora.")) keys.push_back(key);
  }
  const std::string sae =
      "model.from = 'gpt2'\ndata.train = 'tokens'\ntrain.steps = 1\ntrain.batch = 1\nout.folder = 'run'\n"
      "sae.site = 'hook_embed'\nsae.d_sae = 1";
  for (const std::string& key : read(sae, "train_config_keys").keys) {
    if (key.starts_with("sae.")) keys.push_back(key);
  }
  const std::string lens = "model.from = 'gpt2'\ndata.ids = 'ids'\nout.folder = 'run'\nlens.kind = 'jacobian'";
  for (const std::string& key : read(lens, "train_config_keys").keys) {
    if (key.starts_with("lens.")) keys.push_back(key);
  }
  return keys;
}

TrainConfig read_train_config(const std::string& path) {
  return parse_train_config(MappedFile::open(path)->text(), path);
}

}  // namespace vitrine
