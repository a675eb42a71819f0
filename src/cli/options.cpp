#include "cli/options.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <system_error>

#include "base/error.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/table.h"
#include "generate/fim_prompt.h"
#include "generate/pipeline_parallel.h"
#include "generate/tensor_parallel.h"
#include "inspect/objective.h"
#include "report/model_facts.h"
#include "report/results.h"
#include "tokenizer/utf8.h"

namespace vitrine::cli {

namespace fs = std::filesystem;

namespace {

/// For CLI11: an empty text if the names are right, else what is wrong.
std::string check_kv_types(const std::string& names) {
  if (kv_types_named(names)) return "";
  return fmt::format("expected f32, bf16, f16, int8, int4, or two of them as in int8:int4, got \"{}\"", names);
}

}  // namespace

KvTypes kv_types(const std::string& names) { return kv_types_named(names).value(); }

std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& option) {
  std::vector<std::int32_t> ids;
  for (const std::string_view part : split(text, ',')) {
    const auto id = number_in<std::int32_t>(part);
    if (!id) throw UsageError(option, "expected ids as in 1,2,3, got \"" + text + "\"");
    ids.push_back(*id);
  }
  return ids;
}

/// The default model is in the source tree of the build, or in the folder to which `make install` copies it.
std::string default_model() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path candidates[] = {program.parent_path() / "../models/default",
                                 program.parent_path() / "../share/vitrine/models/default"};
  for (const fs::path& path : candidates) {
    if (fs::exists(path / "config.json")) return fs::weakly_canonical(path).string();
  }
  throw BadInput("MODEL", "the default model is not installed with {}; give the path of a model", program.string());
}

void add_common(Command& command, Options& o) {
  add_number<int>(command, "--threads", o.threads, "Number of threads (default: all processors)", 1, 1024);
  add_number<std::uint64_t>(command, "--seed", o.seed, "Random seed (default: drawn; --json reports it)");
  command.add_flag("--json", o.json, "Print one JSON object to stdout and nothing else");
  command.add_option("--tokenizer", o.tokenizer, "Tokenizer file or folder (default: the model's)");
  allow_hub(o, o.tokenizer, HubWanted::tokenizer);
  command.add_flag("--offline", o.offline,
                   "Take models named hf:ORG/NAME from the cache alone, as with HF_HUB_OFFLINE=1");
  command.add_option(
      "--pattern", o.tokenizer_options.pattern,
      "Regex that splits text into words, for tokenizers of tiktoken ranks (default: the published one)");
  command.add_option("--source-lang", o.tokenizer_options.source_lang,
                     "The language of source texts, as in fra_Latn: NLLB, M2M-100, mBART (default: the tokenizer's)");
  add_choice(
      command, "--compute", o.compute, {"auto", "f32", "int8", "bf16"},
      "How weights are multiplied: int8 rounds the activations to 8 bits for quantized weights, bf16 does the same "
      "and rounds them to bfloat16 for bf16 weights, f32 rounds nothing; auto: each weight as it is stored");
  command.add_option("--kv", o.kv, "Types of keys and values in the KV cache: K, or K:V as in int8:int4")
      ->check(check_kv_types, "{f32,bf16,f16,int8,int4}");
  add_list(command, "--allow-config-key", o.allowed_config_keys,
           "Ignore this unknown key of config.json; may be given several times");
  add_list(command, "--allow-tensor", o.allowed_tensors,
           "Ignore this unknown tensor, or with NAME* all that begin so; may be given several times");
}

void add_positionals(Command& command, Options& o, const std::string& about_model, const char* second,
                     const std::string& about_second) {
  const auto positional = [&](const char* name, std::string& place, const std::string& about) {
    const auto take = [&o, &place](const std::string& value) {
      place = value;
      ++o.positionals;
    };
    command.add_option_function(name, take, about)->type_name("");
  };
  positional("MODEL", o.first, about_model + " (default: the default model)");
  positional(second, o.second, about_second);

  command.add_flag("--no-special", o.no_special, "Add no special tokens to the text, and treat none in it as special");
}

