#include "cli/served_list.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "checkpoint/adapters/modifier_text.h"
#include "cli/model_list.h"
#include "cli/opened_model.h"
#include "cli/output.h"
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
ModelSummary read_headers(const ServeOptions& o, const std::string& path) {
  if (!is_hub_name(path)) return summary_of(o, path);
  const HubName name = parse_hub_name(path);
  HubAccess access;
  access.poll = [] {
    if (interrupted()) throw Interrupted();
  };
  access.offline = true;
  try {
    return summary_of(o, pull(name, HubWanted::model, access).path);
  } catch (const BadInput&) {
    if (o.offline) throw;
  }
  access.offline = false;
  return summary_of(o, fetch_headers(name, access).path);
}

/// The same of a model with its draft.
ModelSummary read_summary(const ServeOptions& o) {
  ModelSummary summary = read_headers(o, o.model.empty() ? default_model() : o.model);
  if (!o.draft.empty()) summary.draft_bytes = read_headers(o, o.draft).bytes;
  return summary;
}

/// A model of a list, whose files may be on a hub.
class ListedFiles {
 public:
  explicit ListedFiles(std::shared_ptr<const ServeOptions> options) : options_(std::move(options)) {}

  /// Fetches what the cache lacks: once, so that a model stays the same while the server runs.
  ModelSummary fetch() {
    std::error_code error;
    if (found_ == nullptr || !std::filesystem::exists(found_->model, error)) {
      auto options = std::make_unique<ServeOptions>(*options_);
      fetch_into(*options);
      found_ = std::move(options);
    }
    return read_summary(*found_);
  }
  const ServeOptions& found() const { return *found_; }  ///< After fetch(): the options with paths instead of names.

 private:
  static void fetch_into(ServeOptions& o) {
    allow_hub(o, o.model);
    allow_hub(o, o.draft);
    allow_hub(o, o.tokenizer, HubWanted::tokenizer);
    allow_hub(o, o.template_path, HubWanted::chat_template);
    allow_hub(o, o.adapters);
    allow_hub(o, o.controls);
    fetch_named(o, o.names.front());
  }

  const std::shared_ptr<const ServeOptions> options_;
  std::unique_ptr<const ServeOptions> found_;
};

/// How many of the models can be in memory at the same time, at least one.
std::int64_t most_loaded(const std::vector<ModelEntry>& models, std::int64_t memory) {
  std::vector<std::int64_t> bytes;
  for (const ModelEntry& m : models) bytes.push_back(m.summary.bytes + m.summary.draft_bytes);
  std::ranges::sort(bytes);
  std::int64_t n = 0;
  for (const std::int64_t b : bytes) {
    memory -= b;
    if (memory < 0) break;
    ++n;
  }
  return std::max<std::int64_t>(n, 1);
}

/// What a model is opened with.
struct Rounds {
  SharedRounds shared;
  std::int64_t kv_bytes;  // of a model
};

std::unique_ptr<ServedFile> open_model(const ServeOptions& options, const Rounds& rounds, Metrics& metrics) {
  return std::make_unique<ServedFile>(options, rounds.shared, rounds.kv_bytes, metrics);
}

/// MODEL, which never leaves unless an administrator wants it.
ModelEntry entry_of_model(const ServeOptions& o) {
  ModelEntry entry{.name = o.names.front(), .aliases = {o.names.begin() + 1, o.names.end()}};
  for (const std::string& text : o.adapters) {
    if (const std::string name = parse_adapter_text(text).name; !name.empty()) entry.adapters.push_back(name);
  }
  entry.ttl = std::chrono::seconds(0);
  entry.preloads = true;
  entry.where = "--name";
  entry.summary = read_summary(o);
  return entry;
}

/// MODEL is opened now, for its errors.
void open_first(ModelEntry& entry, std::shared_ptr<const ServeOptions> options, const Rounds& rounds) {
  const auto opened = std::make_shared<std::unique_ptr<ServedFile>>(open_model(*options, rounds, *entry.metrics));
  entry.load = [opened, options = std::move(options), rounds,
                metrics = entry.metrics]() -> std::unique_ptr<LoadedModel> {
    return *opened != nullptr ? std::move(*opened) : open_model(*options, rounds, *metrics);
  };
}

ModelEntry entry_of_listed(const ListedModel& model) {
  ModelEntry entry{.name = model.name, .aliases = model.aliases, .adapters = model.adapters};
  entry.ttl = model.ttl;
  entry.preloads = model.preloads;
  entry.where = model.place;
  try {
    entry.summary = read_summary(*model.options);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    entry.error = e.what();
  }
  return entry;
}

void open_later(ModelEntry& entry, std::shared_ptr<const ServeOptions> options, Rounds rounds) {
  rounds.shared.needs_store = false;
  const auto files = std::make_shared<ListedFiles>(std::move(options));
  entry.prepare = [files] { return files->fetch(); };
  entry.load = [files, rounds, metrics = entry.metrics]() -> std::unique_ptr<LoadedModel> {
    auto model = open_model(files->found(), rounds, *metrics);
    model->read_ahead();
    return model;
  };
}

}  // namespace

ServedList list_models(const ServeOptions& o, SharedRounds shared) {
  ServedList list;
  list.limits.max_queue = o.max_queue;
  list.limits.memory = std::numeric_limits<std::int64_t>::max();
  ModelList others;
  if (!o.models.empty()) {
    others = read_model_list(o.models, o);
    list.limits.memory = others.memory.value_or(memory_of_machine() / 10 * 7);
    if (others.ttl) list.limits.ttl = *others.ttl;
    list.limits.report = [](const std::string& text) { note(text); };
  }
  const auto own = std::make_shared<ServeOptions>(o);
  own->names = names_of(o);
  const bool has_model = o.models.empty() || !o.model.empty();
  if (has_model) list.models.push_back(entry_of_model(*own));
  for (const ListedModel& model : others.models) list.models.push_back(entry_of_listed(model));

  const std::int64_t kv_bytes = o.kv_memory_mib ? *o.kv_memory_mib << 20 : memory_of_machine() / 2;
  for (const ModelEntry& entry : list.models) entry.metrics->prefix_store = shared.store;
  const Rounds rounds{std::move(shared), kv_bytes / most_loaded(list.models, list.limits.memory)};
  const auto first_listed = list.models.begin() + (has_model ? 1 : 0);
  if (has_model) open_first(list.models.front(), own, rounds);
  for (std::size_t i = 0; i < others.models.size(); ++i) {
    open_later(first_listed[static_cast<std::ptrdiff_t>(i)], others.models[i].options, rounds);
  }
  return list;
}

}  // namespace vitrine::cli
