// vitrine info: show the parts of a model, the values of a forward, and their cost.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/presets.h"
#include "cli/commands.h"
#include "cli/fit.h"
#include "cli/hub.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "generate/preflight.h"
#include "hub/pull.h"
#include "inspect/account.h"
#include "inspect/parameter_table.h"
#include "model/count.h"
#include "report/describe.h"
#include "report/model_facts.h"

namespace vitrine::cli {
namespace {

constexpr Table::Align kRight = Table::Align::right;
constexpr Phase kPhases[] = {Phase::forward, Phase::prefill, Phase::decode, Phase::train};

struct InfoOptions : Options {
  std::string model;
  std::int64_t batch = 1, length = 0;
  std::optional<std::int64_t> source_length;
  std::string phase = "prefill";
  bool markdown = false, fit = false;
  ClusterRequest cluster;
  std::string shard = "none";
};

/// A model with or without weights, and the adapters that are given.
struct Subject : ModelFacts {
  Session session{};
  std::optional<PullResult> remote{};  ///< Of a model on a hub, whose headers alone are here.
};

/// The facts of a config, computed as --compute says.
ModelFacts facts_of_config(const InfoOptions& o, const std::string& name) {
  ModelFacts s = config_facts(preset_or_config(name), name);
  if (o.compute == "int8" || (o.compute == "bf16" && s.types != "bf16")) {
    throw Unsupported("--compute", "{} does not multiply weights of {}", o.compute, s.types);
  }
  if (o.compute != "auto") s.products = o.compute;
  if (o.compute == "f32") s.compute = Compute::f32;
  return s;
}

ModelFacts facts_of_checkpoint(const InfoOptions& o, const std::string& path, const Checkpoint& checkpoint) {
  return checkpoint_facts(checkpoint, path, checked_compute(checkpoint, compute_of(o)));
}

InfoRequest request_of(const InfoOptions& o, const Subject& s) {
  InfoRequest request{o.batch, o.length, o.source_length, kv_types(o.kv), s.session.applied.adapters};
  if (o.cluster.ranks == 1) return request;
  if (o.phase != "train") throw Unsupported("--ranks", "expected --phase train, got --phase {}", o.phase);
  if (!o.adapters.empty()) throw Unsupported("--ranks", "expected a model without an adapter");
  request.cluster = o.cluster;
  request.cluster->shard = shard_named(o.shard);
  return request;
}

/// Whether a folder has a config.json but no weights yet.
bool is_bare(const std::string& path) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return std::filesystem::exists(path + "/" + name, error) || error;
  };
  return has("config.json") && !has("model.safetensors") && !has("model.safetensors.index.json") &&
         !has("pytorch_model.bin") && !has("pytorch_model.bin.index.json");
}

Subject open_local(const InfoOptions& o, const std::string& path, bool without_values = false) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  const bool is_folder = exists && is_bare(path), is_config = is_folder || (exists && path.ends_with(".json"));
  if ((!exists || is_config) && !o.adapters.empty()) throw BadInput("--adapter", "it needs a checkpoint with weights");
  if (!exists || is_config) return {facts_of_config(o, is_folder ? path + "/config.json" : path)};
  if (o.adapters.empty()) {
    const LoadOptions options = {o.allowed_config_keys, o.allowed_tensors, without_values};
    return {facts_of_checkpoint(o, path, load_checkpoint(path, options))};
  }
  Session session = open_model(o, path, false);
  ModelFacts facts = facts_of_checkpoint(o, path, session.checkpoint);
  return {std::move(facts), std::move(session)};
}

Json json_of(const PullResult& remote) {
  return {{"name", remote.name},
          {"commit", remote.commit},
          {"bytes", remote.bytes},
          {"fetched_bytes", remote.fetched_bytes},
          {"cached_bytes", remote.cached_bytes()}};
}