void add_text(Command& command, Options& o, const std::string& about_model) {
  add_positionals(command, o, about_model, "TEXT", "The text; - reads it from stdin; a single positional is TEXT");
}

void add_model_and_text(Command& command, Options& o) {
  add_text(command, o, "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME");
  add_ids(command, "--ids", o.ids, "Token ids as in 1,2,3, instead of TEXT");
  add_modifiers(command, o);
}

void add_adapters(Command& command, Options& o) {
  add_list(command, "--adapter", o.adapters,
           "Change the model by the low-rank adapter PATH, a PEFT folder or a .gguf, or PATH=SCALE; may be given "
           "several times");
  allow_hub(o, o.adapters);
}

void add_modifiers(Command& command, Options& o) {
  add_adapters(command, o);
  add_list(command, "--control", o.controls,
           "Add the control vector PATH, a .gguf of llama.cpp, to the stream after each block, or PATH=SCALE, with "
           ":FIRST-LAST only after these blocks; may be given several times");
  allow_hub(o, o.controls);
}

void add_pair(Command& command, Options& o) {
  add_optional(command, "--pair", o.pair, "A second text, which is read with TEXT as a pair");
}

void add_types(Command& command, Options& o) {
  add_ids(command, "--types", o.types, "Types of the tokens as in 0,0,1 (default: all 0)");
}

void add_second_input(Command& command, Options& o) {
  add_pair(command, o);
  add_optional(command, "--target", o.target,
               "What the decoder of an encoder–decoder reads; the start symbol is put before it");
  add_ids(command, "--target-ids", o.target_ids, "Its token ids, instead of --target, with the start symbol");
  add_types(command, o);
  add_number<std::int64_t>(command, "--pad-to", o.pad_to,
                           "Append padding, which no token attends to, to the text, up to N tokens", 1, 1 << 30);
}

void add_labels(Command& command, Options& o) {
  add_ids(command, "--labels", o.labels,
          "What each row predicts, as in 5,-100,7; -100: nothing (default: the next token)");
  add_number<std::int32_t>(command, "--next-sentence", o.next_sentence,
                           "Add the loss of BERT's next sentence: 0 if the second part follows the first, else 1", 0,
                           1);
}

void add_optional(Command& command, const std::string& name, std::optional<std::string>& place,
                  const std::string& about) {
  command.add_option_function(
      name, [&place](const std::string& text) { place = text; }, about);
}

void add_ids(Command& command, const std::string& name, std::vector<std::int32_t>& ids, const std::string& about) {
  const auto take = [&ids, name](const std::string& text) { ids = parse_ids(text, name); };
  command.add_option_function(name, take, about);
}

Option* add_choice(Command& command, const std::string& name, std::string& place,
                   const std::vector<std::string>& choices, const std::string& about) {
  return command.add_option(name, place, about)->choices(choices);
}

void allow_hub(Options& o, std::string& place, HubWanted wanted) { o.hub_places.push_back({&place, nullptr, wanted}); }

void allow_hub(Options& o, std::vector<std::string>& places, HubWanted wanted) {
  o.hub_places.push_back({nullptr, &places, wanted});
}

void add_model(Command& command, Options& o, std::string& path) {
  command
      .add_option("MODEL", path,
                  "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME (default: the default model)")
      ->type_name("");
  allow_hub(o, path);
}

Option* add_file(Command& command, const std::string& name, std::string& path, const std::string& about) {
  return command.add_option(name, path, about)->type_name("FILE");
}

void add_now(Command& command, std::string& now) {
  command
      .add_option("--now", now, "The date and time that the template reads, such as 2026-01-02T03:04:05 (default: now)")
      ->type_name("TIME");
}

void add_list(Command& command, const std::string& name, std::vector<std::string>& list, const std::string& about) {
  const auto take = [&list](const std::string& value) { list.push_back(value); };
  command.add_option_function(name, take, about)->trigger_on_parse();
}

std::string read_text(const std::string& text) {
  if (text != "-") return text;
  std::string all;
  while (read_stdin(all)) continue;
  return all;
}

