// vitrine serve: the HTTP server.
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <future>

#include "base/digest.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/feature_index.h"
#include "cli/output.h"
#include "cli/served_list.h"
#include "cli/store_options.h"
#include "serve/http.h"
#include "serve/routes.h"

namespace vitrine::cli {
namespace {

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

/// A name for each key that tells nothing of it.
std::vector<std::string> client_names(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    Digest digest = Digest::sha256();
    digest.update_text("vitrine client");
    digest.update_text(key);
    names.push_back(digest.finish());
  }
  return names;
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

/// Waits until MODEL, which has been opened, is served.
void wait_for_first(ModelRegistry& models) {
  std::promise<void> news;
  const auto wish = models.wish(*models.find(""), 0, [&] { news.set_value(); });
  if (wish->take()) return;
  news.get_future().wait();
  wish->take();
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
  const std::vector<std::string> clients = client_names(config.access.keys);
  config.max_connections = o.max_connections;
  config.max_bodies = o.queue_memory_mib << 20;
  config.access_log = o.access_log;
  config.drain_time = std::chrono::duration<double>(o.drain_seconds);
  config.interrupt = &interrupted();
  const std::shared_ptr<PrefixStore> store = open_store(o, "prefix-store");
  RoundLoop loop;
  std::optional<ThreadPool> pool;
  std::optional<ModelRegistry> models;
  HttpServer server(std::move(config));  // answers 503 while there are no models

  pool.emplace(o.thread_count());
  ServedList list = list_models(o, {*pool, loop, store, true, clients});
  models.emplace(std::move(list.models), list.limits, loop);
  if (o.models.empty() || !o.model.empty()) wait_for_first(*models);
  server.serve(*models, loop);
  if (o.json) {
    print_json({{"url", server.url()}, {"models", models->names()}});
  } else {
    note(fmt::format("serving {} at {}", fmt::join(models->names(), ", "), server.url()));
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
  command
      .add_option("--models", o->models,
                  "Models that are loaded when requests ask for them: a folder, or a TOML file (docs/serving.md)")
      ->type_name("FOLDER|FILE");
  add_file(command, "--api-key-file", o->key_file, "File with API keys, one a line (default: VITRINE_API_KEY, if set)");
  add_file(command, "--admin-key-file", o->admin_key_file,
           "File with keys of those who may load and unload models and adapters, one a line (default: "
           "VITRINE_ADMIN_KEY, if set; without keys nobody may)");
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
  add_store(command, *o, "prefix-store");
  command.add_flag("--no-prefix-cache", o->no_prefix_cache,
                   "Read every prompt anew, also where it begins as an earlier one of the same key");
  add_number<double>(command, "--round-ms", o->round_ms,
                     "Milliseconds that prompts may delay the next token of a stream (default: 250)", 1, 60'000);
  add_number<std::int64_t>(command, "--max-body", o->max_body_mib, "MiB of the body of a request (default: 4)", 1,
                           1024);
  add_number<std::int64_t>(command, "--max-trace", o->max_trace_mib,
                           "MiB of the values that a request may read from the forward (default: 64)", 1, 1 << 20);
  command
      .add_option("--no-doors", o->closed_doors,
                  "Interfaces to leave out, with commas: messages, responses, ollama, tei, cohere, jina")
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
  add_dictionaries(command, *o);
  add_features_index(command, o->features_index, "whose features POST /v1/features shows");
  add_probes(command, *o);
  finish_command(
      command, o, run_serve,
      "With --json, the first line of stdout is {\"url\",\"models\"}. docs/serving.md describes the routes.\n"
      "--adapter NAME=PATH[=SCALE] and --control NAME=PATH[=SCALE][:FIRST-LAST] are available to requests by name; "
      "without NAME they change\n"
      "all requests.\n"
      "Example: vitrine serve --port 8080 --name my-model");
}

}  // namespace vitrine::cli
