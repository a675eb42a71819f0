// The tape's own rules: what it asks of ops, when it calls them back, and what it refuses.
#include "autograd/tape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

/// An op without a backward records nothing, so what it made is unknown to the next, which has one.
TEST_F(TapeTest, AnOpWithoutABackwardCannotBeTapedSilently) {
  pass_.training.tape = &tape_;
  const Tensor made_by_no_op = value();
  const std::string message = message_of<InternalError>([&] { add(pass_, known(), made_by_no_op); });
  EXPECT_EQ(message, "[add] an operand was made by an op without a backward");
  EXPECT_THAT(message_of<InternalError>([&] { scale(pass_, 2, made_by_no_op); }), testing::StartsWith("[scale] "));
  EXPECT_THAT(message_of<InternalError>([&] { tape_.watch(made_by_no_op, [](const Tensor&) {}); }),
              testing::HasSubstr("without a backward"));
  EXPECT_THAT(message_of<InternalError>([&] { tape_.grad(made_by_no_op); }), testing::HasSubstr("no op has made"));
}

TEST_F(TapeTest, AResultStandsOnTheTapeOnce) {
  const Tensor x = known();
  EXPECT_EQ(message_of<InternalError>([&] { tape_.record("twice", {}, x, [] {}); }),
            "[twice] its result is on the tape already");
}

TEST_F(TapeTest, WhatNothingAsksForIsNotCalled) {
  std::string called;
  const Tensor x = known(), used = value(), watched = value(), unused = value();
  tape_.record("used", {x}, used, [&] { called += "u"; });
  tape_.record("watched", {x}, watched, [&] { called += "w"; });
  tape_.record("unused", {x}, unused, [&] { called += "!"; });
  tape_.watch(watched, [&](const Tensor& g) { EXPECT_THAT(g.values(), testing::Each(0.0f)); });  // asks, sees zeros
  tape_.grad(used).data[0] = 1;
  tape_.unwind();
  EXPECT_EQ(called, "wu");
  EXPECT_FALSE(tape_.knows(used));
  EXPECT_FALSE(tape_.knows(unused));
  EXPECT_EQ(tape_.mark(), 0U);
}

TEST_F(TapeTest, UnwindingStopsAtTheMark) {
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

/// Gradients come in memory that others have left; it begins at zero all the same.
TEST_F(TapeTest, AGradientBeginsAtZero) {
  pass_.training.tape = &tape_;
  const Tensor x = known();
  std::vector<float> seen;
  tape_.watch(x, [&](const Tensor& g) { seen.assign(g.data, g.data + g.count()); });
  Tensor y = x;
  for (int i = 0; i < 5; ++i) y = scale(pass_, 2, y);
  for (float& v : tape_.grad(y).values()) v = 1;
  tape_.unwind();
  EXPECT_THAT(seen, testing::Each(32.0f));
}

TEST_F(TapeTest, AParameterThatDoesNotLearnHasNoGradient) {
  const float weights[6] = {1, 2, 3, 4, 5, 6};
  const Param w{"w", "w", {2, 3}, {reinterpret_cast<const std::byte*>(weights), DType::f32, 2, 3, 3, 1}};
  EXPECT_EQ(tape_.grad(w).data, nullptr);
  pass_.training.tape = &tape_;
  const Tensor x = known();
  std::vector<float> dx;
  tape_.watch(x, [&](const Tensor& g) { dx.assign(g.data, g.data + g.count()); });
  const Tensor y = linear(pass_, w, x);
  for (float& v : tape_.grad(y).values()) v = 1;
  tape_.unwind();  // gradients still go through it
  EXPECT_THAT(dx, testing::ElementsAre(5, 7, 9, 5, 7, 9));
}

TEST_F(TapeTest, AWeightOfBlocksHasNoGradientAndLetsNoneThrough) {
  const std::vector<std::byte> block(2 * 34);
  const Param w{"blocks.0.w", "w", {2, 32}, {block.data(), DType::q8_0, 2, 32, 32, 1}};
  EXPECT_THAT(message_of<Unsupported>([&] { gradients_.add(w); }),
              testing::AllOf(testing::HasSubstr("[blocks.0.w]"), testing::HasSubstr("q8_0")));
  const Tensor x = arena_.tensor({2, 32});
  std::fill_n(x.data, x.count(), 1.0f);
  tape_.record("input", {}, x, [] {});
  EXPECT_NO_THROW(linear(pass_, w, x)) << "without a tape";
  pass_.training.tape = &tape_;
  EXPECT_THAT(message_of<Unsupported>([&] { linear(pass_, w, x); }),
              testing::AllOf(testing::HasSubstr("[blocks.0.w]"), testing::HasSubstr("q8_0")));
}

}  // namespace
}  // namespace vitrine::test