void share_inputs(Ranks& ranks, Options& o) {
  for (std::string* const text : {&o.first, &o.second}) {
    if (*text == "-") *text = ranks.broadcast(ranks.is_first() ? read_text("-") : "");
  }
  if (o.seed) return;
  std::uint64_t seed = std::random_device{}();
  ranks.broadcast(std::as_writable_bytes(std::span(&seed, 1)));
  o.seed = seed;
}

std::unique_ptr<const Tokenizer> tokenizer_of_targets(const Options& o, const std::string& language,
                                                      const std::string& path) {
  if (language.empty() && o.tokenizer_options.source_lang.empty()) return nullptr;
  auto tokenizer = load_tokenizer(path, {o.tokenizer_options.pattern, ""});
  if (language.empty()) return tokenizer;
  language_token(*tokenizer, language, "--target-lang");  // its error names the option
  return load_tokenizer(path, {o.tokenizer_options.pattern, language});
}

Compute compute_of(const Options& o) { return compute_named(o.compute).value(); }

void use_adapter(Session& session, const std::string& text) { session.add(adapter_of(text), *session.pool); }
void use_control(Session& session, const std::string& text) { session.add(control_of(text)); }

void split_model(const Options& o, Session& session) {
  std::shared_ptr<const Model>& model = session.checkpoint.model;
  std::shared_ptr<DistributedModel> split;
  if (o.splits_heads) {
    split = std::make_shared<TensorParallelModel>(*o.ranks, model);
  } else {
    split = std::make_shared<PipelineParallelModel>(*o.ranks, model);
  }
  model = split->model();
  for (AppliedAdapter& applied : session.applied.adapters) applied.adapter = split->part_of(*applied.adapter);
  session.split = split;
}

namespace {

Session open(const Options& o, const std::string& given, bool wants_tokenizer) {
  const std::string path = given.empty() ? default_model() : given;
  OpenOptions options;
  options.tokenizer = o.tokenizer;
  options.tokenizer_options = o.tokenizer_options;
  options.compute = compute_of(o);
  options.allowed_config_keys = o.allowed_config_keys;
  options.allowed_tensors = o.allowed_tensors;
  for (const std::string& text : o.adapters) options.adapters.push_back(adapter_of(text));
  for (const std::string& text : o.controls) options.controls.push_back(control_of(text));
  for (const std::string& text : o.dictionaries) options.dictionaries.push_back(dictionary_of(text));
  options.dictionary_use = dictionary_use_named(o.dictionary_use).value_or(DictionaryUse::automatic);
  options.skipped_tokens = o.skipped_tokens;
  if (o.ranks != nullptr && !o.dictionaries.empty()) {
    throw Unsupported("--split", "expected a model without dictionaries (--sae)");
  }
  Session session;
  session.pool = std::make_unique<ThreadPool>(o.thread_count());
  static_cast<OpenedModel&>(session) = vitrine::open_model(path, options, wants_tokenizer, *session.pool);
  for (const std::string& text : session.checkpoint.notes) note(text);
  session.whole_model = session.checkpoint.model;
  if (o.ranks != nullptr) split_model(o, session);
  return session;
}

}  // namespace

Session open_model(const Options& o, const std::string& given, bool needs_tokenizer) {
  Session session = open(o, given, needs_tokenizer);
  if (!needs_tokenizer || session.tokenizer != nullptr) return session;
  if (!session.checkpoint.tokenizer_path.empty()) std::rethrow_exception(session.why_no_tokenizer);
  throw BadInput(given.empty() ? default_model() : given, "contains no tokenizer; give --tokenizer, or --ids");
}

Session open_for_texts(const Options& o, const std::string& path, bool needs_tokenizer) {
  if (needs_tokenizer) return open_model(o, path, true);
  Session session = open(o, path, true);
  try {
    if (session.why_no_tokenizer) std::rethrow_exception(session.why_no_tokenizer);
  } catch (const BadInput&) {  // the folder has none; ids need none
  }
  return session;
}

