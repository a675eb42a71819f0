// vitrine circuit: the attribution graph of a text.
#include <fmt/format.h>

#include <filesystem>

#include "circuit/plan.h"
#include "circuit/write_graph.h"
#include "cli/commands.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"

namespace vitrine::cli {
namespace {

struct CircuitOptions : Options {
  GraphOptions graph;
  double node_threshold = 0.8, edge_threshold = 0.98;
  std::string out, adjacency, max_memory = "4G";
  bool plans = false;
};

GraphText text_of(const CircuitOptions& o, const Session& session) {
  GraphText text;
  text.slug = std::filesystem::path(o.out).stem().string();
  text.scan = scan_of(dictionary_of(o.dictionaries.front()).path);
  text.ids = session.ids;
  text.tokenizer = session.tokenizer.get();
  text.node_threshold = o.node_threshold;
  if (text.tokenizer != nullptr) text.prompt = text.tokenizer->target().decode(text.ids);
  return text;
}

/// Throws OutOfCapacity for a plan that needs more than --max-memory. `held`: bytes that the process has.
void refuse_if_too_large(const CircuitOptions& o, const GraphPlan& plan, std::int64_t held) {
  const std::int64_t most = bytes_in(o.max_memory, "--max-memory"), needed = held + plan.memory_bytes();
  if (needed <= most) return;
  const bool is_of_edges = held + plan.tape_bytes < most;
  throw OutOfCapacity("--max-memory", "expected at most {} bytes, the graph needs about {}: {}", grouped(most),
                      grouped(needed),
                      is_of_edges ? "lower --max-feature-nodes" : "give a shorter text, or raise --max-memory");
}

void show_plan(const CircuitOptions& o, const Session& session, const CircuitValues& values, const GraphPlan& plan) {
  const std::int64_t memory = peak_memory() + plan.memory_bytes();
  const bool fits = memory <= bytes_in(o.max_memory, "--max-memory");
  const double seconds = fits ? measure_graph(session.context(o), session.ids, values, plan) : 0;
  if (o.json) {
    return print_json({{"tokens", session.ids.size()},
                       {"active_features", values.features.size()},
                       {"feature_nodes", plan.feature_nodes},
                       {"logits", values.logits.size()},
                       {"memory_bytes", memory},
                       {"disk_bytes", plan.disk_bytes},
                       {"seconds", fits ? Json(seconds) : Json()}});
  }
  print(fmt::format("{} tokens, {} active features, {} feature nodes, {} logits\n", session.ids.size(),
                    values.features.size(), plan.feature_nodes, values.logits.size()));
  print(fmt::format("memory: about {} bytes; rows on the disk: {} bytes\n", grouped(memory), grouped(plan.disk_bytes)));
  print(fits ? fmt::format("time: about {}\n", duration_text(seconds))
             : fmt::format("more than --max-memory {}\n", o.max_memory));
}

void run_circuit(const CircuitOptions& o) {
  if (o.dictionaries.empty()) throw MissingArgument("--transcoders");
  if (o.out.empty() && !o.plans) throw MissingArgument("--out");
  const Session session = open_session(o);
  const GenerateContext context = session.context(o);
  stop_cleanly();
  CircuitValues values = read_circuit_values(context, session.ids, o.graph.logits, o.graph.zero_positions);
  const GraphPlan plan = plan_graph(context, values, o.graph);
  if (o.plans) return show_plan(o, session, values, plan);
  refuse_if_too_large(o, plan, peak_memory());

  const std::int64_t n_active = std::ssize(values.features);
  const GraphText text = text_of(o, session);
  ProgressBar bar("rows");
  const AttributionGraph graph = make_graph(context, session.ids, std::move(values), o.graph, o.out, bar.reporter());
  const GraphScores scores = scores_of(graph);
  if (!o.adjacency.empty()) write_adjacency(o.adjacency, graph, text);
  const WrittenGraph written =
      write_frontend_graph(o.out, graph, prune(graph, o.node_threshold, o.edge_threshold), text);
  if (o.json) {
    return print_json({{"nodes", written.nodes},
                       {"links", written.links},
                       {"active_features", n_active},
                       {"replacement_score", scores.replacement},
                       {"completeness_score", scores.completeness},
                       {"peak_rss_bytes", peak_memory()}});
  }
  print(fmt::format("{} nodes and {} links of {} active features\n", written.nodes, written.links, n_active));
  print(fmt::format("replacement score {:.4f}, completeness score {:.4f}\n", scores.replacement, scores.completeness));
}

void add_share(Command& command, const std::string& name, double& place, const std::string& about) {
  add_number<double>(command, name, place, about, 0.0, 1.0);
}

}  // namespace

void add_circuit(Command& program) {
  const auto [command, o] = new_command<CircuitOptions>(
      program, "circuit", "Write the attribution graph of a text: which features made which, and the next token");
  add_model_and_text(command, *o);
  add_list(command, "--transcoders,--sae", o->dictionaries,
           "The transcoders of all layers: a folder of circuit-tracer, or one of any format of docs/features.md for "
           "each layer, as PATH[@SITE]; also --sae; may be given several times");
  command.add_option("--out", o->out, "The file of the pruned graph: the JSON of circuit-tracer's frontend");
  command.add_option("--adjacency", o->adjacency,
                     "Also write the whole graph to a .safetensors file: a sparse matrix, biases and values");
  add_number<std::int64_t>(command, "--max-n-logits", o->graph.logits.max_n_logits,
                           "The most logits that are nodes (default: 10)", 1, 1 << 20);
  add_share(command, "--desired-logit-prob", o->graph.logits.desired_logit_prob,
            "Fewer logits if their probabilities add up to this (default: 0.95)");
  add_number<std::int64_t>(command, "--max-feature-nodes", o->graph.max_feature_nodes,
                           "The most features that are nodes (default: 7500)", 1, 1 << 30);
  add_share(command, "--node-threshold", o->node_threshold,
            "Keep the strongest nodes with this share of the influence on the logits (default: 0.8)");
  add_share(command, "--edge-threshold", o->edge_threshold, "The same for edges (default: 0.98)");
  add_number<std::int64_t>(command, "--batch-size", o->graph.batch_size,
                           "Features are ranked again after four times so many rows (default: 256)", 1, 1 << 30);
  add_number<std::int64_t>(command, "--zero-positions", o->graph.zero_positions,
                           "Features and errors of the first N tokens are no nodes but part of the bias (default: 1)",
                           0, 1 << 30);
  command.add_flag("--plan", o->plans, "Only print the memory and the time that the graph needs");
  command.add_option("--max-memory", o->max_memory, "Refuse a graph that needs more (default: 4G)");
  finish_command(command, o, run_circuit,
                 "docs/circuits.md explains a graph step by step.\n"
                 "Example: vitrine circuit hf:google/gemma-2-2b \"The Eiffel Tower is in\" --transcoders "
                 "gemma-scope-transcoders/ --out tower.json --adjacency tower.safetensors");
}

}  // namespace vitrine::cli