/// Says why a model on a hub cannot run.
[[noreturn]] void refuse(const InfoOptions& o, const PullResult& remote, const Obstacle& obstacle) {
  const auto& [where, what, nearest, is_malformed] = obstacle;
  if (!o.json) {
    throw Unsupported(remote.name + (where.empty() ? "" : ", " + where), "{}{}", what,
                      nearest.empty() ? "" : "; nearest family: " + nearest);
  }
  print_json({{"name", remote.name},
              {"remote", json_of(remote)},
              {"fit", Json()},
              {"unsupported", {{{"where", where}, {"what", what}, {"nearest", nearest}}}}});
  throw Reported();
}

/// The headers of a model on a hub, read as the model's files are.
Subject open_remote(const InfoOptions& o) {
  const CleanStop guard;
  PullDisplay display;
  const ModelHeaders headers = fetch_headers(parse_hub_name(o.model), hub_access(o, display));
  if (const auto obstacle = find_obstacle(headers.path, {o.allowed_config_keys, o.allowed_tensors})) {
    refuse(o, headers.remote, *obstacle);
  }
  Subject subject = open_local(o, headers.path, true);
  subject.name = headers.remote.path;
  subject.remote = headers.remote;
  return subject;
}

Subject open_subject(const InfoOptions& o) {
  if (is_hub_name(o.model)) return open_remote(o);
  return open_local(o, o.model.empty() ? default_model() : o.model);
}

double gb(double bytes) { return bytes / 1e9; }

/// 12,300,000,000 as "12.3 G".
std::string scaled(double number) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  std::size_t unit = 0;
  for (; number >= 999.95 && unit + 1 < std::size(kUnits); ++unit) number /= 1000;
  return unit == 0 ? fmt::format("{:.0f}", number) : fmt::format("{:.1f}{}", number, kUnits[unit]);
}

/// A page of headings and tables, as terminal text or as Markdown.
class Page {
 public:
  explicit Page(bool markdown) : markdown_(markdown) {}
  void heading(const std::string& text) { text_ += markdown_ ? "\n## " + text + "\n\n" : "\n" + text + "\n\n"; }
  void line(const std::string& text) { text_ += text + (markdown_ ? "\n\n" : "\n"); }
  void table(const Table& table) { text_ += markdown_ ? table.markdown() : table.text(); }
  const std::string& text() const { return text_; }

 private:
  bool markdown_;
  std::string text_;
};

/// `attn.hook_q`; with two stacks also the stack, as in `encoder.attn.hook_q`.
std::string short_name(const SiteId& id) {
  std::string name = name_of(id);
  const std::size_t prefix = name.find('.') + 1;
  if (id.layer < 0) return name;
  name.erase(prefix, name.find('.', prefix) + 1 - prefix);
  return id.stack == Stack::only ? name.substr(prefix) : name;
}

void add_flow(Page& page, const Subject& s, const LayerGroup& group) {
  page.heading("From text to the next token");
  Table table({{"step"}, {"shape"}, {"type"}, {"what"}});
  table.add({"text", "", "UTF-8", "the input"});
  table.add({"ids", "[T]", "int32", "token ids, from a vocabulary of " + grouped(s.config.vocab_size)});
  bool inside = false;
  for (const SiteLayout& site : site_layout(s.config, group.first())) {
    const SiteInfo& about = info(site.site.site);
    if (site.site.site == Site::tokens || site.site.site == Site::loss) continue;
    if (about.in_block() != inside) table.rule();
    inside = about.in_block();
    table.add({(inside ? "  " : "") + short_name(site.site), to_string(site.shape), "f32", std::string(about.meaning)});
  }
  table.rule();
  table.add({"probabilities", fmt::format("[{}]", s.config.vocab_size), "f64", "softmax of the last row"});
  table.add({"next id → text", "", "int32", "sampled, or the most likely one; its bytes are appended"});
  page.table(table);
  page.line(fmt::format("Layer {} of {} is shown; {} layers are alike. T: tokens of the pass; S: positions so far.",
                        group.first(), s.config.n_layers(), group.count()));
}