Session open_session(const Options& o) {
  if (o.has_ids() && o.positionals > 1) throw UsageError("TEXT", "give TEXT or --ids, not both");
  if (o.has_ids() && o.suffix) throw UsageError("--suffix", "give TEXT, which comes before it, not --ids");
  if (!o.has_ids() && o.positionals == 0) throw MissingArgument("TEXT (or --ids)");
  const bool has_model = o.positionals == (o.has_ids() ? 1 : 2);
  if (has_model && o.first.empty()) throw BadInput("MODEL", "expected a path, got an empty text");
  std::error_code error;
  if (o.positionals == 2 && !fs::exists(o.first, error) && fs::exists(o.second, error)) {
    throw BadInput(o.first, "no such file or folder; MODEL comes first, then TEXT");
  }
  Session session = open_model(o, has_model ? o.first : "", !o.has_ids());
  if (o.pair && o.has_ids()) throw UsageError("--pair", "give --types with --ids");
  session.ids = o.ids;
  if (!o.has_ids()) {
    const std::string text = read_text(o.positionals == 1 ? o.first : o.second);
    if (o.suffix) {
      session.ids = fim_prompt(session.defaults(), text, *o.suffix, "--suffix", !o.no_special);
      return session;
    }
    const SpecialTokens policy = o.no_special || o.continues ? SpecialTokens::none : SpecialTokens::apply;
    if (o.pair) {
      PairEncoding pair = session.tokenizer->encode_pair(text, *o.pair, policy);
      session.ids = std::move(pair.ids);
      session.types = std::move(pair.types);
    } else {
      session.ids = session.tokenizer->encode(text, policy);
    }
    if (!o.continues) session.ids = ids_or_bos(std::move(session.ids), session.defaults(), "TEXT");
    if (session.ids.empty()) throw BadInput("TEXT", "expected at least one token to continue with");
  }
  return session;
}

void set_types(const Options& o, Session& session) {
  const ModelConfig& config = session.checkpoint.model->config();
  const std::int64_t n_types = config.encoder ? config.encoder->embedding.n_types : config.embedding.n_types;
  if (n_types == 0) session.types.clear();  // of a pair, to a model that reads it without types
  if (o.types.empty()) return;
  if (n_types == 0) throw BadInput("--types", "the tokens of this model have no types");
  if (o.types.size() != session.ids.size()) {
    throw BadInput("--types", "expected {} types, one for each token, got {}", session.ids.size(), o.types.size());
  }
  session.types = o.types;
}

Session open_full_session(const Options& o) {
  if (o.has_target_ids() && o.target) throw UsageError("--target", "give --target or --target-ids, not both");
  Session session = open_session(o);
  const ModelConfig& config = session.checkpoint.model->config();
  const bool has_target = o.has_target_ids() || o.target;
  if (has_target && !config.encoder) throw BadInput("--target", "the model has no encoder, so it reads one text only");
  if (!has_target && config.encoder) {
    throw BadInput("--target", "the model is an encoder–decoder: give what its decoder reads (--target, --target-ids)");
  }
  session.target = o.target_ids;
  if (o.target) {
    if (session.tokenizer == nullptr) throw BadInput("--target", "--ids needs --target-ids");
    session.target =
        decoder_ids(session.defaults(), *o.target, o.no_special ? SpecialTokens::none : SpecialTokens::apply);
  }
  set_types(o, session);
  const auto n = static_cast<std::int64_t>(session.ids.size());
  if (o.pad_to > 0 && o.pad_to < n) throw BadInput("--pad-to", "the text has {} tokens already", n);
  if (o.pad_to > n) {
    session.n_padding = o.pad_to - n;
    session.ids.resize(static_cast<std::size_t>(o.pad_to), session.checkpoint.pad_id.value_or(0));
    if (!session.types.empty()) session.types.resize(session.ids.size());
  }
  return session;
}

Tokens Session::tokens() const { return has_encoder() ? Tokens(target, types, ids) : Tokens(ids, types); }

