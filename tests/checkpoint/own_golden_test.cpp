// Compares models in our own words, most of them recurrent and dense, with PyTorch (tools/goldens own): every site of
// the forward, and every gradient; and every way to run them with each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/hostile_folder.h"
#include "inspect/recorder.h"
#include "model/dry_run.h"
#include "support/backward.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

/// Of a tensor, relative to 1 + its largest magnitude.
constexpr double kSiteTolerance = 2e-6;

std::string own(const std::string& name) { return "own/" + name; }

class OwnGolden : public testing::TestWithParam<std::string> {
 protected:
  const Checkpoint checkpoint_ = golden_checkpoint(own(GetParam()));
  const Model& model_ = *checkpoint_.model;
  const Ids ids_ = golden_ids(own(GetParam()));
  const TempFolder folder_;
};

TEST_P(OwnGolden, EverySiteEqualsTheReference) {
  const auto expected = golden_values(own(GetParam()));
  Probe probe(model_, {"*"});
  const std::vector<float> logits = logits_of(model_, ids_, {.threads = 2, .taps = &probe});
  EXPECT_TRUE(same_bits(logits, logits_of(model_, ids_))) << "taps changed the logits";
  EXPECT_EQ(probe.values.size(), expected.size());
  for (const auto& [site, value] : expected) {
    const auto it = probe.values.find(site);
    ASSERT_TRUE(it != probe.values.end()) << site << " was not visited";
    ASSERT_EQ(it->second.shape, value.shape) << site;
    const double bound = kSiteTolerance * (1 + largest(value.data));
    for (std::size_t i = 0; i < value.data.size(); ++i) ASSERT_NEAR(it->second.data[i], value.data[i], bound) << site;
  }
}

TEST_P(OwnGolden, GradientsEqualPyTorch) {
  if (is_bidirectional(model_.config())) GTEST_SKIP() << "such a model does not predict the next token";
  const auto loss = static_cast<double>(golden_gradient_file(own(GetParam())).at("loss").data[0]);
  const Values reference = params_of(*golden_gradient_checkpoint(own(GetParam()), folder_ / "gradients").model);
  const auto n = static_cast<double>(ids_.size() - 1);
  Values first;
  for (const bool recompute : {false, true}) {
    for (const bool tapped : {false, true}) {
      Probe probe(model_, {"*"});
      probe.ask_gradients = true;
      ModelGradients model_gradients(
          model_, {.threads = recompute ? 1 : 2, .taps = tapped ? &probe : nullptr, .recompute = recompute});
      model_gradients.forward_backward({ids_}, static_cast<float>(1 / n));
      EXPECT_NEAR(model_gradients.cross_entropy / n, loss, 1e-5 * loss);
      const Distance d = distance(model_gradients.gradients(), reference);
      EXPECT_LE(d.worst, 1) << d.name;
      if (first.empty()) first = model_gradients.gradients();
      EXPECT_EQ(first_difference(first, model_gradients.gradients()), "")
          << "recompute " << recompute << ", taps " << tapped;
    }
  }
}

TEST_P(OwnGolden, ChunksAndStepsEqualOnePass) {
  if (is_bidirectional(model_.config())) {
    EXPECT_THROW(model_.make_cache(8, KvType::f32), Unsupported);
    return;
  }
  const std::vector<float> whole = logits_of(model_, ids_);
  for (const std::int64_t chunk : {1, 2, 5}) {
    EXPECT_TRUE(same_bits(whole, chunked_logits_of(model_, ids_, chunk, {.threads = 2}))) << "chunks of " << chunk;
  }
}

TEST_P(OwnGolden, SequencesAreIndependent) {
  const Ids other(ids_.begin() + 5, ids_.end() - 3);
  std::vector<Segment> segments;
  Ids all;
  for (const Ids* ids : {&other, &ids_, &other}) {
    segments.push_back({static_cast<std::int64_t>(all.size()), static_cast<std::int64_t>(ids->size())});
    all.insert(all.end(), ids->begin(), ids->end());
  }
  ThreadPool pool(2);
  Arena arena;
  Pass pass{{pool, default_kernels(), arena}, segments};
  std::vector<float> logits;
  pass.logits = {LogitRequest::Rows::range, 0, static_cast<std::int64_t>(all.size()),
                 [&](std::int64_t, const Tensor& rows) {
                   logits.insert(logits.end(), rows.values().begin(), rows.values().end());
                 }};
  model_.forward(pass, all);
  std::vector<float> alone = logits_of(model_, other);
  for (const Ids* ids : {&ids_, &other}) {
    const std::vector<float> more = logits_of(model_, *ids);
    alone.insert(alone.end(), more.begin(), more.end());
  }
  EXPECT_TRUE(same_bits(logits, alone));
}