void add_config(Page& page, const ModelConfig& config) {
  page.heading("Config");
  Table model({{"key"}, {"value"}});
  const auto add = [&](const OrderedJson& described, const char* indent) {
    for (const auto& [key, value] : described.items()) {
      model.add({indent + key, value.is_string() ? value.get<std::string>() : value.dump()});
    }
  };
  add(json_of(describe_model(config)), "");
  const auto add_layers = [&](const StackConfig& stack, const char* name) {
    for (const LayerGroup& group : layer_groups(stack)) {
      model.rule();
      model.add({name, to_string(group)});
      add(json_of(describe_layer(stack, static_cast<std::size_t>(group.first()))), "  ");
    }
  };
  if (config.encoder) add_layers(*config.encoder, "encoder layers");
  add_layers(config, config.encoder ? "decoder layers" : "layers");
  page.table(model);
}

void add_params(Page& page, const Subject& s) {
  page.heading("Parameters");
  Table table({{"name"},
               {"shape"},
               {"each", kRight},
               {"layers", kRight},
               {"total", kRight},
               {s.stored_names.empty() ? "" : "in the file"}});
  std::int64_t blocks = 0;
  const std::int64_t total = count_params(s.config);
  for (const ParameterRow& row : parameter_table(s.config)) {
    if (row.in_block) blocks += row.total();
    table.add({row.name, to_string(row.shape), grouped(row.shape.count()),
               row.in_block ? std::to_string(row.layers) : "", grouped(row.total()), stored_name(s, row)});
  }
  table.rule();
  const auto n = static_cast<std::int64_t>(s.config.n_layers() + (s.config.encoder ? s.config.encoder->n_layers() : 0));
  if (blocks % n == 0 && !s.config.encoder) table.add({"per layer", "", "", "", grouped(blocks / n)});
  table.add({"all layers", "", "", std::to_string(n), grouped(blocks)});
  table.add({"total", "", "", "", grouped(total)});
  page.table(table);
}

std::vector<Table::Column> cost_columns(const char* first, const char* second) {
  std::vector<Table::Column> columns = {{first}, {second}};
  for (const char* name : {"FLOPs", "weight bytes", "activations", "K/V bytes", "maps", "FLOPs/byte"}) {
    columns.push_back({name, kRight});
  }
  return columns;
}

std::vector<std::string> cost_cells(const std::string& name, const std::string& what, const Cost& c) {
  std::vector<std::string> cells = {name, what};
  for (const double x : {c.flops, c.weight_bytes, c.activation_bytes, c.kv_bytes, c.map_bytes}) {
    cells.push_back(scaled(x));
  }
  cells.push_back(fmt::format("{:.2f}", c.intensity()));
  return cells;
}

void add_account(Page& page, const InfoOptions& o, const Subject& s) {
  const Workload shown = workload_of(request_of(o, s), s, Phase::prefill);
  const std::string source =
      s.config.encoder ? fmt::format("sources of {} tokens, ", shown.source_length.value_or(shown.length)) : "";
  page.heading(fmt::format("Cost: batch {}, {}{} tokens, products in {}, K/V in {}", shown.batch, source, shown.length,
                           s.products, o.kv));
  Table totals(cost_columns("phase", "memory"));
  for (const Phase phase : phases_of(s.config)) {
    const Workload w = workload_of(request_of(o, s), s, phase);
    const double memory = estimate_memory(s.config, w, kPrefillChunk).total();
    totals.add(
        cost_cells(std::string(name_of(phase)), fmt::format("{:.2f} GB", gb(memory)), account(s.config, w).total));
  }
  page.table(totals);
  const bool decodes = !is_bidirectional(s.config);
  const Cost all = account(s.config, workload_of(request_of(o, s), s, Phase::forward)).total;
  const MemoryEstimate memory = estimate_memory(s.config, shown, kPrefillChunk);
  page.line(
      fmt::format("forward: logits of all positions; prefill: of the last; {}train: forward and backward.\n"
                  "FLOPs count 2 per multiply-add of products; masks skip {:.1f} % of the FLOPs of forward.\n"
                  "K/V of a sequence: {:.3f} GB, {} bytes per token. Maps (scores, patterns) are never stored and not "
                  "counted in FLOPs/byte.\n"
                  "Memory of prefill: weights {:.2f} GB (mapped), K/V {:.3f} GB, activations {:.3f} GB.",
                  decodes ? fmt::format("decode: one token after {}; ", shown.length - 1) : "",
                  100 * (1 - all.visible_flops / all.flops), gb(memory.kv_cache / static_cast<double>(o.batch)),
                  grouped(static_cast<std::int64_t>(kv_bytes_per_token(s.config, shown.kv))), gb(memory.weights),
                  gb(memory.kv_cache), gb(memory.activations)));
  const StateBytes state = state_bytes(s.config);
  if (state.states == 0) return;
  page.line(
      fmt::format("State of a sequence: {} bytes, however long it is; a snapshot of it: {} bytes. K/V include it.",
                  grouped(state.states), grouped(state.snapshot)));
}

