// Tests with a model that writes text, and its tokenizer: stories260K of VITRINE_DATA.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/load.h"
#include "constrain/cache.h"
#include "generate/context.h"
#include "support/data.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::test {

/// Skips its tests without the data.
class StoriesTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = outside_data("models/stories260K");
    if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no models/stories260K";
    checkpoint_ = load_checkpoint(folder + "/stories260K.bin");
    tokenizer_ = load_tokenizer(folder + "/tok512.bin");
    constraints_.emplace(*tokenizer_);
  }
  GenerateContext context() { return {checkpoint_.model.get(), &pool_, &default_kernels(), tokenizer_.get()}; }

  Checkpoint checkpoint_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::optional<constrain::ConstraintCache> constraints_;
  ThreadPool pool_{2};
};

}  // namespace vitrine::test
