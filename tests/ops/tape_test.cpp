// The tape: its requirements for ops, the order of its calls, and its errors.
#include "autograd/tape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/temp_folder.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

class TapeTest : public testing::Test {
 protected:
  Tensor value(float first = 1) {
    const Tensor x = arena_.tensor({2, 3});
    for (std::int64_t i = 0; i < x.count(); ++i) x.data[i] = first + static_cast<float>(i);
    return x;
  }
  Tensor known() {
    const Tensor x = value();
    tape_.record("input", {}, x, [] {});
    return x;
  }

  ThreadPool pool_{1};
  Arena arena_;
  Gradients gradients_;
  Tape tape_{gradients_};
  Pass pass_{{pool_, default_kernels(), arena_}, {{0, 2, 0, nullptr}}, {}};
};

/// An op without a backward records nothing, so its output is unknown to the next op that has one.
TEST_F(TapeTest, AnOpWithoutABackwardIsDetected) {
  pass_.training.tape = &tape_;
  const Tensor unknown = value();
  const std::string message = message_of<InternalError>([&] { add(pass_, known(), unknown); });
  EXPECT_EQ(message, "[add] an input was computed by an op without a backward");
  EXPECT_THAT(message_of<InternalError>([&] { scale(pass_, 2, unknown); }), testing::StartsWith("[scale] "));
  EXPECT_THAT(message_of<InternalError>([&] { tape_.watch(unknown, [](const Tensor&) {}); }),
              testing::HasSubstr("without a backward"));
  EXPECT_THAT(message_of<InternalError>([&] { tape_.grad(unknown); }), testing::HasSubstr("not on the tape"));
}

/// The first request allocates, and two threads may not: it is refused on one thread too, so that every test sees it.
TEST_F(TapeTest, ALoopMayNotAskFirstForAGradient) {
  const Tensor x = known();
  const auto ask = [&] { pool_.parallel_for(1, 1, [&](std::int64_t, std::int64_t, int) { tape_.grad(x); }); };
  EXPECT_THAT(message_of<InternalError>(ask), testing::HasSubstr("ask before the loop begins"));
  tape_.grad(x);
  EXPECT_NO_THROW(ask());
}

TEST_F(TapeTest, AnOutputIsRecordedOnce) {
  const Tensor x = known();
  EXPECT_EQ(message_of<InternalError>([&] { tape_.record("twice", {}, x, [] {}); }),
            "[twice] the output is already on the tape");
}

TEST_F(TapeTest, ABackwardIsCalledOnlyIfItsOutputHasAGradient) {
  std::string called;
  const Tensor x = known(), used = value(), watched = value(), unused = value();
  tape_.record("used", {x}, used, [&] { called += "u"; });
  tape_.record("watched", {x}, watched, [&] { called += "w"; });
  tape_.record("unused", {x}, unused, [&] { called += "!"; });
  tape_.watch(watched, [&](const Tensor& g) { EXPECT_THAT(g.values(), testing::Each(0.0f)); });
  tape_.grad(used).data[0] = 1;
  tape_.unwind();
  EXPECT_EQ(called, "wu");
  EXPECT_FALSE(tape_.knows(used));
  EXPECT_FALSE(tape_.knows(unused));
  EXPECT_EQ(tape_.mark(), 0U);
}

TEST_F(TapeTest, UnwindStopsAtTheMark) {
  const Tensor x = known(), y = value(), z = value();
  std::string order;
  tape_.record("y", {x}, y, [&] { order += "y"; });
  const std::size_t mark = tape_.mark();
  tape_.record("z", {y}, z, [&] {
    order += "z";
    tape_.grad(y).data[0] = 1;
  });
  tape_.grad(z).data[0] = 1;
  tape_.unwind(mark);
  EXPECT_EQ(order, "z");
  EXPECT_TRUE(tape_.knows(y));
  EXPECT_FALSE(tape_.knows(z));
  tape_.unwind();
  EXPECT_EQ(order, "zy");
}

/// The memory of released gradients is reused.
TEST_F(TapeTest, GradientsAreInitiallyZero) {
  pass_.training.tape = &tape_;
  const Tensor x = known();
  std::vector<float> dx;
  tape_.watch(x, [&](const Tensor& g) { dx.assign(g.data, g.data + g.count()); });
  Tensor y = x;
  for (int i = 0; i < 5; ++i) y = scale(pass_, 2, y);
  for (float& v : tape_.grad(y).values()) v = 1;
  tape_.unwind();
  EXPECT_THAT(dx, testing::Each(32.0f));
}

TEST_F(TapeTest, AFrozenParameterHasNoGradient) {
  const float weights[6] = {1, 2, 3, 4, 5, 6};
  const LinearParams w{{"w", "w", {2, 3}, {reinterpret_cast<const std::byte*>(weights), DType::f32, 2, 3, 3, 1}}, {}};
  EXPECT_EQ(tape_.grad(w.weight).data, nullptr);
  pass_.training.tape = &tape_;
  const Tensor x = known();
  std::vector<float> dx;
  tape_.watch(x, [&](const Tensor& g) { dx.assign(g.data, g.data + g.count()); });
  const Tensor y = linear(pass_, w, x);
  for (float& v : tape_.grad(y).values()) v = 1;
  tape_.unwind();  // gradients still flow through it
  EXPECT_THAT(dx, testing::ElementsAre(5, 7, 9, 5, 7, 9));
}