void add_ops(Page& page, const InfoOptions& o, const Subject& s) {
  const auto shown =
      std::find_if(std::begin(kPhases), std::end(kPhases), [&](Phase p) { return name_of(p) == o.phase; });
  const Account a = account(s.config, workload_of(request_of(o, s), s, *shown));
  page.heading("Op by op: " + o.phase);
  Table table(cost_columns("op", "shape"));
  for (const Op& op : a.first) table.add(cost_cells(op.name, op.shape, op.cost));
  for (const Account::Layers& layers : a.layers) {
    table.rule();
    table.add({fmt::format("{}layers {} (each)", stack_prefix(layers.stack, " "), to_string(layers.group))});
    for (const Op& op : layers.ops) table.add(cost_cells("  " + op.name, op.shape, op.cost));
  }
  table.rule();
  for (const Op& op : a.last) table.add(cost_cells(op.name, op.shape, op.cost));
  table.rule();
  table.add(cost_cells("total", "", a.total));
  page.table(table);
}

std::string range_text(double least, double most, const char* unit) {
  const std::string first = scaled(least) + unit, last = scaled(most) + unit;
  return first == last ? last : first + " to " + last;
}

void add_cluster(Page& page, const InfoOptions& o, const Subject& s) {
  const InfoRequest request = request_of(o, s);
  if (!request.cluster) return;
  const Workload w = workload_of(request, s, Phase::train);
  const ClusterAccount a = cluster_of(s.config, w.batch, w.length, *request.cluster);
  page.heading(fmt::format("A step on {} ranks: {} micro-batches, --shard {}", o.cluster.ranks, o.cluster.micro_batches,
                           o.shard));
  Table table({{"what"}, {"how much", kRight}});
  const auto add_range = [&](const char* name, const auto& values, const char* unit) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    table.add({name, range_text(static_cast<double>(*least), static_cast<double>(*most), unit)});
  };
  add_range("memory of a rank", a.memory_bytes, "B");
  add_range("sent by a rank", a.bytes_sent, "B");
  add_range("messages of a rank", a.messages, "");
  table.add({"compute", fmt::format("{:.4g} s", a.compute_s)});
  table.add({"communication", fmt::format("{:.4g} s", a.communication_s)});
  table.add({"not hidden", fmt::format("{:.4g} s", a.exposed_s)});
  table.add({"step", fmt::format("{:.4g} s", a.step_s())});
  page.table(table);
  page.line(fmt::format("At {}B/s, {:.3g} s latency, {}FLOP/s of each rank.", scaled(o.cluster.speed.bandwidth),
                        o.cluster.speed.latency_s, scaled(o.cluster.speed.flops_per_s)));
}

