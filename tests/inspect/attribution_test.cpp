// Attribution and patching: shares that add up, and runs that have the bits they have alone, for every golden model.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "inspect/attribution.h"
#include "inspect/frozen_sites.h"
#include "inspect/objective.h"
#include "inspect/patch.h"
#include "inspect/recorder.h"
#include "inspect/timing.h"
#include "ops/attention_sites.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

struct Runner {
  explicit Runner(const std::string& name, Compute compute = Compute::automatic)
      : checkpoint(golden_checkpoint(name)), ids(golden_ids(name)) {
    context = {checkpoint.model.get(), &pool, &default_kernels()};
    context.compute = compute;
  }
  /// hook_logits of the last position, with writes.
  std::vector<float> last_logits(std::span<const std::int32_t> text, const std::vector<std::string>& writes) {
    std::vector<SiteWrite> parsed;
    for (const std::string& write : writes) parsed.push_back(parse_site_write(write));
    Recorder recorder({""}, parsed, site_layers(checkpoint.model->config()), {});
    const std::vector<float> all = logits_of(*checkpoint.model, text, {.taps = &recorder, .compute = context.compute});
    recorder.check_writes_met();
    return {all.end() - checkpoint.model->config().vocab_size, all.end()};
  }

  Checkpoint checkpoint;
  ThreadPool pool{2};
  GenerateContext context;
  std::vector<std::int32_t> ids;
};

/// Whether the logits are no sum of what the sublayers write: a map before the unembedding, or several streams.
bool is_refused(const Runner& run) {
  const ModelConfig& config = run.checkpoint.model->config();
  if (!config.head.width && !config.altup) return false;
  EXPECT_THROW(attribute(run.context, run.ids, {3, 4, -2}), Unsupported);
  return true;
}

class AttributionOf : public testing::TestWithParam<std::string> {};

TEST_P(AttributionOf, TheTermsAddUp) {
  Runner run(GetParam());
  if (is_refused(run)) GTEST_SKIP() << "it is refused";
  Probe probe(*run.checkpoint.model, {"unembed.hook_out", "hook_logits"});
  logits_of(*run.checkpoint.model, run.ids, {.taps = &probe});
  const auto vocab_size = static_cast<std::size_t>(run.checkpoint.model->config().vocab_size);
  std::map<std::string, double> by_component;
  for (const bool by_head : {false, true}) {
    const Attribution found = attribute(run.context, run.ids, {3, 4, -2, by_head});
    double sum = 0, magnitude = 0;
    std::map<std::string, double> by_sublayer;
    for (const AttributionTerm& term : found.terms) {
      sum += term.value;
      magnitude += std::abs(term.value);
      const std::size_t of_head = std::min(term.name.find(".head."), term.name.find(".bias"));
      const bool is_head = term.name.starts_with("blocks.") && of_head != std::string::npos;
      by_sublayer[is_head ? term.name.substr(0, term.name.find('.', 9)) : term.name] += term.value;
    }
    const auto at = [&](const char* site, std::size_t id) {
      return static_cast<double>(probe.values.at(site).data[(run.ids.size() - 2) * vocab_size + id]);
    };
    EXPECT_EQ(found.sum, sum);
    EXPECT_EQ(found.position, static_cast<std::int64_t>(run.ids.size()) - 2);
    EXPECT_EQ(found.unembedded, at("unembed.hook_out", 3) - at("unembed.hook_out", 4));
    EXPECT_EQ(found.logit, at("hook_logits", 3) - at("hook_logits", 4));
    EXPECT_NEAR(found.sum, found.unembedded, 1e-5 * (1 + magnitude));
    if (!by_head) by_component = by_sublayer;
    for (const auto& [name, value] : by_sublayer) EXPECT_NEAR(value, by_component.at(name), 1e-5 * (1 + magnitude));
  }
}

