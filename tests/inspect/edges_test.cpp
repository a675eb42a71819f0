// Edge attribution: the scores of a source add up to its own, and single edges are what the definition says.
#include "inspect/edges.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "inspect/recorder.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using Values = std::map<std::string, std::vector<float>>;

struct Prompts {
  explicit Prompts(const std::string& name) : checkpoint(golden_checkpoint(name)) {}

  const Model& model() const { return *checkpoint.model; }
  EdgeScores scores(int n_steps, int threads = 1) const {
    ThreadPool pool(threads);
    const GenerateContext context{&model(), &pool, &default_kernels()};
    return edge_scores(context, clean, corrupted, objective, n_steps);
  }
  /// The values of the sites in one run, or their gradients.
  Values values(const std::vector<std::string>& globs, const std::vector<std::int32_t>& ids, bool gradients) const {
    ThreadPool pool(1);
    const GenerateContext context{&model(), &pool, &default_kernels()};
    Values result;
    const auto keep = [&](const SiteId& id, const Tensor& t) {
      result[name_of(id)].assign(t.data, t.data + t.count());
    };
    Recorder recorder(globs, {}, site_layers(model().config()), gradients ? Recorder::Receive{} : keep);
    if (gradients) recorder.receive_gradients(keep);
    Arena arena;
    Pass pass = text_pass(context, arena, ids);
    pass.taps = &recorder;
    pass.compute = Compute::f32;
    if (gradients) {
      backward_from_objective(model(), pass, ids, objective);
    } else {
      pass.logits = {LogitRequest::Rows::last_of_segments, 0, 0, [](std::int64_t, const Tensor&) {}};
      model().forward(pass, ids);
    }
    return result;
  }

  Checkpoint checkpoint;
  std::vector<std::int32_t> clean = {5, 3, 9, 2, 11}, corrupted = {5, 7, 9, 4, 11};
  Objective objective{3, 8, 4, false};
};

