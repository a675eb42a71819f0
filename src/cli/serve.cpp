// vitrine serve: the HTTP server.
#include <malloc.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/nearest.h"
#include "checkpoint/adapters/control.h"
#include "checkpoint/adapters/modifier_text.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/speculation_options.h"
#include "generate/prefix_cache.h"
#include "serve/http.h"
#include "serve/routes.h"
#include "tokenizer/read/chat_templates.h"

namespace vitrine::cli {
namespace {

struct ServeOptions : Options, SpeculationOptions {
  std::string model, host = "127.0.0.1", key_file, admin_key_file, adapter_folder, access_log, template_path;
  std::vector<std::string> names, origins;
  std::uint16_t port = 8080;
  std::size_t max_sequences = 32, max_queue = 4096, max_connections = 4096;
  std::int64_t max_body_mib = 4, max_trace_mib = 64, queue_memory_mib = 256;
  std::optional<std::int64_t> kv_memory_mib, prefix_memory_mib;
  std::int64_t constraint_memory_mib = 64;
  double round_ms = 250, drain_seconds = 30;
  bool no_prefix_cache = false, no_inspect = false;
  std::string unknown_fields = "refuse", closed_doors;
};

bool is_loopback(const std::string& host) { return host == "127.0.0.1" || host == "::1" || host == "localhost"; }

std::vector<std::string> doors_of(const std::string& list) {
  std::vector<std::string> doors;
  if (list.empty()) return doors;
  const std::vector<std::string> known = door_names();
  for (const std::string_view name : split(list, ',')) {
    if (std::ranges::count(known, name) == 0) {
      throw UsageError("--no-doors", fmt::format("expected {}, got \"{}\"{}", fmt::join(known, ", "), name,
                                                 did_you_mean(name, known)));
    }
    doors.emplace_back(name);
  }
  return doors;
}

/// The keys of a file, else those of a variable; none if there is neither.
std::vector<std::string> read_keys(const std::string& file, const char* variable) {
  if (!file.empty()) return parse_keys(MappedFile::open_or_read(file)->text(), file);
  const char* const text = std::getenv(variable);
  return text != nullptr ? parse_keys(text, variable) : std::vector<std::string>{};
}

AccessRules access_rules(const ServeOptions& o) {
  AccessRules rules;
  rules.keys = read_keys(o.key_file, "VITRINE_API_KEY");
  rules.admin_keys = read_keys(o.admin_key_file, "VITRINE_ADMIN_KEY");
  if (rules.keys.empty() && !is_loopback(o.host)) {
    throw BadInput("--host", "other machines can reach {}: give keys with --api-key-file or VITRINE_API_KEY", o.host);
  }
  rules.hosts = {"127.0.0.1", "localhost", "[::1]"};
  for (const std::string& origin : o.origins) rules.origins.push_back(parse_origin(origin, "--cors"));
  rules.closed = doors_of(o.closed_doors);
  rules.max_body = static_cast<std::uint64_t>(o.max_body_mib) << 20;
  return rules;
}

/// Half of the machine's memory, unless the caller sets it.
std::int64_t kv_bytes(const ServeOptions& o) {
  if (o.kv_memory_mib) return *o.kv_memory_mib << 20;
  struct sysinfo info {};
  ::sysinfo(&info);
  return static_cast<std::int64_t>(info.totalram * info.mem_unit / 2);
}

/// The bytes of the caches of `n` sequences of `length` tokens.
std::int64_t cache_bytes(const GenerateContext& context, std::int64_t n, std::int64_t length) {
  CountedKvMemory counted;
  return n * context.model->make_cache(length, context.kv_types, counted).bytes();
}

/// What prefixes may keep: four sequences as long as the context, with their snapshots, unless the caller sets it.
std::int64_t prefix_bytes(const ServeOptions& o, const GenerateContext& context) {
  if (o.no_prefix_cache) return 0;
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
  while (length > kShortest && !fit(length)) length /= 2;
  return length;
}

/// The names of the model in requests: those of --name, else that of its file or folder.
std::vector<std::string> names_of(const ServeOptions& o) {
  if (!o.names.empty()) return o.names;
  namespace fs = std::filesystem;
  fs::path path = fs::path(o.model.empty() ? default_model() : o.model).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::error_code error;
  const std::string given = o.as_given(o.model);
  if (is_hub_name(given) && fs::is_directory(path, error)) {  // the folder has the name of a commit
    const std::string repository = parse_hub_name(given).repository;
    return {repository.substr(repository.find('/') + 1)};
  }
  return {(fs::is_directory(path, error) ? path.filename() : path.stem()).string()};
}

/// Those of all requests have no name.
Options without_named(const ServeOptions& o) {
  Options result = o;
  std::erase_if(result.adapters, [](const std::string& text) { return !parse_adapter_text(text).name.empty(); });
  std::erase_if(result.controls, [](const std::string& text) { return !parse_control_text(text).name.empty(); });
  return result;
}

void open_modifiers(const ServeOptions& o, const Session& session, ServedModifiers& modifiers) {
  modifiers.of_all = session.applied;
  modifiers.base = &session.checkpoint;
  std::error_code error;
  if (!o.adapter_folder.empty() && !std::filesystem::is_directory(o.adapter_folder, error)) {
    throw BadInput("--adapter-dir", "{} is no folder{}", o.adapter_folder, did_you_mean_file(o.adapter_folder));
  }
  modifiers.adapter_folder = o.adapter_folder;
  for (const std::string& text : o.adapters) {
    const ModifierText own = parse_adapter_text(text);
    if (own.name.empty()) continue;
    modifiers.named.add(own.name, {load_adapter(own.path, session.checkpoint, *session.pool), own.scale});
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

ServedModel served_model(const ServeOptions& o, const Session& session, ChatTemplates templates,
                         const ChatFormat* chat) {
  const ModelConfig& config = session.checkpoint.model->config();
  ServedModel model;
  model.names = names_of(o);
  model.created = std::time(nullptr);
  model.family = session.checkpoint.family;
  model.vocab_size = config.encoder ? config.encoder->vocab_size : config.vocab_size;
  model.max_seq_len = config.encoder ? config.encoder->max_seq_len : config.max_seq_len;
  model.d_model = config.encoder ? config.encoder->d_model : config.d_model;
  model.can_generate = !config.encoder && !is_bidirectional(config);
  model.tokenizer = session.tokenizer.get();
  model.chat = chat;
  model.templates = std::move(templates);
  const SamplingConfig otherwise = model.defaults.otherwise;
  model.defaults = session.defaults();
  model.defaults.otherwise = otherwise;
  if (model.defaults.constraints != nullptr) {
    model.defaults.constraints->limit(static_cast<std::size_t>(o.constraint_memory_mib) << 20);
  }
  model.chat_stop_ids = model.defaults.stop_ids;
  if (chat != nullptr) {
    if (const auto id = chat->end_of_answer()) model.chat_stop_ids.push_back(*id);
  }
  model.model = session.checkpoint.model.get();
  model.can_inspect = !o.no_inspect;
  model.unknown_fields = o.unknown_fields == "ignore" ? UnknownFields::ignore : UnknownFields::refuse;
  model.max_trace_bytes = o.max_trace_mib << 20;
  model.sentences = read_sentence_config(session.checkpoint.tokenizer_path, session.tokenizer.get(), model.max_seq_len);
  return model;
}

/// Lets the process have a file for each connection, as far as the system permits it.
void allow_files(std::size_t n_connections) {
  constexpr rlim_t kOthers = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, n_connections + kOthers));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Makes the allocator return large blocks to the system at once. By default it keeps blocks of up to 32 MiB after the
/// first of that size, and what requests leave between them is never returned: after 1,000 clients, 140 MiB.
void return_memory() { ::mallopt(M_MMAP_THRESHOLD, 128 << 10); }

void run_serve(const ServeOptions& o) {
  return_memory();
  allow_files(o.max_connections);
  stop_cleanly();
  HttpConfig config;
  config.host = o.host;
  config.port = o.port;
  config.access = access_rules(o);
  config.max_connections = o.max_connections;
  config.max_bodies = o.queue_memory_mib << 20;
  config.access_log = o.access_log;
  config.drain_time = std::chrono::duration<double>(o.drain_seconds);
  config.interrupt = &interrupted();
  Metrics metrics;
  Session session;
  std::optional<OpenedSpeculation> speculation;
  std::optional<ChatFormat> chat;
  ServedModel model;
  ServedModifiers modifiers;
  std::optional<KvPool> pool;
  std::optional<PrefixCache> prefixes;
  RoundLoop loop;
  std::shared_ptr<Scheduler> scheduler;
  HttpServer server(std::move(config), metrics);  // answers 503 while the model is being loaded

  session = open_for_texts(without_named(o), o.model, false);
  open_modifiers(o, session, modifiers);
  ChatTemplates templates = open_chat_templates(o.model.empty() ? default_model() : o.model, o.template_path);
  chat = open_chat(session, templates);
  model = served_model(o, session, std::move(templates), chat ? &*chat : nullptr);
  model.modifiers = &modifiers;
  GenerateContext context = session.context(o);
  context.interrupt = nullptr;  // rounds end; the server stops after them
  context.speculation = speculation.emplace(o, o, session, "lookup").get();
  pool.emplace(kv_bytes(o), block_length(context, kv_bytes(o), o.max_sequences));
  if (const std::int64_t bytes = prefix_bytes(o, context); bytes > 0) context.prefixes = &prefixes.emplace(bytes);
  const SchedulerConfig rounds{o.max_sequences, o.max_queue, o.queue_memory_mib << 20, o.round_ms / 1000};
  scheduler = std::make_shared<Scheduler>(context, *pool, rounds, metrics, loop);
  loop.add(scheduler);
  server.serve(model, *scheduler, loop);
  if (o.json) {
    print_json({{"url", server.url()}, {"models", model.names}});
  } else {
    note(fmt::format("serving {} at {}", fmt::join(model.names, ", "), server.url()));
  }
  loop.run();
  server.finish();
}

}  // namespace

void add_serve(Command& program) {
  const auto [command, o] =
      new_command<ServeOptions>(program, "serve", "Serve a model over HTTP, with OpenAI's interface");
  add_model(command, *o, o->model);
  command.add_option("--host", o->host, "The address to listen at (default: 127.0.0.1); others need keys")
      ->type_name("ADDRESS");
  add_number<std::uint16_t>(command, "--port", o->port, "The port to listen at; 0: any free one (default: 8080)");
  add_list(command, "--name", o->names,
           "The model's name in requests; may be given several times (default: the file's)");
  add_file(command, "--api-key-file", o->key_file, "File with API keys, one a line (default: VITRINE_API_KEY, if set)");
  add_file(command, "--admin-key-file", o->admin_key_file,
           "File with keys of those who may add and remove adapters, one a line (default: VITRINE_ADMIN_KEY, if set; "
           "without keys nobody may)");
  add_file(command, "--adapter-dir", o->adapter_folder, "The folder that adapters are added from");
  add_list(command, "--cors", o->origins,
           "Origin of web pages that may use the server, \"*\" for all; may be given several times");
  add_file(command, "--template", o->template_path, "File with a chat template (default: the model's)");
  allow_hub(*o, o->template_path, HubWanted::chat_template);
  add_number<std::size_t>(command, "--max-sequences", o->max_sequences, "Sequences that run at a time (default: 32)", 1,
                          4096);
  add_number<std::size_t>(command, "--max-queue", o->max_queue,
                          "Requests of an API key that may wait; more are answered with status 429 (default: 4096)", 1,
                          1 << 20);
  add_number<std::int64_t>(command, "--queue-memory", o->queue_memory_mib,
                           "MiB of all requests that wait; more are answered the same (default: 256)", 1, 1 << 30);
  add_number<std::int64_t>(command, "--kv-memory", o->kv_memory_mib,
                           "MiB of the KV caches of running sequences (default: half of the memory)", 1, 1 << 30);
  add_number<std::int64_t>(command, "--constraint-memory", o->constraint_memory_mib,
                           "MiB for compiled constraints that requests share", 0, 1 << 20);
  add_number<std::int64_t>(command, "--prefix-memory", o->prefix_memory_mib,
                           "MiB of these for texts that have ended, for prompts that begin alike (default: those of 4 "
                           "sequences as long as the context)",
                           0, 1 << 30);
  add_state_every(command, *o);
  add_speculation(command, *o, *o, "lookup");
  command.add_flag("--no-prefix-cache", o->no_prefix_cache,
                   "Read every prompt anew, also where it begins as an earlier one of the same key");
  add_number<double>(command, "--round-ms", o->round_ms,
                     "Milliseconds that prompts may delay the next token of a stream (default: 250)", 1, 60'000);
  add_number<std::int64_t>(command, "--max-body", o->max_body_mib, "MiB of the body of a request (default: 4)", 1,
                           1024);
  add_number<std::int64_t>(command, "--max-trace", o->max_trace_mib,
                           "MiB of the values that a request may read from the forward (default: 64)", 1, 1 << 20);
  command
      .add_option("--no-doors", o->closed_doors, "Interfaces to leave out, with commas: messages, responses, ollama")
      ->type_name("NAMES");
  command.add_flag("--no-inspect", o->no_inspect, "Refuse requests that read or change values of the forward");
  add_choice(command, "--unknown-fields", o->unknown_fields, {"refuse", "ignore"},
             "What happens to a field of a request that neither vitrine nor OpenAI, vLLM or llama-server has (default: "
             "refuse)");
  add_number<std::size_t>(command, "--max-connections", o->max_connections,
                          "Open connections; more wait (default: 4096)", 1, 1 << 16);
  add_number<double>(command, "--drain-seconds", o->drain_seconds,
                     "After SIGTERM, seconds until requests that have not ended are ended (default: 30)", 0, 86'400);
  add_file(command, "--access-log", o->access_log, "Append a line for each request to this file (default: stderr)");
  add_modifiers(command, *o);
  finish_command(
      command, o, run_serve,
      "With --json, the first line of stdout is {\"url\",\"models\"}. docs/serving.md describes the routes.\n"
      "--adapter NAME=PATH[=SCALE] and --control NAME=PATH[=SCALE][:FIRST-LAST] are available to requests by name; "
      "without NAME they change\n"
      "all requests.\n"
      "Example: vitrine serve --port 8080 --name my-model");
}

}  // namespace vitrine::cli
