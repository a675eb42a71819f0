#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/presets.h"

namespace vitrine::test {
namespace {

TEST(SizeRule, IsExact) {
  EXPECT_EQ(size_by_rule("4 d", 128), 512);
  EXPECT_EQ(size_by_rule("4d", 128), 512);
  EXPECT_EQ(size_by_rule("8/3 d, round up to 64", 64), 192);
  EXPECT_EQ(size_by_rule("8/3*d, round up to 64", 512), 1408);
  EXPECT_EQ(size_by_rule("8/3 d, round up to 64", 24), 64) << "exactly one multiple";
  EXPECT_EQ(size_by_rule("8/3 d,round up to 1", 64), 171);
  EXPECT_EQ(size_by_rule("8/3 d", 96), 256);
}

TEST(SizeRule, RefusesOtherTexts) {
  for (const char* rule : {"", "d", "8/3", "8/0 d", "-4 d", "4 d round up to 64", "4 d, round up to 0",
                           "4 d, round up to 64 x", "4.5 d", "99999999999 d", "8/3 d", "2147483647 d"}) {
    EXPECT_THROW(size_by_rule(rule, 64), BadInput) << rule;
  }
}

TEST(SizeRule, AppliesInAConfigInAnyOrder) {
  for (const std::vector<std::string>& set : {std::vector<std::string>{"d_ff=8/3 d, round up to 64", "d_model=512"},
                                              {"d_model=512", "intermediate_size=8/3 d, round up to 64"}}) {
    Json config = preset_or_config("llama-2-7b");
    set_config_keys(config, set, "test");
    EXPECT_EQ(config["intermediate_size"], 1408);
  }
  Json config = preset_or_config("llama-2-7b");
  EXPECT_THROW(set_config_keys(config, {"d_ff=big"}, "test"), BadInput);
  EXPECT_THROW(set_config_keys(config, {"d_ff=64", "intermediate_size=32"}, "test"), BadInput);
}

}  // namespace
}  // namespace vitrine::test
