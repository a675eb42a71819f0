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

/// The logit of a token, as a function of one activation of a feature in mode error, against the gradient.
TEST(FeatureGradients, AreThoseOfDifferences) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  const Model& model = *checkpoint.model;
  const std::vector<std::int32_t> ids = golden_ids("llama_mha");
  const std::int64_t d = model.config().d_model;
  for (const auto scaling :
       {InputScaling::Kind::none, InputScaling::Kind::layer_norm, InputScaling::Kind::constant_norm}) {
    auto made = std::make_shared<Made>(d, 24);
    made->own.scaling.kind = scaling;
    const Applied dictionaries = {{std::shared_ptr<const Dictionary>(made, &made->own)}};
    const std::string acts = "blocks.1.hook_resid_post.hook_sae_acts_post";
    const auto logit = [&](double change) {
      const std::string write = fmt::format("{}[2,5]+={}", acts, change);
      const auto got = run(model, ids, {.writes = {write}, .dictionaries = dictionaries});
      return static_cast<double>(got.logits[got.logits.size() - static_cast<std::size_t>(model.config().vocab_size)]);
    };
    std::map<std::string, std::vector<float>> gradients;
    Recorder recorder({acts}, {}, site_layers(model.config(), dictionaries), {});
    recorder.receive_gradients([&](const SiteId& id, const Tensor& t) {
      gradients[name_of(id)] = {t.data, t.data + t.count()};
    });
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
    const double h = 0.02, measured = (logit(h) - logit(-h)) / (2 * h);
    EXPECT_NEAR(gradients.at(acts)[2 * 24 + 5], measured, 5e-3 * std::max(1e-2, std::abs(measured)));
  }
}

}  // namespace
}  // namespace vitrine::test
