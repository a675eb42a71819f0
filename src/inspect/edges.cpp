#include "inspect/edges.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "inspect/stream_parts.h"
#include "inspect/text_pass.h"
#include "ops/attention_sites.h"
#include "ops/op_kind.h"
#include "pass/dictionary_sites.h"

namespace vitrine {
namespace {

using Kind = EdgeNode::Kind;
constexpr std::array<std::string_view, 8> kKindNames = {"embed",   "attn_head_out", "mlp_out", "q_input",
                                                        "k_input", "v_input",       "mlp_in",  "logits"};

/// A value that is written to the stream, with as many sources as it has heads, or one.
struct Writer {
  SiteId site;
  std::size_t first = 0, n = 1;  // of the sources
  std::int64_t d = 0;
  const Sublayer* post = nullptr;  // whose post-norm follows the sum of the heads; null: none
  NormSite post_sites{};
  std::vector<double> post_weight{};  // with its offset; empty: none
  std::vector<float> difference{};    // clean − corrupted `[T, n, d]`
};

/// A value that is read from the stream, with as many targets as it has heads, or one.
struct Reader {
  SiteId site;
  std::size_t first = 0, n = 1;  // of the targets
  std::size_t n_sources = 0;
};

/// The graph of a model: the first so many sources precede a reader.
struct Graph {
  std::vector<Writer> writers;
  std::vector<Reader> readers;
  std::vector<EdgeNode> sources, targets;

  void write(const SiteId& site, Kind kind, std::int64_t n_heads) {
    Writer writer{site, sources.size()};
    writer.n = static_cast<std::size_t>(std::max<std::int64_t>(1, n_heads));
    add(sources, kind, site.layer, n_heads);
    writers.push_back(std::move(writer));
  }
  void read(const SiteId& site, Kind kind, std::int64_t n_heads, std::size_t n_sources) {
    readers.push_back({site, targets.size(), static_cast<std::size_t>(std::max<std::int64_t>(1, n_heads)), n_sources});
    add(targets, kind, site.layer, n_heads);
  }

