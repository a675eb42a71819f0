// Attribution graphs against graphs computed in float64 (VITRINE_DATA/features), and against what must hold of any.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "circuit/support.h"
#include "inspect/frozen_sites.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

template <class T>
std::vector<T> stored(const SafetensorsFile& file, const std::string& name) {
  const std::span<const std::byte> bytes = file.tensors().at(name).bytes;
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class Circuits : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = outside_data("features");
    if (folder_.empty()) GTEST_SKIP() << "VITRINE_DATA has no features";
    const Json cases = parse_json(MappedFile::open(path("expected.json"))->text(), "expected.json");
    ids_ = cases["ids"].get<std::vector<std::int32_t>>();
    cases_ = cases["circuits"];
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  /// Calls run(case, model, transcoders) for all cases.
  template <class Run>
  void for_cases(Run run) {
    for (const Json& own : cases_) {
      SCOPED_TRACE(own["path"].get<std::string>());
      const Checkpoint checkpoint = load_checkpoint(path(own["model"]));
      run(own, *checkpoint.model, applied(path(own["path"]), *checkpoint.model));
    }
  }

  std::string folder_;
  Json cases_;
  std::vector<std::int32_t> ids_;
};

TEST_F(Circuits, HaveTheExpectedNodesEdgesAndScores) {
  for_cases([&](const Json& own, const Model& model, const Applied& transcoders) {
    const AttributionGraph graph = graph_of(model, transcoders, ids_);
    const SafetensorsFile expected = SafetensorsFile::open(path(own["expected"]));
    std::vector<std::int32_t> places, tokens;
    for (const FeatureNode& f : graph.values.features) places.insert(places.end(), {f.layer, f.position, f.index});
    for (const LogitNode& logit : graph.values.logits) tokens.push_back(logit.token);
    ASSERT_EQ(places, stored<std::int32_t>(expected, "features"));
    ASSERT_EQ(tokens, stored<std::int32_t>(expected, "targets"));
    const std::vector<float> activations = stored<float>(expected, "activations");
    for (std::size_t i = 0; i < activations.size(); ++i) {
      EXPECT_NEAR(graph.values.features[i].activation, activations[i], 1e-5 * (1 + std::abs(activations[i])));
    }
    const std::vector<float> adjacency = stored<float>(expected, "adjacency"), value = stored<float>(expected, "value");
    const std::int64_t n = graph.n_nodes();
    ASSERT_EQ(std::ssize(value), n);
    for (std::int64_t row = 0; row < n; ++row) {
      const float* const edges = adjacency.data() + row * n;
      const std::vector<double> got = dense_row(graph, row);
      float largest = 0;
      for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(edges[i]));
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_NEAR(got[static_cast<std::size_t>(i)], static_cast<double>(edges[i]), 1e-5 * largest)
            << row << ", " << i;
      }
      EXPECT_NEAR(graph.value[static_cast<std::size_t>(row)], value[static_cast<std::size_t>(row)], 2e-5) << row;
    }
    EXPECT_LT(error_of_sums(graph), 1e-5);
    const GraphScores scores = scores_of(graph);
    EXPECT_NEAR(scores.replacement, own["replacement_score"].get<double>(), 1e-5);
    EXPECT_NEAR(scores.completeness, own["completeness_score"].get<double>(), 1e-5);
  });
}

TEST_F(Circuits, HaveTheSameBitsOnAllThreadsAndInstructionSets) {
  for_cases([&](const Json&, const Model& model, const Applied& transcoders) {
    const AttributionGraph graph = graph_of(model, transcoders, ids_);
    const auto expect_same = [&](const CircuitRun& o) {
      const AttributionGraph other = graph_of(model, transcoders, ids_, o);
      EXPECT_EQ(other.indices, graph.indices);
      EXPECT_TRUE(same_bits(other.effects, graph.effects));
      EXPECT_TRUE(same_bits(other.bias, graph.bias));
      EXPECT_TRUE(same_bits(other.value, graph.value));
    };
    for (const int threads : {2, 3}) expect_same({.threads = threads});
    for (const Isa isa : available_isas()) expect_same({.kernels = &kernels_for(isa)});
  });
}