Pass Session::make_pass(const GenerateContext& context, Arena& arena) const {
  const auto n_rows = static_cast<std::int64_t>(rows().size());
  Pass pass = context.make_pass(arena, {{0, n_rows, 0, nullptr, has_encoder() ? 0 : -1}});
  if (has_encoder()) pass.sources = {{0, static_cast<std::int64_t>(ids.size())}};
  (has_encoder() ? pass.sources : pass.segments)[0].n_padding = n_padding;
  context.set_modifiers(pass);
  return pass;
}

Session open_learning_session(const Options& o, const char* where) {
  if (o.compute == "int8" || o.compute == "bf16") {
    throw Unsupported("--compute", "gradients are computed in f32, got {}", o.compute);
  }
  if (kv_types(o.kv) != KvTypes()) throw Unsupported("--kv", "gradients need f32 keys and values, got {}", o.kv);
  Session session = open_full_session(o);
  const ModelConfig& config = session.checkpoint.model->config();
  const std::size_t n_rows = session.rows().size();
  session.next_sentence = o.next_sentence;
  if (o.next_sentence && !(config.pooler && config.pooler->next_sentence)) {
    throw BadInput("--next-sentence", "the model does not predict the next sentence");
  }
  if (!o.labels.empty()) {
    if (o.labels.size() != n_rows)
      throw BadInput("--labels", "expected {} labels, one a row, got {}", n_rows, o.labels.size());
    for (const std::int32_t label : o.labels) {
      const bool fits = label == kNoLabel || (label >= 0 && label < config.vocab_size);
      if (!fits) throw BadInput("--labels", "expected ids from 0 to {} or -100, got {}", config.vocab_size - 1, label);
    }
    session.targets = o.labels;
    return session;
  }
  if (is_bidirectional(config)) {
    throw Unsupported(where, "the model attends to later tokens, so it has no next-token loss; give --labels");
  }
  if (n_rows < 2) {
    throw BadInput(where, "expected at least 2 tokens (the first predicts the second), got {}", n_rows);
  }
  session.targets.assign(session.rows().begin() + 1, session.rows().end());
  return session;
}

double backward_from_targets(const Session& session, Pass& pass, Gradients& params) {
  return backward_from_targets(*session.checkpoint.model, pass, session.tokens(), session.targets, params,
                               session.next_sentence);
}

std::int64_t bytes_in(const std::string& text, const std::string& option) {
  std::string digits = text;
  std::int64_t unit = 1;
  for (const auto& [letter, factor] : {std::pair{'K', 1 << 10}, std::pair{'M', 1 << 20}, std::pair{'G', 1 << 30}}) {
    if (!digits.ends_with(letter)) continue;
    unit = factor;
    digits.pop_back();
    break;
  }
  const auto number = number_in<std::int64_t>(digits);
  constexpr std::int64_t kMax = std::int64_t{1} << 40;
  if (!number || *number <= 0 || *number > kMax / unit) {
    throw BadInput(option, "expected a size such as 16M, up to 1024G, got \"{}\"", text);
  }
  return *number * unit;
}

void add_state_every(Command& command, Options& o) {
  add_number<std::int64_t>(command, "--state-every", o.state_every,
                           fmt::format("Of layers with a state, keep it every N tokens of a text, for texts that begin "
                                       "alike (default: {})",
                                       KvCache::kSnapshotInterval),
                           1, 1 << 30);
}

GenerateContext Session::context(const Options& o) const {
  GenerateContext context{checkpoint.model.get(), pool.get(),     &default_kernels(),
                          tokenizer.get(),        kv_types(o.kv), &interrupted()};
  context.compute = compute;
  context.state_every = o.state_every;
  context.modifiers = applied;
  context.split = split.get();
  return context;
}

std::string Session::piece(std::int32_t id) const { return piece_of(tokenizer.get(), id); }

std::string Session::label(std::int32_t id) const {
  if (tokenizer == nullptr || id >= tokenizer->target().vocab_size()) return "#" + std::to_string(id);
  const std::string text = tokenizer->target().bytes(id);
  if (!text.empty() && is_valid_utf8(text)) return in_quotes(text);
  const std::string piece = in_quotes(tokenizer->target().piece(id));  // a piece may hold line breaks
  return piece.substr(1, piece.size() - 2);
}

}  // namespace vitrine::cli