 private:
  /// `n_heads` 0: one node without a head.
  static void add(std::vector<EdgeNode>& nodes, Kind kind, int layer, std::int64_t n_heads) {
    if (n_heads == 0) nodes.push_back({kind, kind == Kind::embed ? -1 : layer});
    for (int head = 0; head < n_heads; ++head) nodes.push_back({kind, layer, head});
  }
};

[[noreturn]] void refuse(std::size_t layer, std::string_view why) {
  throw Unsupported("--edges", "layer {}: {}", layer, why);
}

void check(const GenerateContext& context) {
  const ModelConfig& config = context.model->config();
  const bool has_dictionaries =
      std::ranges::any_of(context.modifiers.dictionaries, [](const auto& own) { return !is_probe(*own.dictionary); });
  if (!context.modifiers.adapters.empty() || has_dictionaries) {
    throw Unsupported("--edges", "expected a model without adapters and dictionaries");
  }
  if (config.encoder) throw Unsupported("--edges", "the model is an encoder–decoder");
  if (config.altup) throw Unsupported("--edges", "the residual streams are not a sum: AltUp mixes them");
  if (!config.layers.empty()) throw Unsupported("--edges", "the layers have no residual stream");
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const BlockConfig& block = config.blocks[i];
    if (block.scalar) refuse(i, "the stream is multiplied by a number after the block");
    for (const Sublayer& sublayer : block.sublayers) {
      if (sublayer.norms.sum || sublayer.sum_scale != 1) refuse(i, "the sum of stream and sublayer is normalized");
      if (sublayer.input == Sublayer::Input::previous) refuse(i, "two sublayers read the stream through one norm");
    }
  }
}

void add_attention(Graph& graph, BlockSite at, const AttentionConfig& c, std::size_t n_sources) {
  const auto layer = static_cast<std::size_t>(at.layer);
  if (c.out_gate) refuse(layer, "the output gate of attention also reads the stream");
  if (c.values_are_keys) refuse(layer, "keys and values have one input");
  graph.read(at(AttentionSite::q_input), Kind::q_input, c.n_heads, n_sources);
  if (!c.kv_layer) {
    graph.read(at(AttentionSite::k_input), Kind::k_input, c.n_kv_heads, n_sources);
    graph.read(at(AttentionSite::v_input), Kind::v_input, c.n_kv_heads, n_sources);
  }
  graph.write(at(AttentionSite::result), Kind::attn_head_out, c.n_heads);
}

/// The derivative of the heads' way to the stream.
void add_post(Writer& heads, BlockSite at, const Sublayer& sublayer, const SublayerParams& params) {
  if (!sublayer.norms.post && sublayer.scale == 1) return;
  heads.post = &sublayer;
  heads.post_sites = at(names_of(sublayer).post);
  if (!sublayer.norms.post || !params.norms.post.weight.present()) return;
  heads.post_weight = doubles_of(params.norms.post.weight.view, 0);
  for (double& weight : heads.post_weight) weight += static_cast<double>(sublayer.norms.post->weight_offset);
}

Graph graph_of(const Model& model) {
  const ModelConfig& config = model.config();
  Graph graph;
  graph.write(BlockSite{0, config.stack()}(Site::resid_pre), Kind::embed, 0);
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const BlockSite at{static_cast<int>(i), config.stack()};
    const std::size_t before = graph.sources.size();
    const BlockConfig& block = config.blocks[i];
    for (std::size_t j = 0; j < block.sublayers.size(); ++j) {
      const Sublayer& sublayer = block.sublayers[j];
      const std::size_t n_sources = sublayer.input == Sublayer::Input::block ? before : graph.sources.size();
      if (const auto* const attention = std::get_if<AttentionConfig>(&sublayer.what)) {
        add_attention(graph, at, *attention, n_sources);
        add_post(graph.writers.back(), at, sublayer, model.params().blocks[i].sublayers[j]);
      } else if (std::holds_alternative<DenseConfig>(sublayer.what) ||
                 std::holds_alternative<MoeConfig>(sublayer.what)) {
        graph.read(at(names_of(sublayer).in), Kind::mlp_in, 0, n_sources);
        graph.write(at(names_of(sublayer).out), Kind::mlp_out, 0);
      } else {
        refuse(i, fmt::format("expected attention and MLPs, got {}", names_of(sublayer).role));
      }
    }
  }
  const BlockSite last{static_cast<int>(config.blocks.size()) - 1, config.stack()};
  graph.read(last(Site::resid_post), Kind::logits, 0, graph.sources.size());
  return graph;
}

/// Runs a prompt and adds `sign` times its values to the differences of the writers. Returns the metric. Receives the
/// first stream `[T, d]`.
double add_values(const GenerateContext& context, const Tokens& tokens, const Objective& objective, float sign,
                  Graph& graph, std::vector<float>& stream) {
  std::vector<SiteId> sites;
  for (const Writer& writer : graph.writers) sites.push_back(writer.site);
  SiteReader reader(sites, [&](Pass&, const SiteId& id, const Tensor& value) {
    Writer& writer = *std::ranges::find(graph.writers, id, &Writer::site);
    writer.d = value.count() / (value.rows() * static_cast<std::int64_t>(writer.n));
    writer.difference.resize(static_cast<std::size_t>(value.count()));
    for (std::size_t i = 0; i < writer.difference.size(); ++i) writer.difference[i] += sign * value.data[i];
    if (id == graph.writers.front().site) stream.assign(value.data, value.data + value.count());
  });
  double metric = 0;
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  pass.compute = Compute::f32;
  pass.taps = &reader;
  pass.logits.rows = LogitRequest::Rows::chosen;
  pass.logits.chosen = {objective.position};
  pass.logits.receive = [&](std::int64_t, const Tensor& logits) {
    metric = objective.value({logits.data, static_cast<std::size_t>(logits.count())});
  };
  context.model->forward(pass, tokens);
  return metric;
}

