// Several taps on one pass.
#include "vitrine/tap_chain.h"

#include <gtest/gtest.h>

namespace vitrine::test {
namespace {

struct Needs : Taps {
  Needs(bool ends, bool joins) : ends_(ends), joins_(joins) {}
  bool wants(const SiteId&) const override { return false; }
  Tensor visit(Pass&, const SiteId&, const Tensor& value) override { return value; }
  bool ends_at_failure() const override { return ends_; }
  bool joins_segments() const override { return joins_; }

 private:
  bool ends_, joins_;
};

TEST(TapChain, NeedsWhatOneOfItsTapsNeeds) {
  Needs none(false, false), ends(true, false), joins(false, true);
  EXPECT_FALSE(TapChain({&none, &none}).ends_at_failure());
  EXPECT_FALSE(TapChain({&none, &none}).joins_segments());
  EXPECT_TRUE(TapChain({&none, &ends}).ends_at_failure());
  EXPECT_FALSE(TapChain({&none, &ends}).joins_segments());
  EXPECT_TRUE(TapChain({&joins, &none}).joins_segments());
  EXPECT_FALSE(TapChain({&joins, &none}).ends_at_failure());
}

}  // namespace
}  // namespace vitrine::test