TEST_P(AttributionOf, AblationsAreRunsWithZeros) {
  Runner run(GetParam());
  if (is_refused(run)) GTEST_SKIP() << "it is refused";
  const auto n = static_cast<std::int64_t>(run.ids.size());
  const Attribution found = attribute(run.context, run.ids, {3, {}, n - 1, true, true});
  const auto ablated = [&](const std::string& name) {
    for (const AttributionTerm& term : found.terms) {
      if (term.name == name) return static_cast<float>(term.ablated.value());
    }
    throw InternalError("test", "no term {}", name);
  };
  EXPECT_EQ(ablated("embed"), run.last_logits(run.ids, {"hook_embed=0"})[3]);
  const BlockConfig& block = run.checkpoint.model->config().blocks[0];
  const bool has_ffn = find<DenseConfig>(block) != nullptr || find<MoeConfig>(block) != nullptr;
  if (has_ffn) {
    EXPECT_EQ(ablated("blocks.0.mlp"), run.last_logits(run.ids, {"blocks.0.hook_mlp_out=0"})[3]);
  }
  if (heads_of(run.checkpoint.model->config(), 0) == nullptr) {
    const std::string name = "blocks.0." + std::string(names_of(block.sublayers[0]).prefix);
    if (find<DeltaNetConfig>(block) != nullptr) {
      EXPECT_EQ(ablated(name + ".head.1"), run.last_logits(run.ids, {name + ".hook_z[:,1]=0"})[3]);
      return;
    }
    if (const auto* const mamba2 = find<Mamba2Config>(block)) {
      const std::string columns = fmt::format("{}:{}", mamba2->head_dim, 2 * mamba2->head_dim);
      EXPECT_EQ(ablated(name + ".head.1"),
                run.last_logits(run.ids, {name + ".inner_norm.hook_out[:," + columns + "]=0"})[3]);
      return;
    }
    EXPECT_EQ(ablated(name), run.last_logits(run.ids, {"blocks.0.hook_mixer_out=0"})[3]);
    return;
  }
  EXPECT_EQ(ablated("blocks.0.attn.head.0"), run.last_logits(run.ids, {"blocks.0.attn.hook_z[:,0]=0"})[3]);
}

TEST_P(AttributionOf, PatchedRunsHaveTheBitsTheyHaveAlone) {
  Runner run(GetParam());
  std::vector<std::int32_t> corrupted = run.ids;
  corrupted[1] = (corrupted[1] + 1) % 7;
  corrupted[3] = (corrupted[3] + 2) % 7;
  Probe clean(*run.checkpoint.model, {"*hook_resid_pre", "*hook_v"});
  logits_of(*run.checkpoint.model, run.ids, {.taps = &clean});
  const auto set = [&](const std::string& name, std::size_t from, std::size_t count, std::size_t stride,
                       const std::string& before, const std::string& after) {
    std::vector<std::string> writes;  // one for each element
    const std::vector<float>& data = clean.values.at(name).data;
    for (std::size_t i = from; i < data.size(); i += stride) {
      for (std::size_t j = 0; j < count; ++j) {
        const std::string row = stride == data.size() ? "" : std::to_string(i / stride) + ",";
        writes.push_back(fmt::format("{}[{}{}{}{}]={:.9g}", name, before, row, after, j, data[i + j]));
      }
    }
    return writes;
  };
  const PatchOptions rows{Site::resid_pre, 3};
  const Patch by_row = patch(run.context, run.ids, corrupted, rows);
  const std::size_t layer = by_row.metric.size() - 1;
  const auto d = static_cast<std::size_t>(run.checkpoint.model->config().width_before(layer));
  const std::string stream = fmt::format("blocks.{}.hook_resid_pre", layer);
  const std::size_t size = clean.values.at(stream).data.size();
  for (const std::size_t position : {std::size_t{1}, run.ids.size() - 1}) {
    const auto writes = set(stream, position * d, d, size, std::to_string(position) + ",", "");
    EXPECT_EQ(static_cast<float>(by_row.metric[layer][position]), run.last_logits(corrupted, writes)[3]);
  }
  EXPECT_EQ(static_cast<float>(by_row.corrupted), run.last_logits(corrupted, {})[3]);
  EXPECT_EQ(static_cast<float>(by_row.clean), run.last_logits(run.ids, {})[3]);

  if (attention_of(run.checkpoint.model->config(), 0) == nullptr) return;  // latent attention has no values by head
  const Patch by_head = patch(run.context, run.ids, corrupted, {AttentionSite::v, 3});
  const Value& v = clean.values.at("blocks.0.attn.hook_v");
  const auto row_size = static_cast<std::size_t>(v.shape.count_from(1)), dh = static_cast<std::size_t>(v.shape[2]);
  EXPECT_EQ(by_head.metric[0].size(), static_cast<std::size_t>(v.shape[1]));
  const auto writes = set("blocks.0.attn.hook_v", 0, dh, row_size, "", "0,");
  EXPECT_EQ(static_cast<float>(by_head.metric[0][0]), run.last_logits(corrupted, writes)[3]);
}

/// The gradient of a difference of logits, against a difference quotient.
TEST_P(AttributionOf, TheApproximationIsTheFirstOrder) {
  Runner run(GetParam(), Compute::f32);  // as gradients
  const Model& model = *run.checkpoint.model;
  const bool attends = heads_of(model.config(), 0) != nullptr;
  const std::string site = attends ? "blocks.0.hook_attn_out" : "blocks.0.hook_mixer_out";
  Probe probe(model, {site});
  probe.ask_gradients = true;
  Arena arena;
  Pass pass = text_pass(run.context, arena, run.ids);
  pass.taps = &probe;
  const auto last = static_cast<std::int64_t>(run.ids.size()) - 1;
  backward_from_objective(model, pass, run.ids, {3, 4, last});
  const double gradient = static_cast<double>(probe.gradients.at(site).data[0]);
  const auto difference = [&](const char* step) {
    const std::vector<float> logits = run.last_logits(run.ids, {fmt::format("{}[0,0]+={}", site, step)});
    return static_cast<double>(logits[3]) - static_cast<double>(logits[4]);
  };
  const double quotient = (difference("0.01") - difference("-0.01")) / 0.02;
  EXPECT_NEAR(gradient, quotient, 2e-3 * (1 + std::abs(quotient)));
}

