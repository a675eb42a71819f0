// vitrine pull and vitrine models: fetches models from a hub, lists and deletes those that are in the cache.
#include "hub/pull.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/hub.h"
#include "cli/line_reader.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/table.h"
#include "hub/stored_models.h"

namespace vitrine::cli {
namespace {

struct PullCommand : Options {
  std::string name;
  bool dry_run = false, force = false;
  int jobs = HubAccess().jobs;
};

Json json_of(const PullResult& result) {
  Json files = Json::array();
  for (const PulledFile& file : result.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"cached", file.cached}});
  }
  return {{"name", result.name},
          {"commit", result.commit},
          {"path", result.path},
          {"bytes", result.bytes},
          {"fetched_bytes", result.fetched_bytes},
          {"resumed_bytes", result.resumed_bytes},
          {"files", std::move(files)}};
}

void run_pull(const PullCommand& o) {
  const HubName name = parse_hub_name(o.name);
  PullResult result;
  {
    const CleanStop guard;
    PullDisplay display;
    HubAccess access = hub_access(o, display, o.jobs);
    if (o.force) access.check = {};
    result = pull(name, HubWanted::model, access, o.dry_run);
  }
  if (o.json) return print_json(json_of(result));
  if (!o.dry_run) return print(result.path + "\n");
  Table table({{"file"}, {"bytes", Table::Align::right}, {""}});
  for (const PulledFile& file : result.files) {
    table.add({file.name, grouped(file.bytes), file.cached ? "in the cache" : ""});
  }
  table.rule();
  table.add({"commit " + result.commit, grouped(result.bytes)});
  print(table.text());
}

struct ModelsCommand : Options {
  std::string deleted;
  bool yes = false;
};

Json json_of(const std::string& cache, const std::vector<StoredModel>& models) {
  Json list = Json::array();
  for (const StoredModel& model : models) {
    Json revisions = Json::array();
    for (const StoredRevision& r : model.revisions) {
      revisions.push_back({{"commit", r.commit}, {"refs", r.refs}, {"files", r.files}});
    }
    list.push_back({{"name", model.name},
                    {"bytes", model.bytes},
                    {"part_bytes", model.part_bytes},
                    {"revisions", std::move(revisions)}});
  }
  return {{"cache", cache}, {"models", std::move(list)}};
}

void list_models(const std::string& cache, const std::vector<StoredModel>& models) {
  if (models.empty()) return print(fmt::format("no models in {}\n", cache));
  Table table({{"model"},
               {"revision"},
               {"files", Table::Align::right},
               {"size", Table::Align::right},
               {"parts", Table::Align::right}});
  for (const StoredModel& model : models) {
    const std::string parts = model.part_bytes > 0 ? byte_text(model.part_bytes) : "";
    if (model.revisions.empty()) table.add({model.name, "", "", byte_text(model.bytes), parts});
    bool is_first = true;
    for (const StoredRevision& r : model.revisions) {
      const std::string revision =
          r.refs.empty() ? r.commit : fmt::format("{} ({})", fmt::join(r.refs, ", "), r.commit.substr(0, 8));
      table.add({is_first ? model.name : "", revision, std::to_string(r.files.size()),
                 is_first ? byte_text(model.bytes) : "", is_first ? parts : ""});
      is_first = false;
    }
  }
  print(fmt::format("{}\n\n{}", cache, table.text()));
}

/// Whether the person at the terminal agrees. Throws UsageError if there is none.
bool agrees(const std::string& name, const StoredDeletion& deletion) {
  if (!is_terminal(STDIN_FILENO)) throw UsageError("--delete", "without a terminal it needs --yes");
  write_stderr(fmt::format("Delete {}, {}? [y/N] ", name, byte_text(deletion.bytes)));
  std::string answer;
  read_stdin(answer);
  return answer.starts_with('y') || answer.starts_with('Y');
}

void run_models(const ModelsCommand& o) {
  const std::string cache = hub_cache_folder();
  if (o.deleted.empty()) {
    if (o.yes) throw UsageError("--yes", "it has no effect without --delete");
    const std::vector<StoredModel> models = stored_models(cache);
    return o.json ? print_json(json_of(cache, models)) : list_models(cache, models);
  }
  const StoredDeletion deletion = plan_deletion(cache, o.deleted);
  if (!o.yes && !agrees(o.deleted, deletion)) throw BadInput(o.deleted, "nothing was deleted");
  delete_stored(deletion);
  if (o.json) return print_json({{"cache", cache}, {"deleted", o.deleted}, {"freed_bytes", deletion.bytes}});
  print(fmt::format("deleted {}: {} are free again\n", o.deleted, byte_text(deletion.bytes)));
}

}  // namespace

void add_pull(Command& program) {
  const auto [command, o] = new_command<PullCommand>(program, "pull", "Fetch a model from Hugging Face into its cache");
  command
      .add_option(
          "NAME", o->name,
          "hf:ORG/NAME[:QUANTIZATION][@REVISION]; a quantization such as Q4_K_M, or the path of a .gguf, chooses "
          "among GGUF files")
      ->required()
      ->type_name("");
  command.add_flag("--dry-run", o->dry_run, "List the files and their sizes; fetch nothing");
  command.add_flag("--force", o->force, "Fetch a model, too, that vitrine cannot run");
  add_number<int>(command, "--jobs", o->jobs, "Ranges of a large file that are fetched at the same time (default: 4)",
                  1, 64);
  finish_command(command, o, run_pull,
                 "Prints the path of the files. Every command takes the name in place of a path, and fetches what is "
                 "missing.\nAn interrupted pull continues where it stopped. HF_TOKEN, HF_ENDPOINT and HF_HUB_CACHE are "
                 "those of huggingface_hub.\n"
                 "Example: vitrine pull hf:Qwen/Qwen3-0.6B-GGUF:Q8_0");
}

void add_models(Command& program) {
  const auto [command, o] =
      new_command<ModelsCommand>(program, "models", "List the models in the cache of Hugging Face, or delete one");
  command
      .add_option("--delete", o->deleted,
                  "Delete this model, or with @REVISION what no other revision of it uses; asks on a terminal")
      ->type_name("NAME");
  command.add_flag("--yes", o->yes, "Delete without asking");
  finish_command(command, o, run_models, "Example: vitrine models --json");
}

}  // namespace vitrine::cli