TEST_P(OwnGolden, DryRunsHaveTheOpsOfARealRun) {
  const auto n = static_cast<std::int64_t>(ids_.size());
  ThreadPool pool(2);
  Arena arena;
  Ledger real, dry;
  Pass pass{{pool, default_kernels(), arena}, {{0, n}}};
  pass.ledger = &real;
  pass.logits = {LogitRequest::Rows::range, 0, n, [](std::int64_t, const Tensor&) {}};
  model_.forward(pass, ids_);
  DryPass shapes(pool, {{0, n}});
  shapes.pass().logits = pass.logits;
  shapes.pass().ledger = &dry;
  shapes.run(shape_model(model_.config()));
  ASSERT_EQ(real.ops().size(), dry.ops().size());
  for (std::size_t i = 0; i < real.ops().size(); ++i) {
    EXPECT_EQ(real.ops()[i].call.kind, dry.ops()[i].call.kind);
    EXPECT_EQ(real.ops()[i].cost.flops, dry.ops()[i].cost.flops);
    EXPECT_EQ(real.ops()[i].cost.weights, dry.ops()[i].cost.weights);
  }
  EXPECT_NEAR(static_cast<double>(shapes.bytes()), static_cast<double>(arena.touched_bytes()),
              0.1 * static_cast<double>(arena.touched_bytes()));
}

INSTANTIATE_TEST_SUITE_P(All, OwnGolden,
                         testing::Values("rnn", "rnn_relu", "gru", "lstm", "lstm_tied", "dense", "gru_both",
                                         "lstm_both"),
                         [](const auto& param_info) { return param_info.param; });

Recorder writing(const Model& model, const std::vector<std::string>& texts) {
  std::vector<SiteWrite> writes;
  for (const std::string& text : texts) writes.push_back(parse_site_write(text));
  return Recorder({""}, writes, site_layers(model.config()), {});
}

/// A state of 0 after a row: the later rows are those of a text that begins there.
TEST(CellWrites, ActOnAllLaterSteps) {
  const Checkpoint checkpoint = golden_checkpoint(own("rnn"));
  const Ids ids = golden_ids(own("rnn")), rest(ids.begin() + 6, ids.end());
  Recorder recorder = writing(*checkpoint.model, {"blocks.*.cell.hook_h[5]=0"});
  const std::vector<float> written = logits_of(*checkpoint.model, ids, {.taps = &recorder});
  recorder.check_writes_met();
  const std::vector<float> alone = logits_of(*checkpoint.model, rest), plain = logits_of(*checkpoint.model, ids);
  const auto n = static_cast<std::ptrdiff_t>(alone.size() / rest.size());
  EXPECT_TRUE(same_bits({written.begin() + 6 * n, written.end()}, alone));
  EXPECT_TRUE(same_bits({written.begin(), written.begin() + 5 * n}, {plain.begin(), plain.begin() + 5 * n}));
}

class WritesToGates : public testing::TestWithParam<std::string> {};

/// The gradient under writes, compared with differences of the loss.
TEST_P(WritesToGates, HaveTheirGradients) {
  const Checkpoint checkpoint = golden_checkpoint(own(GetParam()));
  const Model& model = *checkpoint.model;
  const Ids ids = golden_ids(own(GetParam()));
  const std::vector<std::string> writes =
      GetParam() == "lstm"
          ? std::vector<std::string>{"*.cell.hook_i*=0.7",   "*.cell.hook_f[3:9]*=0.5",       "*.cell.hook_g+=0.2",
                                     "*.cell.hook_o[2]=0.4", "blocks.1.cell.hook_c[4:]*=0.6", "*.cell.hook_h*=0.9"}
          : std::vector<std::string>{"*.cell.hook_r*=0.6", "*.cell.hook_z[3:9]*=0.5", "*.cell.hook_n+=0.2",
                                     "*.cell.hook_h*=0.9"};
  Recorder taps = writing(model, writes);
  ModelGradients model_gradients(model, {.taps = &taps});
  model_gradients.forward_backward({ids});
  taps.check_writes_met();
  const Values gradients = model_gradients.gradients();
  const TempFolder folder;
  for (const char* name : {"rnn.weight_hh_l0", "rnn.weight_ih_l1", "embed.weight"}) {
    const std::vector<float>& gradient = gradients.at(name).data;
    double square = 0;
    for (const float g : gradient) square += static_cast<double>(g) * static_cast<double>(g);
    ASSERT_GT(square, 0);
    const float step = static_cast<float>(2e-2 / std::sqrt(square));
    double loss[2];
    for (const int sign : {0, 1}) {
      ModelParams params = model.params();
      std::vector<float> moved;
      for_each_param(model.config(), params, [&](Param& param, const std::string& own_name, const Shape& shape) {
        if (own_name != name) return;
        const auto* const values = reinterpret_cast<const float*>(param.view.data);
        moved.assign(values, values + shape.count());
        for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += (sign == 0 ? -step : step) * gradient[i];
        param.view.data = reinterpret_cast<const std::byte*>(moved.data());
      });
      Recorder same = writing(model, writes);
      loss[sign] = loss_of(Model(model.config(), params, {}), ids, &same);
    }
    const double slope = (loss[1] - loss[0]) / (2 * static_cast<double>(step));
    EXPECT_NEAR(slope / square, 1, 5e-3) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, WritesToGates, testing::Values("lstm", "gru"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace vitrine::test