/// The pre-activations of all layers, by output site, and the last row of unembed.hook_out, with patterns, divisors and
/// MLPs held at their values without writes.
std::map<std::string, std::vector<float>> frozen_values(const Model& model, const Applied& transcoders,
                                                        std::span<const std::int32_t> ids,
                                                        const std::vector<std::string>& writes) {
  ThreadPool pool(1);
  GenerateContext context{.model = &model, .pool = &pool, .kernels = &default_kernels()};
  context.modifiers.dictionaries = transcoders;
  std::map<std::string, std::vector<float>> values;
  std::vector<SiteWrite> parsed;
  for (const std::string& text : writes) parsed.push_back(parse_site_write(text));
  Recorder recorder({"*.hook_sae_acts_pre", "unembed.hook_out"}, parsed, site_layers(model.config(), transcoders),
                    [&](const SiteId& id, const Tensor& t) {
                      values[name_of(id.without_dictionary())].assign(t.data, t.data + t.count());
                    });
  FrozenPass frozen(CleanRun(context, {"*.hook_pattern", "*.hook_scale", "blocks.*.hook_mlp_out"}, 0), recorder);
  context.taps = &frozen;
  Arena arena;
  const auto n = std::ssize(ids);
  Pass pass = context.make_pass(arena, {{0, n, 0}});
  pass.logits = {LogitRequest::Rows::range, 0, n, [](std::int64_t, const Tensor&) {}};
  context.forward(pass, ids);
  return values;
}

/// The change that a doubled activation makes to later features and to the logits, with patterns, divisors and MLPs
/// held, is the edge.
TEST_F(Circuits, PredictFrozenInterventions) {
  int n_features = 0, n_logits = 0;
  for_cases([&](const Json&, const Model& model, Applied transcoders) {
    for (AppliedDictionary& applied : transcoders) applied.use = DictionaryUse::error;  // skip connections follow
    const AttributionGraph graph = graph_of(model, transcoders, ids_);
    const auto clean = frozen_values(model, transcoders, ids_, {});
    const std::int64_t vocab_size = model.config().vocab_size;
    const auto centered = [&](const std::vector<float>& unembedded, std::int32_t token) {
      const auto last = unembedded.end() - vocab_size;
      return static_cast<double>(last[token]) -
             std::accumulate(last, unembedded.end(), 0.0) / static_cast<double>(vocab_size);
    };
    for (std::int64_t source = 0; source < graph.n_selected(); source += 7) {
      const FeatureNode& from = graph.values.features[static_cast<std::size_t>(source)];
      const std::string site = name_of(transcoders[static_cast<std::size_t>(from.layer)].dictionary->output);
      const auto doubled = frozen_values(
          model, transcoders, ids_, {fmt::format("{}.hook_sae_acts_post[{},{}]*=2", site, from.position, from.index)});
      const auto edge_into = [&](std::int64_t row) { return dense_row(graph, row)[static_cast<std::size_t>(source)]; };
      for (std::int64_t target = 0; target < graph.n_selected(); ++target) {
        const FeatureNode& to = graph.values.features[static_cast<std::size_t>(target)];
        if (to.layer <= from.layer) continue;
        const Dictionary& d = *transcoders[static_cast<std::size_t>(to.layer)].dictionary;
        const auto at = static_cast<std::size_t>(to.position * d.d_sae() + to.index);
        const std::string name = name_of(d.output);
        const double measured = static_cast<double>(doubled.at(name)[at]) - static_cast<double>(clean.at(name)[at]);
        const double edge = edge_into(target);
        EXPECT_NEAR(measured, edge, 1e-5 * (1 + std::abs(edge))) << source << " to " << target;
        n_features += edge != 0 ? 1 : 0;
      }
      for (std::size_t i = 0; i < graph.values.logits.size(); ++i) {
        const std::int32_t token = graph.values.logits[i].token;
        const double measured =
            centered(doubled.at("unembed.hook_out"), token) - centered(clean.at("unembed.hook_out"), token);
        const double edge = edge_into(graph.first_logit() + static_cast<std::int64_t>(i));
        EXPECT_NEAR(measured, edge, 3e-5 * (1 + std::abs(edge))) << source << " to logit " << token;
        n_logits += edge != 0 ? 1 : 0;
      }
    }
  });
  EXPECT_GT(n_features, 200);
  EXPECT_GT(n_logits, 100);
}