INSTANTIATE_TEST_SUITE_P(Goldens, AttributionOf, testing::ValuesIn(golden_cases()),
                         [](const auto& test) { return test.param; });

TEST(Attribution, RefusesWhatIsOutOfRange) {
  Runner run("gpt2");
  EXPECT_THROW(attribute(run.context, run.ids, {100000}), BadInput);
  EXPECT_THROW(attribute(run.context, run.ids, {3, {}, 1000}), BadInput);
  const std::vector<std::int32_t> shorter(run.ids.begin(), run.ids.end() - 1);
  EXPECT_THROW(patch(run.context, run.ids, shorter, {}), BadInput);
  EXPECT_THROW(patch_site("hook_resid_pro"), BadInput);
}

/// A patch with frozen sites is a run of the corrupted text in which these have its values, before the patch.
TEST(Patch, FrozenSitesKeepTheValuesOfTheCorruptedText) {
  const std::vector<std::vector<std::string>> frozen = {
      {"blocks.*.attn.hook_pattern"}, {"blocks.*.hook_attn_out", "blocks.*.hook_mlp_out"}, {"blocks.1.hook_resid_pre"}};
  for (const char* const name : {"gpt2", "gemma2"}) {
    Runner run(name);
    std::vector<std::int32_t> corrupted = run.ids;
    corrupted[1] = corrupted[1] == 5 ? 6 : 5;
    Probe clean(*run.checkpoint.model, {"blocks.*.hook_resid_pre"});
    logits_of(*run.checkpoint.model, run.ids, {.taps = &clean, .compute = run.context.compute});
    for (const std::vector<std::string>& globs : frozen) {
      SCOPED_TRACE(name + (": " + globs.front()));
      PatchOptions options{Site::resid_pre, 3};
      options.frozen = globs;
      const Patch found = patch(run.context, run.ids, corrupted, options);
      const std::size_t n = run.ids.size();
      for (const std::size_t layer : {std::size_t{0}, std::size_t{1}}) {
        const std::string site = fmt::format("blocks.{}.hook_resid_pre", layer);
        const std::vector<float>& data = clean.values.at(site).data;
        for (const std::size_t position : {std::size_t{1}, n - 1}) {
          std::vector<SiteWrite> writes;
          const std::size_t d = data.size() / n;
          for (std::size_t j = 0; j < d; ++j) {
            writes.push_back(
                parse_site_write(fmt::format("{}[{},{}]={:.9g}", site, position, j, data[position * d + j])));
          }
          Recorder recorder({""}, writes, site_layers(run.checkpoint.model->config()), {});
          FrozenPass taps(CleanRun(run.context, globs, 0), recorder);
          const std::vector<float> all =
              logits_of(*run.checkpoint.model, corrupted, {.taps = &taps, .compute = run.context.compute});
          const auto vocab_size = static_cast<std::size_t>(run.checkpoint.model->config().vocab_size);
          EXPECT_EQ(static_cast<float>(found.metric[layer][position]), all[all.size() - vocab_size + 3]);
        }
      }
      if (globs.front().ends_with("out")) {  // nothing but the stream goes on
        EXPECT_EQ(found.metric[0][1], found.corrupted);
        EXPECT_NE(found.metric[1][n - 1], found.corrupted);
      }
    }
    EXPECT_THROW(patch(run.context, run.ids, corrupted, {.token = 3, .frozen = {"hook_logits"}}), Unsupported);
    EXPECT_THROW(patch(run.context, run.ids, corrupted, {.token = 3, .frozen = {"blocks.*.hook_none"}}), BadInput);
  }
}

TEST(Timing, TheClockChangesNothingAndMissesNoSublayer) {
  Runner run("gemma2");
  SiteClock clock;
  clock.start();
  const std::vector<float> timed = logits_of(*run.checkpoint.model, run.ids, {.taps = &clock});
  EXPECT_TRUE(same_bits(timed, logits_of(*run.checkpoint.model, run.ids)));
  const std::vector<SiteTime> times = site_times(run.context, run.ids);
  ASSERT_EQ(times.size(), clock.times().size());
  EXPECT_EQ(name_of(times.front().site), "hook_tokens");
  EXPECT_EQ(name_of(times.back().site), "hook_logits");
  for (const SiteTime& time : times) EXPECT_GE(time.seconds, 0);
}

}  // namespace
}  // namespace vitrine::test