/// The taps of one step: replaces the first stream, and passes gradients on.
class StepTaps : public Taps {
 public:
  using Receive = std::function<void(const Reader&, const Tensor&)>;
  StepTaps(const Graph& graph, const std::vector<float>* stream, Receive receive)
      : graph_(graph), stream_(stream), receive_(std::move(receive)) {}

  bool wants(const SiteId& id) const override {
    return (stream_ != nullptr && id == first()) || wants_gradient(id) ||
           std::ranges::any_of(graph_.writers, [&](const Writer& writer) {
             return writer.post != nullptr && (id == writer.post_sites.scale || id == writer.post_sites.normalized);
           });
  }
  bool wants_gradient(const SiteId& id) const override {
    return std::ranges::find(graph_.readers, id, &Reader::site) != graph_.readers.end();
  }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    if (stream_ == nullptr || !(id == first())) {
      if (!wants_gradient(id)) values_[name_of(id)].assign(value.data, value.data + value.count());
      return value;
    }
    const Tensor result = pass.tensor(value.shape);
    std::copy_n(stream_->data(), value.count(), result.data);
    if (pass.is_taped()) pass.record(OpKind::write, {value}, result, [] {});
    return result;
  }
  void visit_gradient(Pass&, const SiteId& id, const Tensor& gradient) override {
    receive_(*std::ranges::find(graph_.readers, id, &Reader::site), gradient);
  }
  /// A value that the forward of the step has passed.
  const std::vector<float>& value_at(const SiteId& id) const { return values_.at(name_of(id)); }

 private:
  const SiteId& first() const { return graph_.writers.front().site; }

  const Graph& graph_;
  const std::vector<float>* stream_;
  Receive receive_;
  std::map<std::string, std::vector<float>> values_{};
};

/// What the difference of one head in one row adds to the stream, to first order: x ↦ scale · w · (x − n (n·x) / d) / s
/// where n are the normalized sum of the heads and s its divisor; of LayerNorm x less its mean.
void through_post(const Writer& writer, const float* n, double s, std::span<double> x) {
  if (writer.post->norms.post) {
    const auto d = static_cast<double>(x.size());
    double mean = 0, along = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      mean += x[i] / d;
      along += static_cast<double>(n[i]) * x[i] / d;
    }
    if (writer.post->norms.post->kind == NormConfig::Kind::rms) mean = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - mean - static_cast<double>(n[i]) * along) / s;
      if (!writer.post_weight.empty()) x[i] *= writer.post_weight[i];
    }
  }
  for (double& value : x) value *= static_cast<double>(writer.post->scale);
}

/// The differences of all sources of a row in the run of a step, `[n_sources, d]`.
std::vector<double> differences(const Graph& graph, const StepTaps& step, std::size_t t) {
  std::vector<double> all;
  for (const Writer& writer : graph.writers) {
    const auto d = static_cast<std::size_t>(writer.d);
    const auto row = writer.difference.begin() + static_cast<std::ptrdiff_t>(t * writer.n * d);
    all.insert(all.end(), row, row + static_cast<std::ptrdiff_t>(writer.n * d));
    if (writer.post == nullptr) continue;
    const bool has_norm = writer.post->norms.post.has_value();
    const float* const n = has_norm ? step.value_at(writer.post_sites.normalized).data() + t * d : nullptr;
    const double s = has_norm ? static_cast<double>(step.value_at(writer.post_sites.scale)[t]) : 1;
    for (std::size_t head = 0; head < writer.n; ++head) {
      through_post(writer, n, s, std::span(all).subspan(all.size() - (head + 1) * d, d));
    }
  }
  return all;
}

/// Σ a[i] · b[i]
double product(const double* a, const float* b, std::size_t n) {
  double lanes[4] = {}, rest = 0;
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) lanes[lane] += a[i + lane] * static_cast<double>(b[i + lane]);
  }
  for (; i < n; ++i) rest += a[i] * static_cast<double>(b[i]);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]) + rest;
}

