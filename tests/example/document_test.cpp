// The worked example comes from a document that gives some of its matrices and their results. Most matrices are lost,
// so no single model has all of its numbers. This test checks them in three parts, with the ops and the optimizer of
// training. The expected values are those of the document. The tolerance is 0.001, the precision of the document.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "example/example.h"
#include "inspect/recorder.h"
#include "ops/attend.h"
#include "ops/elementwise.h"
#include "ops/embed.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/route.h"
#include "support/attend_own.h"

namespace vitrine::test {
namespace {

using Floats = std::vector<float>;

constexpr double kPrinted = 0.001;

void expect_printed(std::span<const float> values, const Floats& expected, const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(values[i]), static_cast<double>(expected[i]), kPrinted)
        << what << ", element " << i;
  }
}

/// Records every site and replaces the values of some.
class Forced : public Taps {
 public:
  bool wants(const SiteId&) const override { return true; }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    Tensor result = value;
    if (const auto it = forced.find(name_of(id)); it != forced.end()) {
      EXPECT_EQ(static_cast<std::int64_t>(it->second.size()), value.count()) << it->first;
      result = pass.tensor(value.shape);
      std::copy(it->second.begin(), it->second.end(), result.data);
    }
    recorded[name_of(id)] = {result.values().begin(), result.values().end()};
    return result;
  }

  std::map<std::string, Floats> forced, recorded;
};

/// The resources that ops need, and parameters and tensors with given values.
class Piece : public testing::Test {
 protected:
  Param param(const Shape& shape, Floats values) {
    kept_.push_back(std::move(values));
    const std::int64_t cols = shape[shape.rank() - 1];
    const auto* const data = reinterpret_cast<const std::byte*>(kept_.back().data());
    return {"", "", shape, {data, DType::f32, shape.count() / cols, cols, cols, 1}};
  }
  Tensor tensor(const Shape& shape, const Floats& values) {
    const Tensor x = arena_.tensor(shape);
    std::copy(values.begin(), values.end(), x.data);
    return x;
  }
  Pass pass(std::int64_t rows) { return Pass{{pool_, default_kernels(), arena_}, {{0, rows, 0, nullptr}}, {}, &taps_}; }

  ThreadPool pool_{1};
  Arena arena_;
  Forced taps_;
  std::vector<Floats> kept_;
};

const Floats kThe = {.1f, .2f, 0, .1f}, kCat = {.3f, .1f, .2f, 0}, kMat = {.1f, .4f, .2f, .3f};
const Floats kHidden = {-.378f, 1.335f, -1.377f, .420f};  // output of the final norm at the last position
constexpr std::int32_t kTarget = 5;

// (a) One position: norm, query, attention pattern, head, units of the feed-forward.

TEST_F(Piece, ANormAndAQuery) {
  Pass p = pass(1);
  const NormConfig c{NormConfig::Kind::layer, 1e-5f, 0.0f, true};
  const NormParams w{param({4}, {1, 1, 1, 1}), param({4}, {0, 0, 0, 0})};
  const Tensor y = norm(p, BlockSite{0}(norms::ln1), c, w, tensor({1, 4}, kThe));
  expect_printed(taps_.recorded.at("blocks.0.ln1.hook_scale"), {.0708f}, "deviation");
  expect_printed(y.values(), {0, 1.413f, -1.413f, 0}, "normed");
  // The document's W has a column for each feature of the query, and vitrine's has a row.
  const Tensor q = linear(p, {param({2, 4}, {.5f, .1f, .2f, 0, .1f, .4f, .3f, .2f}), {}}, y);
  expect_printed(q.values(), {-.141f, .141f}, "query");
}

const Floats kValues = {-.706f, .424f, .227f, -.192f, -.680f, .417f, .440f, -.314f, -.523f, .284f};  // of head 1
constexpr float kMasked = -std::numeric_limits<float>::infinity();

AttendConfig one_head() { return {1, 1, 2, static_cast<float>(1 / std::sqrt(2.0)), {}}; }

TEST_F(Piece, AScoresSoftmaxAndWeightedSum) {
  Pass p = pass(2);
  const Tensor v = tensor({2, 1, 2}, {kValues.begin(), kValues.begin() + 4}), zero = tensor({2, 1, 2}, {0, 0, 0, 0});
  taps_.forced["blocks.0.attn.hook_attn_scores"] = {.035f, kMasked, .035f, .114f};
  const Tensor z = attend_own(p, BlockSite{0}, one_head(), {}, zero, zero, v);
  expect_printed(taps_.recorded.at("blocks.0.attn.hook_pattern"), {1, 0, .480f, .520f}, "pattern");
  expect_printed({z.row(1), 2}, {-.221f, .104f}, "row 1");
}

