// Which features are active, and the gradients of a dictionary, on dictionaries that are made here.
#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "features/made_dictionary.h"
#include "features/support.h"
#include "ops/encode_features.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

struct Machine {
  ThreadPool pool{2};
  Arena arena;
  Pass pass{{pool, default_kernels(), arena}, {}};
};

TEST(FeatureSelection, TheSmallerIndexWinsAmongEqualKeys) {
  Machine machine;
  Made made(4, 8);
  made.own.selection = {.kind = FeatureSelection::Kind::topk, .k = 3};
  std::vector<float> keys = {1, 2, 1, 3, 1, 1, -1, 1};
  const PreActivations pre{{keys.data(), {1, 8}}, {}};
  const Features chosen = select_features(machine.pass, made.own, pre, {true});
  std::vector<std::int32_t> indices;
  for (const SparseValue& own : chosen.rows->row(0)) indices.push_back(own.index);
  EXPECT_EQ(indices, (std::vector<std::int32_t>{0, 1, 3}));
  made.own.selection.kind = FeatureSelection::Kind::group_max;
  made.own.selection.k = 4;
  indices.clear();
  const Features of_groups = select_features(machine.pass, made.own, pre, {true});
  for (const SparseValue& own : of_groups.rows->row(0)) indices.push_back(own.index);
  EXPECT_EQ(indices, (std::vector<std::int32_t>{1, 3, 4, 7}));
}

/// Panels and whole rows give the same features; there are more of these than a panel has.
TEST(FeatureSelection, PanelsHaveTheBitsOfWholeRows) {
  Machine machine;
  constexpr std::int64_t kRows = 5000, kWidth = 12, kFeatures = 700;
  Made made(kWidth, kFeatures);
  Made rows(kWidth, kRows);
  const Tensor x{const_cast<float*>(reinterpret_cast<const float*>(rows.own.encoder.view.data)), {kRows, kWidth}};
  const ActiveRows active(kRows, true);
  for (const auto kind :
       {FeatureSelection::Kind::relu, FeatureSelection::Kind::topk, FeatureSelection::Kind::abstopk}) {
    made.own.selection = {.kind = kind, .k = 7};
    const Features whole = select_features(machine.pass, made.own, pre_activations(machine.pass, made.own, x), active);
    const Features panels = encode_features(machine.pass, made.own, x, active);
    for (std::int64_t t = 0; t < kRows; ++t) {
      const auto a = whole.rows->row(t), b = panels.rows->row(t);
      ASSERT_TRUE(std::ranges::equal(a, b, [](const SparseValue& p, const SparseValue& q) {
        return p.index == q.index && p.value == q.value;
      })) << t;
    }
  }
}

/// The gradient of the last row's first logit at a site, of a model with dictionaries.
std::vector<float> gradient_at(const Model& model, const std::vector<std::int32_t>& ids, const Applied& dictionaries,
                               const std::string& site) {
  std::vector<float> gradient;
  Recorder recorder({site}, {}, site_layers(model.config(), dictionaries), {});
  recorder.receive_gradients([&](const SiteId&, const Tensor& t) { gradient = {t.data, t.data + t.count()}; });
  ThreadPool pool(1);
  Arena arena;
  const auto n = std::ssize(ids);
  Pass pass{{pool, default_kernels(), arena}, {{0, n, 0}}};
  pass.segments.front().modifiers.dictionaries = dictionaries;
  pass.taps = &recorder;
  Gradients none;
  Tape tape(none);
  LossRequest loss;
  loss.logits = {{n - 1, 0, 1.0f}};
  LossResult result;
  pass.training.tape = &tape;
  pass.training.loss = &loss;
  pass.training.result = &result;
  model.forward_backward(pass, ids);
  return gradient;
}

/// Of one activation of a feature in mode error, and of an element of the stream whose block's output is replaced.
TEST(FeatureGradients, AreThoseOfDifferences) {
  using Kind = InputScaling::Kind;
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  const Model& model = *checkpoint.model;
  const std::vector<std::int32_t> ids = golden_ids("llama_mha");
  const std::int64_t d = model.config().d_model;
  const InputScaling scalings[] = {{.kind = Kind::none},
                                   {.kind = Kind::layer_norm},
                                   {.kind = Kind::constant_norm},
                                   {.kind = Kind::factor, .factor = 0.5f},
                                   {.kind = Kind::none, .is_centered = true},
                                   {.kind = Kind::constant_norm, .is_centered = true}};
  const struct {
    std::string site;
    std::int64_t width, element;
    DictionaryUse use;
  } places[] = {{"blocks.1.hook_resid_post.hook_sae_acts_post", 24, 5, DictionaryUse::automatic},
                {"blocks.1.hook_resid_pre", d, 3, DictionaryUse::replace}};
  for (const InputScaling& scaling : scalings) {
    auto made = std::make_shared<Made>(d, 24);
    made->own.scaling = scaling;
    for (const auto& place : places) {
      SCOPED_TRACE(fmt::format("{} {} {}", static_cast<int>(scaling.kind), scaling.is_centered, place.site));
      const Applied dictionaries = {{std::shared_ptr<const Dictionary>(made, &made->own), place.use}};
      const auto logit = [&](double change) {
        const std::string write = fmt::format("{}[2,{}]+={}", place.site, place.element, change);
        const auto got = run(model, ids, {.writes = {write}, .dictionaries = dictionaries});
        return static_cast<double>(got.logits[got.logits.size() - static_cast<std::size_t>(model.config().vocab_size)]);
      };
      const std::vector<float> gradient = gradient_at(model, ids, dictionaries, place.site);
      const double h = 0.01, measured = (logit(h) - logit(-h)) / (2 * h);
      EXPECT_NEAR(gradient[static_cast<std::size_t>(2 * place.width + place.element)], measured,
                  1e-2 * std::max(1e-2, std::abs(measured)));
    }
  }
}

/// The weights of TransformerLens's center_writing_weights give the stream without its mean.
TEST(Centering, ReadsTheStreamWithoutItsMean) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  const Model& model = *checkpoint.model;
  const std::vector<std::int32_t> ids = golden_ids("gpt2");
  const std::int64_t d = model.config().d_model;
  auto made = std::make_shared<Made>(d, 24);
  const std::string site = "blocks.1.hook_resid_post.";
  const auto values = [&](bool is_centered) {
    made->own.scaling.is_centered = is_centered;
    const Applied own = {{std::shared_ptr<const Dictionary>(made, &made->own), DictionaryUse::replace}};
    DictionaryRun o{.dictionaries = own};
    for (const char* value : {"input", "acts_pre", "recons", "output"}) o.globs.push_back(site + "hook_sae_" + value);
    return run(model, ids, o).values;
  };
  const auto plain = values(false), centered = values(true);
  const std::vector<float>& x = plain.at(site + "hook_sae_input");
  EXPECT_EQ(centered.at(site + "hook_sae_input"), x);
  const auto* const encoder = reinterpret_cast<const float*>(made->own.encoder.view.data);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const auto n = static_cast<std::size_t>(d);
    double mean = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[t * n + i] / static_cast<double>(n);
    for (std::size_t f = 0; f < 24; ++f) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += encoder[f * n + i];
      EXPECT_NEAR(centered.at(site + "hook_sae_acts_pre")[t * 24 + f],
                  plain.at(site + "hook_sae_acts_pre")[t * 24 + f] - mean * sum, 1e-5);
    }
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(centered.at(site + "hook_sae_output")[t * n + i],
                  centered.at(site + "hook_sae_recons")[t * n + i] + mean, 1e-5);
    }
  }
}

}  // namespace
}  // namespace vitrine::test
