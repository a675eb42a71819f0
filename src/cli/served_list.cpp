#include "cli/served_list.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "cli/model_list.h"
#include "cli/opened_model.h"
#include "hub/pull.h"

namespace vitrine::cli {
namespace {

std::int64_t memory_of_machine() {
  struct sysinfo info {};
  ::sysinfo(&info);
  return static_cast<std::int64_t>(info.totalram * info.mem_unit);
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

/// What the headers of a model say, which are fetched if the cache does not have the model.
ModelSummary read_summary(const ServeOptions& o) {
  if (!is_hub_name(o.model)) return summary_of(o, o.model);
  const HubName name = parse_hub_name(o.model);
  HubAccess access;
  access.offline = true;
  try {
    return summary_of(o, pull(name, HubWanted::model, access).path);
  } catch (const BadInput&) {
    if (o.offline) throw;
  }
  access.offline = false;
  return summary_of(o, fetch_headers(name, access).path);
}

/// How many of the models can be in memory at the same time, at least one.
std::int64_t most_loaded(const std::vector<ModelEntry>& models, std::int64_t memory) {
  std::vector<std::int64_t> bytes;
  for (const ModelEntry& model : models) bytes.push_back(model.summary.bytes);
  std::ranges::sort(bytes);
  std::int64_t n = 0;
  for (const std::int64_t b : bytes) {
    memory -= b;
    if (memory < 0) break;
    ++n;
  }
  return std::max<std::int64_t>(n, 1);
}

/// Where the rounds of all models have their memory.
struct Rounds {
  ThreadPool& pool;
  RoundLoop& loop;
  std::int64_t kv_bytes;  // of a model
};

std::unique_ptr<ServedFile> open_model(const ServeOptions& options, const ModelEntry& entry, const Rounds& rounds) {
  return std::make_unique<ServedFile>(options, rounds.pool, rounds.kv_bytes, *entry.metrics, rounds.loop);
}

/// MODEL, which never leaves unless an administrator wants it.
ModelEntry entry_of_model(const ServeOptions& o) {
  ModelEntry entry{.name = o.names.front(), .aliases = {o.names.begin() + 1, o.names.end()}};
  entry.ttl = std::chrono::seconds(0);
  entry.preloads = true;
  entry.summary = summary_of(o, o.model.empty() ? default_model() : o.model);
  return entry;
}

ModelEntry entry_of_listed(const ListedModel& model) {
  ModelEntry entry{.name = model.name, .aliases = model.aliases, .adapters = model.adapters};
  entry.ttl = model.ttl;
  entry.preloads = model.preloads;
  try {
    entry.summary = read_summary(*model.options);
  } catch (const Error& e) {
    entry.error = e.what();
  }
  return entry;
}

}  // namespace

ServedList list_models(const ServeOptions& o, ThreadPool& pool, RoundLoop& loop) {
  ServedList list;
  list.limits.max_queue = o.max_queue;
  list.limits.memory = std::numeric_limits<std::int64_t>::max();
  ModelList others;
  if (!o.models.empty()) {
    others = read_model_list(o.models, o);
    list.limits.memory = others.memory.value_or(memory_of_machine() / 10 * 7);
    if (others.ttl) list.limits.ttl = *others.ttl;
  }
  const bool has_model = o.models.empty() || !o.model.empty();
  const auto own = std::make_shared<ServeOptions>(o);
  own->names = names_of(o);
  if (has_model) list.models.push_back(entry_of_model(*own));
  for (const ListedModel& model : others.models) list.models.push_back(entry_of_listed(model));

  const std::int64_t kv_bytes = o.kv_memory_mib ? *o.kv_memory_mib << 20 : memory_of_machine() / 2;
  const Rounds rounds{pool, loop, kv_bytes / most_loaded(list.models, list.limits.memory)};
  for (std::size_t i = 0; i < list.models.size(); ++i) {
    ModelEntry& entry = list.models[i];
    const bool is_own = has_model && i == 0;
    const auto options = is_own ? own : others.models[i - (has_model ? 1 : 0)].options;
    // MODEL is opened now, for its errors.
    const auto opened =
        std::make_shared<std::unique_ptr<ServedFile>>(is_own ? open_model(*own, entry, rounds) : nullptr);
    entry.load = [opened, options, rounds, metrics = entry.metrics]() -> std::unique_ptr<LoadedModel> {
      if (*opened != nullptr) return std::move(*opened);
      fetch_named(*options);
      return std::make_unique<ServedFile>(*options, rounds.pool, rounds.kv_bytes, *metrics, rounds.loop);
    };
  }
  return list;
}

}  // namespace vitrine::cli