/// circuit-tracer's choice, with a dense matrix and a power iteration.
std::vector<std::int64_t> chosen_features(const AttributionGraph& whole, std::int64_t n, std::int64_t at_once) {
  const std::int64_t n_features = whole.n_selected(), n_nodes = whole.n_nodes();
  std::vector<bool> has_row(static_cast<std::size_t>(n_features));
  std::vector<std::int64_t> chosen;
  while (std::ssize(chosen) < n) {
    std::vector<double> total(static_cast<std::size_t>(n_nodes)), flow(total.size());
    for (std::size_t i = 0; i < whole.values.logits.size(); ++i) {
      flow[static_cast<std::size_t>(whole.first_logit()) + i] = whole.values.logits[i].probability;
    }
    for (std::int64_t step = 0; step <= whole.values.n_layers(); ++step) {
      std::vector<double> next(total.size());
      for (std::int64_t row = 0; row < n_nodes; ++row) {
        const bool exists = row >= whole.first_logit() || (row < n_features && has_row[static_cast<std::size_t>(row)]);
        if (!exists) continue;
        const std::vector<double> effects = dense_row(whole, row);
        double size = 0;
        for (const double effect : effects) size += std::abs(effect);
        for (std::size_t i = 0; i < effects.size(); ++i) {
          next[i] += flow[static_cast<std::size_t>(row)] * std::abs(effects[i]) / std::max(size, 1e-8);
        }
      }
      for (std::size_t i = 0; i < next.size(); ++i) total[i] += next[i];
      flow = next;
    }
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < n_features; ++i) {
      if (!has_row[static_cast<std::size_t>(i)]) order.push_back(i);
    }
    std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
      return total[static_cast<std::size_t>(a)] > total[static_cast<std::size_t>(b)];
    });
    order.resize(static_cast<std::size_t>(std::min(at_once, n - std::ssize(chosen))));
    for (const std::int64_t i : order) {
      has_row[static_cast<std::size_t>(i)] = true;
      chosen.push_back(i);
    }
  }
  std::ranges::sort(chosen);
  return chosen;
}

TEST_F(Circuits, HaveTheFeaturesWithTheLargestInfluence) {
  for_cases([&](const Json&, const Model& model, const Applied& transcoders) {
    const AttributionGraph whole = graph_of(model, transcoders, ids_);
    const AttributionGraph part =
        graph_of(model, transcoders, ids_, {.options = {.max_feature_nodes = 30, .batch_size = 2}});
    ASSERT_EQ(part.selected, chosen_features(whole, 30, 8));
    for (std::int64_t row = 0; row < part.n_nodes(); ++row) {
      const bool is_feature = row < part.n_selected();
      const std::int64_t in_whole =
          is_feature ? part.selected[static_cast<std::size_t>(row)] : row - part.n_selected() + whole.n_selected();
      const std::vector<double> got = dense_row(part, row), all = dense_row(whole, in_whole);
      for (std::int64_t i = 0; i < part.n_nodes(); ++i) {
        const std::int64_t source = i < part.n_selected() ? part.selected[static_cast<std::size_t>(i)]
                                                          : i - part.n_selected() + whole.n_selected();
        ASSERT_EQ(got[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(source)]);
      }
      EXPECT_EQ(part.bias[static_cast<std::size_t>(row)], whole.bias[static_cast<std::size_t>(in_whole)]);
    }
  });
}