TEST_F(Piece, AScoresAreDividedByTheRootOfTwo) {
  Pass p = pass(2);
  // q₁ of the document and two keys along the axes, so the scores are the elements of q₁ over √2.
  const Tensor q = tensor({2, 1, 2}, {-.141f, .141f, .734f, -.192f}), k = tensor({2, 1, 2}, {1, 0, 0, 1});
  attend_own(p, BlockSite{0}, one_head(), {}, q, k, k);
  const Floats& scores = taps_.recorded.at("blocks.0.attn.hook_attn_scores");
  expect_printed({scores.data() + 2, 2}, {.519f, -.136f}, "scores");
}

TEST_F(Piece, APatternOverFiveValues) {
  Pass p = pass(5);
  const Tensor v = tensor({5, 1, 2}, kValues), zero = tensor({5, 1, 2}, Floats(10));
  Floats pattern(25);
  std::copy_n(std::begin({.201f, .201f, .196f, .199f, .204f}), 5, pattern.begin() + 20);
  taps_.forced["blocks.0.attn.hook_pattern"] = pattern;
  const Tensor z = attend_own(p, BlockSite{0}, one_head(), {}, zero, zero, v);
  expect_printed({z.row(4), 2}, {-.249f, .124f}, "row 4");
}

TEST_F(Piece, ASecondHeadsPattern) {
  Pass p = pass(2);
  const Tensor zero = tensor({2, 1, 2}, {0, 0, 0, 0});
  const float score = std::log(.587f / .413f);  // the scores are lost; this is their difference
  taps_.forced["blocks.0.attn.hook_attn_scores"] = {0, kMasked, 0, score};
  attend_own(p, BlockSite{0}, one_head(), {}, zero, zero, zero);
  const Floats& pattern = taps_.recorded.at("blocks.0.attn.hook_pattern");
  expect_printed({pattern.data() + 2, 2}, {.413f, .587f}, "pattern");
}

TEST_F(Piece, AUnitsThatAreDead) {
  Gradients none;
  Tape tape(none);
  Pass p = pass(1);
  p.training.tape = &tape;
  const Floats pre = {1, .525f, -.302f, 1, .467f, -.435f, 1, -.060f};  // units 0, 3 and 6 are lost, so 1 is used
  const Tensor z = tensor({1, 8}, pre);
  tape.record("given", {}, z, [] {});
  Floats back;
  tape.watch(z, [&](const Tensor& gradient) { back.assign(gradient.data, gradient.data + 8); });
  const Tensor a = activate(p, Activation::relu, z);
  expect_printed(a.values(), {1, .525f, 0, 1, .467f, 0, 1, 0}, "activated");
  std::fill_n(tape.grad(a).data, 8, 1.0f);
  tape.unwind();
  expect_printed(back, {1, 1, 0, 1, 1, 0, 1, 0}, "gradient");
}

// (b) From the last hidden vector to the loss and the logits' gradient, through the model.

const Floats kLogits = {.271f, -.255f, .347f, -.447f, .020f, .347f, -.333f, 0};
const Floats kProbabilities = {.158f, .093f, .171f, .077f, .123f, .171f, .086f, .121f};

/// The embedding: the rows of the document, and for each lost row the shortest vector that gives its logit.
Floats embedding() {
  float square = 0;
  for (const float h : kHidden) square += h * h;
  Floats rows;
  for (std::size_t id = 0; id < 8; ++id) {
    for (std::size_t i = 0; i < 4; ++i) {
      rows.push_back(id == 0 ? kThe[i] : id == 1 ? kCat[i] : id == 5 ? kMat[i] : kLogits[id] * kHidden[i] / square);
    }
  }
  return rows;
}