double dot(const float* a, const float* b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// The sum of the scores of all edges that leave a source at a position.
double sum_from(const EdgeScores& found, const EdgeNode& source, std::size_t position) {
  double sum = 0;
  for (std::size_t v = 0; v < found.targets.size(); ++v) {
    for (std::size_t u = 0; u < found.n_sources[v]; ++u) {
      if (found.sources[u] == source) sum += found.scores[v][position * found.n_sources[v] + u];
    }
  }
  return sum;
}

std::string site_of(const EdgeNode& node) {
  const std::string block = "blocks." + std::to_string(std::max(node.layer, 0)) + ".";
  if (node.kind == EdgeNode::Kind::embed) return block + "hook_resid_pre";
  return block + (node.kind == EdgeNode::Kind::mlp_out ? "hook_mlp_out" : "attn.hook_result");
}

class EdgesOf : public testing::TestWithParam<std::string> {};

TEST_P(EdgesOf, ASourceAddUpToItsGradientTimesItsDifference) {
  const Prompts p(GetParam());
  const EdgeScores found = p.scores(1);
  const std::vector<std::string> globs = {"blocks.0.hook_resid_pre", "*.hook_mlp_out", "*.attn.hook_result"};
  const Values clean = p.values(globs, p.clean, false), corrupted = p.values(globs, p.corrupted, false),
               gradients = p.values(globs, p.corrupted, true);
  double largest = 0;
  for (const auto& own : found.scores) {
    for (const double score : own) largest = std::max(largest, std::abs(score));
  }
  ASSERT_GT(largest, 1e-4);
  const auto d = static_cast<std::size_t>(p.model().config().d_model);
  for (const EdgeNode& source : found.sources) {
    const std::string site = site_of(source);
    const std::size_t n = clean.at(site).size() / (p.clean.size() * d);
    std::vector<float> difference = clean.at(site);
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= corrupted.at(site)[i];
    for (std::size_t t = 0; t < p.clean.size(); ++t) {
      const std::size_t at = (t * n + static_cast<std::size_t>(std::max(source.head, 0))) * d;
      EXPECT_NEAR(sum_from(found, source, t), dot(difference.data() + at, gradients.at(site).data() + at, d),
                  2e-5 * (1 + largest))
          << site << " " << source.head << " at " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, EdgesOf,
                         testing::Values("gpt2", "gemma2", "gemma3", "llama_mha", "mistral", "olmo2", "gpt_neox",
                                         "granite", "mixtral"),
                         [](const auto& test) { return test.param; });

TEST(Edges, AreTheDefinition) {
  const Prompts p("gpt2");
  const EdgeScores found = p.scores(1);
  const std::vector<std::string> inputs = {"blocks.1.hook_k_input"}, outputs = {"blocks.0.attn.hook_result"};
  const Values clean = p.values(outputs, p.clean, false), corrupted = p.values(outputs, p.corrupted, false),
               gradients = p.values(inputs, p.corrupted, true);
  const auto d = static_cast<std::size_t>(p.model().config().d_model);
  const auto n_heads = clean.at(outputs[0]).size() / (p.clean.size() * d);
  ASSERT_GT(n_heads, 1U);
  for (std::size_t v = 0; v < found.targets.size(); ++v) {
    const EdgeNode& target = found.targets[v];
    if (target.kind != EdgeNode::Kind::k_input || target.layer != 1) continue;
    for (std::size_t u = 0; u < found.n_sources[v]; ++u) {
      const EdgeNode& source = found.sources[u];
      if (source.kind != EdgeNode::Kind::attn_head_out) continue;
      for (std::size_t t = 0; t < p.clean.size(); ++t) {
        const std::size_t at = (t * n_heads + static_cast<std::size_t>(source.head)) * d;
        std::vector<float> difference(d);
        for (std::size_t i = 0; i < d; ++i) {
          difference[i] = clean.at(outputs[0])[at + i] - corrupted.at(outputs[0])[at + i];
        }
        const float* const gradient =
            gradients.at(inputs[0]).data() + (t * n_heads + static_cast<std::size_t>(target.head)) * d;
        EXPECT_NEAR(found.scores[v][t * found.n_sources[v] + u], dot(difference.data(), gradient, d), 1e-6);
      }
    }
  }
  // Position 0 is the same in both prompts.
  for (std::size_t v = 0; v < found.targets.size(); ++v) {
    for (std::size_t u = 0; u < found.n_sources[v]; ++u) EXPECT_EQ(found.scores[v][u], 0);
  }
}

TEST(Edges, OfManyStepsAddUpToTheDifferenceOfTheMetrics) {
  // The integral of the gradient along the embeddings times their difference is that of the metric. The sum over m
  // points is off by a multiple of 1 / m, which two sums tell.
  const Prompts p("gpt2");
  const auto sum = [&](const EdgeScores& found) {
    double all = 0;
    for (std::size_t t = 0; t < p.clean.size(); ++t) all += sum_from(found, {EdgeNode::Kind::embed}, t);
    return all;
  };
  const EdgeScores few = p.scores(400), many = p.scores(800);
  EXPECT_GT(std::abs(few.clean - few.corrupted), 0.01);
  EXPECT_NEAR(2 * sum(many) - sum(few), few.clean - few.corrupted, 1e-3);
}

TEST(Edges, HaveTheSameBitsOnAnyNumberOfThreads) {
  const Prompts p("gemma2");
  EXPECT_EQ(p.scores(3, 1).scores, p.scores(3, 3).scores);
}

TEST(Edges, AreSortedByMagnitude) {
  const EdgeScores found = Prompts("gpt2").scores(2);
  const std::vector<Edge> all = found.strongest(1 << 30);
  ASSERT_EQ(std::ssize(all), found.count());
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_GE(std::abs(all[i - 1].score), std::abs(all[i].score));
  const std::vector<Edge> few = found.strongest(3);
  ASSERT_EQ(few.size(), 3U);
  EXPECT_EQ(few[2].score, all[2].score);
  EXPECT_EQ(name_of(found.targets.back()), "logits");
  EXPECT_EQ(name_of(EdgeNode{EdgeNode::Kind::v_input, 3, 1}), "a3.h1.v");
}

TEST(Edges, RefuseStreamsThatAreNoSums) {
  for (const char* name : {"gptj", "deepseek_v2", "gemma3n", "mamba", "gemma4"}) {
    EXPECT_THROW(Prompts(name).scores(1), Unsupported) << name;
  }
  Prompts uneven("gpt2");
  uneven.corrupted.pop_back();
  EXPECT_THROW(uneven.scores(1), BadInput);
}

}  // namespace
}  // namespace vitrine::test