/// Adds `share` of the scores of one step.
void add_step(const GenerateContext& context, const Tokens& tokens, const Objective& objective, const Graph& graph,
              const std::vector<float>* stream, double share, EdgeScores& result) {
  std::map<const Reader*, std::vector<float>> gradients;
  StepTaps step(graph, stream, [&](const Reader& reader, const Tensor& gradient) {
    gradients[&reader].assign(gradient.data, gradient.data + gradient.count());
  });
  Arena arena;
  Pass pass = text_pass(context, arena, tokens);
  pass.taps = &step;
  backward_from_objective(*context.model, pass, tokens, objective);
  const auto n_rows = std::ssize(tokens.ids);
  const auto d = static_cast<std::size_t>(graph.writers.front().d);
  context.pool->parallel_for(n_rows, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t) {
      const std::vector<double> all = differences(graph, step, t);
      for (const auto& [reader, gradient] : gradients) {
        for (std::size_t head = 0; head < reader->n; ++head) {
          const float* const own = gradient.data() + (t * reader->n + head) * d;
          std::vector<double>& scores = result.scores[reader->first + head];
          for (std::size_t u = 0; u < reader->n_sources; ++u) {
            scores[t * reader->n_sources + u] += share * product(all.data() + u * d, own, d);
          }
        }
      }
    }
  });
}

}  // namespace

std::string_view name_of(EdgeNode::Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::string name_of(const EdgeNode& node) {
  switch (node.kind) {
    case Kind::embed:
    case Kind::logits:
      return std::string(name_of(node.kind));
    case Kind::attn_head_out:
      return fmt::format("a{}.h{}", node.layer, node.head);
    case Kind::mlp_out:
    case Kind::mlp_in:
      return fmt::format("m{}", node.layer);
    default:
      return fmt::format("a{}.h{}.{}", node.layer, node.head, name_of(node.kind).front());
  }
}

std::int64_t EdgeScores::count() const {
  std::int64_t n = 0;
  for (const std::vector<double>& own : scores) n += std::ssize(own);
  return n;
}

std::vector<Edge> EdgeScores::strongest(std::size_t n) const {
  std::vector<Edge> all;
  all.reserve(static_cast<std::size_t>(count()));
  for (std::size_t v = 0; v < targets.size(); ++v) {
    for (std::size_t i = 0; i < scores[v].size(); ++i) {
      const auto position = static_cast<std::int64_t>(i / n_sources[v]);
      all.push_back({sources[i % n_sources[v]], targets[v], position, scores[v][i]});
    }
  }
  std::ranges::stable_sort(all, [](const Edge& a, const Edge& b) { return std::abs(a.score) > std::abs(b.score); });
  all.resize(std::min(n, all.size()));
  return all;
}

EdgeScores edge_scores(const GenerateContext& context, const Tokens& clean, const Tokens& corrupted,
                       const Objective& objective, int n_steps) {
  if (clean.ids.size() != corrupted.ids.size()) {
    throw BadInput("--corrupted", "expected a prompt of {} tokens, as the clean one has, got {}", clean.ids.size(),
                   corrupted.ids.size());
  }
  check(context);
  const std::vector<std::int32_t> wanted = {objective.token, objective.against.value_or(0)};
  GenerateContext::check_ids(wanted, context.model->config().vocab_size);
  Graph graph = graph_of(*context.model);
  EdgeScores result{.sources = graph.sources, .targets = graph.targets};
  for (const Reader& reader : graph.readers) {
    result.n_sources.insert(result.n_sources.end(), reader.n, reader.n_sources);
    result.scores.insert(result.scores.end(), reader.n, std::vector<double>(clean.ids.size() * reader.n_sources));
  }
  std::vector<float> from, to;
  result.clean = add_values(context, clean, objective, 1, graph, to);
  result.corrupted = add_values(context, corrupted, objective, -1, graph, from);
  for (int i = 0; i < n_steps; ++i) {
    const float part = static_cast<float>(i) / static_cast<float>(n_steps);
    std::vector<float> stream(from);
    for (std::size_t j = 0; j < stream.size(); ++j) stream[j] += part * (to[j] - from[j]);
    add_step(context, corrupted, objective, graph, i == 0 ? nullptr : &stream, 1.0 / n_steps, result);
  }
  return result;
}

}  // namespace vitrine