/// Every golden whose sublayers other than MLPs are linear with constant patterns and divisors: parallel blocks,
/// post-norms, norms of q and k, windows, sinks, factors of embeddings, sublayers and logits, biases.
TEST(CircuitsOfGoldens, AddUpToTheirValues) {
  std::set<std::string> refused;
  int n_graphs = 0;
  for (const std::string& name : golden_cases()) {
    const Checkpoint checkpoint = golden_checkpoint(name);
    const Model& model = *checkpoint.model;
    const ModelConfig& config = model.config();
    if (config.encoder || is_bidirectional(config) || config.blocks.empty() || !config.has_head) continue;
    SCOPED_TRACE(name);
    const std::vector<std::int32_t> ids = some_ids(model, 7);
    try {
      const AttributionGraph graph = graph_of(model, random_transcoders(model, 24, n_graphs % 2 == 0), ids);
      EXPECT_GT(graph.n_selected(), 10);
      EXPECT_LT(error_of_sums(graph), 2e-5);
      ++n_graphs;
    } catch (const Unsupported& e) {
      refused.insert(name);
    }
  }
  EXPECT_GE(n_graphs, 40) << testing::PrintToString(refused);
  for (const char* name : {"gpt2", "gemma2", "gemma3", "gpt_neox", "gptj", "llama_mha", "qwen3", "cohere", "gpt_oss"}) {
    EXPECT_FALSE(refused.contains(name)) << name;
  }
}

TEST_F(Circuits, RefuseWhatIsNotLinear) {
  const Checkpoint checkpoint = load_checkpoint(path("gpt2"));
  const Model& model = *checkpoint.model;
  const auto refusal = [&](const Applied& transcoders) -> std::string {
    try {
      graph_of(model, transcoders, ids_);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  Applied transcoders = applied(path("gpt2-jumprelu_transcoder"), model);
  transcoders.pop_back();
  EXPECT_THAT(refusal(transcoders),
              testing::HasSubstr("expected a transcoder for each of 3 layers, got none for layer 2"));
  EXPECT_THAT(refusal(applied(path("saelens-standard"), model)),
              testing::HasSubstr("expected a transcoder, got a sparse"));
}

TEST(Pruning, KeepsTheStrongestNodesAndTheirEdges) {
  // One layer, two tokens: features 0 and 1, errors 2 and 3, tokens 4 and 5, a logit 6.
  AttributionGraph graph;
  graph.values.transcoders.resize(1);
  graph.values.features = {{0, 1, 3, 1.0f}, {0, 1, 5, 2.0f}};
  graph.values.logits = {{0, 1.0f, 0.0f}};
  graph.values.layout = NodeLayout(1, 2, 1, graph.values.features);
  graph.selected = {0, 1};
  graph.indptr = {0, 2, 3, 3, 3, 3, 3, 7};
  graph.indices = {4, 5, 5, 0, 1, 3, 5};
  graph.effects = {3.0f, -1.0f, 2.0f, 6.0f, -1.0f, 2.0f, 1.0f};
  const GraphScores scores = scores_of(graph);
  // Influences: features 0.6 and 0.1, the error 0.2, tokens 0.6 · 3/4 and 0.6 / 4 + 0.1 + 0.1.
  EXPECT_NEAR(scores.replacement, 0.8, 1e-12);
  EXPECT_NEAR(scores.completeness, 2.5 / 2.7, 1e-12);  // a fifth of the logit's row is an error's
  const PrunedGraph pruned = prune(graph, 0.7, 0.98);
  EXPECT_EQ(pruned.nodes, (std::vector<bool>{true, false, false, false, true, true, true}));
  EXPECT_EQ(pruned.edges, (std::vector<bool>{true, true, false, true, false, false, true}));
  EXPECT_NEAR(pruned.cumulative[0], 0.6 / 1.7, 1e-6);
}

}  // namespace
}  // namespace vitrine::test