void run_info(const InfoOptions& o) {
  const Subject s = open_subject(o);
  const InfoRequest request = request_of(o, s);
  std::optional<Fit> fit;
  if (o.fit || s.remote) {
    ThreadPool pool(o.thread_count());
    MachineRates rates(pool);
    fit = fit_of(request, s, rates);
  }
  if (o.json) {
    Json facts = info_json(request, s);
    if (fit) facts["fit"] = json_of(*fit);
    if (s.remote) facts.update({{"remote", json_of(*s.remote)}, {"unsupported", Json::array()}});
    return print_json(facts);
  }
  Page page(o.markdown);
  page.line(fmt::format("{}{}: {}, {} parameters, {}, {:.2f} GB", o.markdown ? "# " : "",
                        s.remote ? s.remote->name : s.name, s.description, grouped(count_params(s.config)), s.types,
                        gb(static_cast<double>(s.stored_bytes))));
  if (s.remote) {
    page.line(fmt::format("On the hub: commit {}, {}, of which {} are in the cache; {} were read for this",
                          s.remote->commit.substr(0, 12), byte_text(s.remote->bytes),
                          byte_text(s.remote->cached_bytes()), byte_text(s.remote->fetched_bytes)));
  }
  if (fit) page.line(text_of(*fit, request, s));
  if (!s.source.empty()) page.line("Source: " + s.source);
  if (s.config.per_layer) {
    const auto bytes = static_cast<double>(s.per_layer_bytes);
    page.line(
        fmt::format("Per-layer embeddings: {:.2f} GB of these, of which a token reads one row, {:.1f} kB; every "
                    "token reads the other {:.2f} GB",
                    gb(bytes), bytes / static_cast<double>(s.config.per_layer->vocab_size) / 1e3,
                    gb(static_cast<double>(s.stored_bytes) - bytes)));
  }
  for (const UnreadTensors& part : s.unread) {
    page.line(fmt::format("Not read: {}, {} tensors, {:.2f} GB", part.what, grouped(part.count),
                          gb(static_cast<double>(part.bytes))));
  }
  for (const std::string& note : s.notes) page.line("Note: " + note);
  add_flow(page, s, layer_groups(s.config).front());
  add_config(page, s.config);
  add_params(page, s);
  add_account(page, o, s);
  add_ops(page, o, s);
  add_cluster(page, o, s);
  print(page.text());
}

}  // namespace

void add_info(Command& program) {
  const auto [command, o] =
      new_command<InfoOptions>(program, "info", "Show what a model consists of and what it costs to run");
  command
      .add_option("MODEL", o->model, "A checkpoint, a config.json, or a preset of init (default: the default model)")
      ->type_name("");
  add_number<std::int64_t>(command, "--batch", o->batch, "Sequences per batch (default: 1)", 1, 1 << 20);
  add_number<std::int64_t>(command, "--length", o->length,
                           "Tokens per sequence (default: 1024, or the context if shorter)", 1);
  add_number<std::int64_t>(command, "--source-length", o->source_length,
                           "Tokens per source of an encoder–decoder (default: --length)", 1);
  add_choice(command, "--phase", o->phase, {"forward", "prefill", "decode", "train"},
             "The phase to show op by op: forward, prefill (default), decode or train");
  add_number<int>(command, "--ranks", o->cluster.ranks,
                  "With --phase train: also a step of --batch sequences on N ranks (docs/cluster.md)", 1, 1 << 14);
  add_number<std::int64_t>(command, "--micro-batches", o->cluster.micro_batches,
                           "Micro-batches that the ranks share (default: 1)", 1, 1 << 20);
  add_choice(command, "--shard", o->shard, std::vector<std::string>(std::begin(kShardNames), std::end(kShardNames)),
             "What each rank keeps only for its part, as in train");
  add_number<double>(command, "--bandwidth", o->cluster.speed.bandwidth,
                     "Bytes per second of a rank's link (default: 125e6)", 1);
  add_number<double>(command, "--latency", o->cluster.speed.latency_s, "Seconds of a message (default: 1e-4)", 0);
  add_number<double>(command, "--flops-per-s", o->cluster.speed.flops_per_s,
                     "FLOPs per second of a rank (default: 1e11)", 1);
  add_adapters(command, *o);
  command.add_flag("--fit", o->fit,
                   "Also whether the model fits into this machine's memory, and its expected speed here, from rates "
                   "that are measured once");
  command.add_flag("--markdown", o->markdown, "Print Markdown instead of plain text");
  finish_command(command, o, run_info, "Example: vitrine info gemma-2-2b --phase decode --length 4096");
}

}  // namespace vitrine::cli