TEST_F(Piece, BLogitsSoftmaxLossAndTheirGradient) {
  const ExampleModel model = document_model(4);
  const Floats rows = embedding();
  std::copy(rows.begin(), rows.end(), model.trainable.params().front().value);
  std::vector<SiteWrite> writes;
  for (std::size_t i = 0; i < 4; ++i) {
    writes.push_back(parse_site_write("unembed.hook_in[4," + std::to_string(i) + "]=" + std::to_string(kHidden[i])));
  }
  std::map<std::string, Floats> recorded, gradients;
  Recorder recorder({}, writes, {2}, [&](const SiteId& id, const Tensor& x) {
    recorded[name_of(id)] = {x.values().begin(), x.values().end()};
  });
  recorder.receive_gradients([&](const SiteId& id, const Tensor& x) {
    gradients[name_of(id)] = {x.values().begin(), x.values().end()};
  });
  Gradients params;
  Tape tape(params);
  const std::vector<std::int32_t> ids = {0, 1, 2, 3, 0}, targets = {1, 2, 3, 0, kTarget};
  const Floats weights = {0, 0, 0, 0, 1};
  LossRequest loss{targets, weights};
  LossResult found;
  Pass p{{pool_, default_kernels(), arena_}, {{0, 5, 0, nullptr}}, {}, &recorder};
  p.training.tape = &tape;
  p.training.loss = &loss;
  p.training.result = &found;
  model.trainable.model().forward_backward(p, ids);

  const std::span<const float> logits = std::span(recorded.at("hook_logits")).subspan(32);
  expect_printed(logits, kLogits, "logits");
  const Floats exponentials = {1.311f, .775f, 1.415f, .639f, 1.020f, 1.415f, .717f, 1};
  double sum = 0;
  for (std::size_t v = 0; v < 8; ++v) {
    EXPECT_NEAR(std::exp(static_cast<double>(logits[v])), static_cast<double>(exponentials[v]), kPrinted);
    sum += std::exp(static_cast<double>(logits[v]));
  }
  EXPECT_NEAR(sum, 8.292, kPrinted);
  Pass q = pass(1);
  expect_printed(softmax_rows(q, tensor({1, 8}, {logits.begin(), logits.end()})).values(), kProbabilities, "softmax");
  EXPECT_NEAR(found.cross_entropy, 1.768, kPrinted);
  EXPECT_NEAR(std::log(8.0), 2.079, kPrinted);
  Floats expected = kProbabilities;
  expected[kTarget] -= 1;
  expect_printed(std::span(gradients.at("hook_logits")).subspan(32), expected, "dlogits");
  EXPECT_NEAR(static_cast<double>(gradients.at("hook_logits")[32 + kTarget]), -.829, kPrinted);
}

// (c) Both uses of the embedding, and the update.

const std::vector<Floats> kInputSide = {{-.085f, .081f, .068f, -.065f},
                                        {-.075f, .005f, .110f, -.039f},
                                        {-.064f, .040f, .076f, -.051f},
                                        {-.096f, .018f, .096f, -.019f},
                                        {.437f, -.067f, -.128f, -.243f}};

TEST_F(Piece, CBothUsesOfTheEmbeddingAndTheUpdate) {
  Floats values = embedding();
  const Param table = param({8, 4}, values);
  Gradients gradients;
  gradients.add(table);
  Tape tape(gradients);
  Pass p = pass(5);
  p.taps = nullptr;
  p.training.tape = &tape;
  const std::vector<std::int32_t> ids = {0, 1, 2, 3, 0}, targets = {kTarget};
  const Tensor x = embed(p, table, ids);
  const Tensor h = tensor({1, 4}, kHidden);
  tape.record("given", {}, h, [] {});
  const Tensor loss = next_token_loss(p, linear(p, {}, h, {}, &table), targets);
  tape.grad(loss).data[0] = 1;
  for (std::size_t t = 0; t < 5; ++t) {
    float sum = 0;
    for (const float g : kInputSide[t]) sum += g;
    EXPECT_NEAR(static_cast<double>(sum), 0, 1.5 * kPrinted) << "every path passes through a LayerNorm, position " << t;
    std::copy_n(kInputSide[t].begin(), 4, tape.grad(x).data + 4 * t);
  }
  // The input side alone: positions 0 and 4 are the same word.
  Gradients input_only;
  input_only.add(table);
  Tape side(input_only);
  p.training.tape = &side;
  const Tensor y = embed(p, table, ids);
  std::copy_n(tape.grad(x).data, 20, side.grad(y).data);
  side.unwind();
  expect_printed({input_only.of(table).row(0), 4}, {.352f, .014f, -.060f, -.308f}, "the, input side");
  p.training.tape = &tape;
  tape.unwind();

  const Tensor dtable = gradients.of(table);
  expect_printed({dtable.row(5), 4}, {.314f, -1.107f, 1.142f, -.348f}, "mat");
  expect_printed({dtable.row(0), 4}, {.292f, .225f, -.278f, -.242f}, "the");
  expect_printed({dtable.row(1), 4}, {-.110f, .130f, -.019f, 0}, "cat");

  const std::vector<TrainParam> params = {{"embed.weight", {8, 4}, values.data(), nullptr}};
  OptimizerConfig sgd;
  sgd.kind = OptimizerConfig::Kind::sgd;
  sgd.momentum = sgd.weight_decay = 0;
  sgd.max_norm.reset();
  const std::vector<const float*> grads = {dtable.data};
  Optimizer(sgd, params).step(pool_, default_kernels(), params, grads, 0.5);
  expect_printed({values.data() + 20, 4}, {-.057f, .954f, -.371f, .474f}, "mat, learned");
  expect_printed({values.data(), 4}, {-.046f, .087f, .139f, .221f}, "the, learned");
  expect_printed({values.data() + 4, 4}, {.355f, .035f, .209f, 0}, "cat, learned");
}

}  // namespace
}  // namespace vitrine::test
