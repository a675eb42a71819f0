// Formulas as text and as MathML, and the formatting of numbers.
#include "spell/formula.h"
#include "base/markup.h"

#include <gtest/gtest.h>

#include "example/interval.h"
#include "ops/arithmetic.h"

namespace vitrine::test {
namespace {

TEST(Formula, AsText) {
  EXPECT_EQ(formula_text("y_{t,o} = Σ_{i} x_{t,i} · W_{o,i} + b_{o}"), "y[t,o] = Σ_i x[t,i]·W[o,i] + b[o]");
  EXPECT_EQ(formula_text("n_{t,i} = {x_{t,i} − μ_{t}}/{σ_{t}}"), "n[t,i] = (x[t,i] − μ[t]) / σ[t]");
  EXPECT_EQ(formula_text("σ = √(\"mean\"_{i} x_{i}^{2} + ε)"), "σ = √(mean_i x[i]² + ε)");
}

TEST(Formula, AsMathml) {
  EXPECT_EQ(formula_mathml("y_{t}^{2} = {a}/{b}"),
            "<math><mrow><msubsup><mi>y</mi><mrow><mi>t</mi></mrow><mrow><mn>2</mn></mrow></msubsup><mo>=</mo>"
            "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac></mrow></math>");
  EXPECT_EQ(formula_mathml("Σ_{i} √(x)"),
            "<math><mrow><munder><mo>∑</mo><mrow><mi>i</mi></mrow></munder><msqrt><mrow><mi>x</mi></mrow></msqrt></"
            "mrow></math>");
}

TEST(Formula, MarkupIsEscaped) { EXPECT_EQ(markup_escaped("<b>&\"'\x01"), "&lt;b&gt;&amp;&quot;&#39; "); }

TEST(Decimals, ShowSignificantDigitsOfEveryNumber) {
  EXPECT_EQ(decimal(0.1414, 3), "0.141");
  EXPECT_EQ(decimal(-1.4125, 2), "−1.41");
  EXPECT_EQ(decimal(0, 3), "0.000");
  EXPECT_EQ(decimal(3.14e-6, 3), "3.1e-06");
  EXPECT_EQ(decimal(-0.0001, 3), "−1.0e-04");
  EXPECT_EQ(decimal(-HUGE_VAL, 3), "−∞");
}

TEST(Arithmetic, TextAndValueAgree) {
  const Arithmetic a(0.5), b(-0.25), c(2, "2");
  const Arithmetic all = (a - b) / (c + b) + squared(b) * larger(a, b) - a * b;
  EXPECT_EQ(all.text(), "(0.5000 − (−0.2500)) / (2 − 0.2500) + (−0.2500)²·max(0.5000, −0.2500) − 0.5000·(−0.2500)");
  EXPECT_DOUBLE_EQ(all.value(), 0.75 / 1.75 + 0.0625 * 0.5 + 0.125);
  EXPECT_TRUE(IntervalReader(all.text()).read().contains(all.value(), 0));
}

TEST(Arithmetic, AnIntervalExcludesAWrongNumber) {
  const Interval x = IntervalReader("1.4125·0.4000 − 1.4125·0.3000").read();
  EXPECT_TRUE(x.contains(0.14125, 0));
  EXPECT_FALSE(x.contains(0.1418, 0));
}

}  // namespace
}  // namespace vitrine::test
