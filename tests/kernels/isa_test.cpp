// The choice of a kernel table, by the machine and by VITRINE_ISA.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "kernels/kernel_testing.h"

namespace vitrine {
namespace {

std::string message_of(std::string_view name) {
  try {
    kernels_named(name);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Isa, ScalarIsAlwaysThereAndComesFirst) {
  const std::vector<Isa> isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::scalar);
  EXPECT_TRUE(std::is_sorted(isas.begin(), isas.end()));
}

TEST(Isa, TablesAreCompleteAndKnowTheirIsa) {
  for (const Isa isa : available_isas()) {
    const Kernels& k = kernels_for(isa);
    EXPECT_EQ(k.isa, isa);
    EXPECT_EQ(&k, &kernels_named(name_of(isa)));
    for (const bool present : {k.matmul != nullptr,
                               k.matmul_packed != nullptr,
                               k.pack != nullptr,
                               k.packed_rows > 0,
                               k.weighted_rows != nullptr,
                               k.sum != nullptr,
                               k.sum_squares != nullptr,
                               k.max != nullptr,
                               k.exp_sum != nullptr,
                               k.all_finite != nullptr,
                               k.add != nullptr,
                               k.multiply != nullptr,
                               k.scale != nullptr,
                               k.normalize != nullptr,
                               k.affine != nullptr,
                               k.softcap != nullptr,
                               k.activate != nullptr,
                               k.bend != nullptr,
                               k.bend_slope != nullptr,
                               k.sin_cos != nullptr,
                               k.rotate_halves != nullptr,
                               k.rotate_interleaved != nullptr,
                               k.slope != nullptr,
                               k.dot != nullptr,
                               k.sigmoid != nullptr,
                               k.multiply_add != nullptr,
                               k.add_scaled != nullptr,
                               k.widen != nullptr,
                               k.narrow != nullptr,
                               k.blocks.round_to_int8 != nullptr,
                               k.blocks.multiply != nullptr,
                               k.pairs(false).round != nullptr,
                               k.pairs(false).matmul != nullptr,
                               k.pairs(true).round != nullptr,
                               k.pairs(true).matmul != nullptr}) {
      EXPECT_TRUE(present);
    }
  }
}

TEST(Isa, AnUnknownNameIsBadInput) {
  EXPECT_THROW(kernels_named("sse9"), BadInput);
  EXPECT_THAT(message_of("AVX2"), testing::MatchesRegex("\\[VITRINE_ISA\\] expected scalar, .*, got \"AVX2\""));
  for (const Isa isa : known_isas()) EXPECT_THAT(message_of("AVX2"), testing::HasSubstr(name_of(isa)));
  EXPECT_THROW(kernels_named(""), BadInput);
}

TEST(Isa, WhatTheMachineLacksIsUnsupported) {
  for (const Isa isa :
       {Isa::avx2, Isa::avxvnni, Isa::avx512, Isa::avx512vnni, Isa::avx512bf16, Isa::neon, Isa::neondot}) {
    const std::vector<Isa> isas = available_isas();
    if (std::find(isas.begin(), isas.end(), isa) != isas.end()) continue;
    EXPECT_THROW(kernels_for(isa), Unsupported);
    EXPECT_THAT(message_of(name_of(isa)), testing::HasSubstr("this machine has no "));
  }
}

// Each in a process of its own: the choice is made once per process.
TEST(IsaDeathTest, TheEnvironmentChooses) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const Isa isa : available_isas()) {
    EXPECT_EXIT(
        {
          setenv("VITRINE_ISA", std::string(name_of(isa)).c_str(), 1);
          std::_Exit(default_kernels().isa == isa ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
  }
  EXPECT_EXIT(
      {
        unsetenv("VITRINE_ISA");
        std::_Exit(default_kernels().isa == fastest_isa() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("VITRINE_ISA", "best", 1);
        try {
          default_kernels();
        } catch (const BadInput&) {
          std::_Exit(3);
        }
        std::_Exit(1);
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace vitrine