/// Several panels of 32 columns each: 3,000 outputs.
TEST_F(TapeTest, GradientsFlowThroughAQuantizedWeight) {
  constexpr std::int64_t kOut = 3000, kIn = 96, kRows = 5;
  std::mt19937 random(1);
  std::vector<std::byte> blocks(static_cast<std::size_t>(bytes_of(DType::q8_0, kOut * kIn)));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = static_cast<std::byte>(random());
    if (i % 34 == 1) blocks[i] = std::byte{0x2C};  // the upper byte of the block's scale, 1/16
  }
  const LinearParams w{{"blocks.0.w", "w", {kOut, kIn}, {blocks.data(), DType::q8_0, kOut, kIn, kIn, 1}}, {}};
  EXPECT_THAT(message_of<Unsupported>([&] { gradients_.add(w.weight); }),
              testing::AllOf(testing::HasSubstr("[blocks.0.w]"), testing::HasSubstr("q8_0")));
  std::vector<float> floats(kOut * kIn);
  pass_.widen({blocks.data(), DType::q8_0, 1, kOut * kIn, kOut * kIn, 1}, 0, kOut * kIn, floats.data());
  const LinearParams widened{{"w", "w", {kOut, kIn}, view_of(floats.data(), kOut, kIn, kIn)}, {}};
  pass_.training.tape = &tape_;
  std::vector<std::vector<float>> dx;
  for (const LinearParams* each : {&w, &widened}) {
    const Tensor x = arena_.tensor({kRows, kIn});
    std::fill_n(x.data, x.count(), 1.0f);
    tape_.record("input", {}, x, [&, x] {
      const Tensor g = tape_.grad(x);
      dx.emplace_back(g.data, g.data + g.count());
    });
    const Tensor y = linear(pass_, *each, x);
    for (std::int64_t i = 0; i < y.count(); ++i) tape_.grad(y).data[i] = static_cast<float>(i % 7) - 3.0f;
    tape_.unwind();
  }
  EXPECT_NE(dx[0][0], 0.0f);
  EXPECT_EQ(dx[0], dx[1]);
}

/// The same for weights whose scales are apart: blocks of 128 by 40 elements, the last of them smaller, and rows.
TEST_F(TapeTest, GradientsFlowThroughWeightsWithScales) {
  constexpr std::int64_t kOut = 3000, kIn = 96, kRows = 5;
  std::mt19937 random(1);
  std::vector<std::byte> bytes(kOut * kIn), exponents(kOut * kIn / 32);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() % 2 * 0x80 + random() % 0x7F);  // no NaN
  for (std::byte& e : exponents) e = static_cast<std::byte>(120 + random() % 4);
  std::vector<float> scales(24 * 3);
  for (float& scale : scales) scale = static_cast<float>(random() % 1000) / 1e5f;
  const BlockScales of_f8{reinterpret_cast<const std::byte*>(scales.data()), 128, 40, 3, 1};
  const BlockScales of_mxfp4{exponents.data(), 1, 32, kIn / 32, 1};
  pass_.training.tape = &tape_;
  for (const auto& [type, of] : {std::pair{DType::f8_e4m3, of_f8}, std::pair{DType::mxfp4_pairs, of_mxfp4}}) {
    const LinearParams w{{"w", "w", {kOut, kIn}, {bytes.data(), type, kOut, kIn, kIn, 1, of}}, {}};
    EXPECT_THAT(message_of<Unsupported>([&] { gradients_.add(w.weight); }), testing::HasSubstr(name_of(type)));
    std::vector<float> floats(kOut * kIn);
    for (std::int64_t r = 0; r < kOut; ++r) pass_.widen(w.weight.view, r, kIn, floats.data() + r * kIn);
    const LinearParams widened{{"w", "w", {kOut, kIn}, view_of(floats.data(), kOut, kIn, kIn)}, {}};
    std::vector<std::vector<float>> values;
    for (const LinearParams* each : {&w, &widened}) {
      const Tensor x = arena_.tensor({kRows, kIn});
      for (std::int64_t i = 0; i < x.count(); ++i) x.data[i] = static_cast<float>(i % 11) - 5.0f;
      tape_.record("input", {}, x, [&, x] {
        const Tensor g = tape_.grad(x);
        values.emplace_back(g.data, g.data + g.count());
      });
      const Tensor y = linear(pass_, *each, x);
      values.emplace_back(y.data, y.data + y.count());
      for (std::int64_t i = 0; i < y.count(); ++i) tape_.grad(y).data[i] = static_cast<float>(i % 7) - 3.0f;
      tape_.unwind();
    }
    EXPECT_NE(values[1][0], 0.0f);
    EXPECT_EQ(values[0], values[2]);
    EXPECT_EQ(values[1], values[3]);
  }
}

}  // namespace
}  // namespace vitrine::test
