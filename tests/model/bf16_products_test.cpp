// Products of bfloat16 numbers: the bits do not depend on how the work is divided, on every instruction set of this
// machine, and the sites show what was multiplied.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "checkpoint/gguf/export.h"
#include "model/check_compute.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

const std::string kDefaultModel = VITRINE_SOURCE_DIR "/models/default";

class Bf16Products : public testing::TestWithParam<Isa> {
 protected:
  Bf16Products()
      : checkpoint_(load_checkpoint(kDefaultModel)),
        model_(*checkpoint_.model),
        ids_(some_ids(model_, 37, 4)),
        alone_(logits_of(model_, ids_, options())) {}

  RunOptions options(int threads = 1, Taps* taps = nullptr) const {
    RunOptions o{.kernels = &kernels_for(GetParam()), .threads = threads, .taps = taps};
    o.compute = Compute::bf16;
    return o;
  }

  Checkpoint checkpoint_;
  const Model& model_;
  std::vector<std::int32_t> ids_;
  std::vector<float> alone_;
};

TEST_P(Bf16Products, HaveTheBitsOfTheScalarTable) {
  RunOptions scalar = options();
  scalar.kernels = &kernels_for(Isa::scalar);
  const std::vector<std::int32_t> some(ids_.begin(), ids_.begin() + 5);
  EXPECT_TRUE(same_bits(logits_of(model_, some, scalar), logits_of(model_, some, options())));
}

TEST_P(Bf16Products, PrefillEqualsChunksEqualsDecode) {
  EXPECT_FALSE(
      same_bits(alone_, logits_of(model_, ids_, {.kernels = &kernels_for(GetParam()), .compute = Compute::f32})));
  for (const std::int64_t chunk : {1, 3, 14}) {
    if (GetParam() == Isa::scalar && chunk == 1) continue;
    EXPECT_TRUE(same_bits(alone_, chunked_logits_of(model_, ids_, chunk, options()))) << "chunks of " << chunk;
  }
}

TEST_P(Bf16Products, AnyNumberOfThreads) {
  for (const int threads : {2, 3}) EXPECT_TRUE(same_bits(alone_, logits_of(model_, ids_, options(threads)))) << threads;
}

TEST_P(Bf16Products, AmongOthers) {
  ThreadPool pool(2);
  Arena arena;
  const auto n = static_cast<std::int64_t>(ids_.size());
  std::vector<std::int32_t> batch = some_ids(model_, 11, 5);
  const auto before = static_cast<std::int64_t>(batch.size());
  batch.insert(batch.end(), ids_.begin(), ids_.end());
  Pass pass{{pool, kernels_for(GetParam()), arena}, {{0, before, 0, nullptr}, {before, n, 0, nullptr}}, {}};
  pass.compute = Compute::bf16;
  std::vector<float> logits;
  pass.logits = {LogitRequest::Rows::range, before, before + n,
                 [&](std::int64_t, const Tensor& t) { logits.insert(logits.end(), t.data, t.data + t.count()); }};
  model_.forward(pass, batch);
  EXPECT_TRUE(same_bits(logits, alone_));
}

TEST_P(Bf16Products, WithTaps) {
  for (const std::string glob : {"*", "*.hook_result", "*_input"}) {
    Probe probe(model_, {glob});
    EXPECT_TRUE(same_bits(alone_, logits_of(model_, ids_, options(2, &probe)))) << glob;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Bf16Products, testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

TEST(Bf16Compute, IsTheDefaultForBf16Weights) {
  const Checkpoint checkpoint = load_checkpoint(kDefaultModel);
  const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 9, 6);
  const auto logits = [&](Compute compute) {
    RunOptions o;
    o.compute = compute;
    return logits_of(*checkpoint.model, ids, o);
  };
  const std::vector<float> pairs = logits(Compute::bf16), floats = logits(Compute::f32);
  EXPECT_FALSE(same_bits(pairs, floats));
  EXPECT_TRUE(same_bits(logits(Compute::automatic), pairs));
  EXPECT_TRUE(same_bits(logits(Compute::int8), floats)) << "int8 rounds for quantized weights only";
  EXPECT_EQ(products_name(*checkpoint.model, Compute::automatic), "bf16");
  EXPECT_EQ(products_name(*checkpoint.model, Compute::int8), "f32");
  EXPECT_EQ(checked_compute(checkpoint, Compute::automatic), Compute::automatic);
}

TEST(Bf16Compute, IsNotTheDefaultIfTheConfigAsksForFloat32) {
  const TempFolder temp;
  const std::string folder = temp / "model";
  std::filesystem::copy(kDefaultModel, folder);
  Json config = parse_json(read_file(folder + "/config.json"), "config.json");
  config.erase("torch_dtype");
  for (const auto& [key, type, asks] :
       {std::tuple{"dtype", "float32", true}, {"torch_dtype", "float32", true}, {"torch_dtype", "bfloat16", false}}) {
    Json changed = config;
    changed[key] = type;
    write_file(folder + "/config.json", changed.dump());
    const Checkpoint checkpoint = load_checkpoint(folder);
    const Compute expected = asks ? Compute::int8 : Compute::automatic;
    EXPECT_EQ(checked_compute(checkpoint, Compute::automatic), expected) << key << " " << type;
    EXPECT_EQ(checked_compute(checkpoint, Compute::bf16), Compute::bf16);
    EXPECT_THROW(checked_compute(checkpoint, Compute::int8), Unsupported);
  }
}

TEST(Bf16Compute, RefusesWeightsOfOtherTypes) {
  EXPECT_NO_THROW(check_compute(*load_checkpoint(kDefaultModel).model, Compute::bf16));
  const Checkpoint f32 = golden_checkpoint("gpt2");
  EXPECT_NO_THROW(check_compute(*f32.model, Compute::automatic));
  try {
    check_compute(*f32.model, Compute::bf16);
    FAIL() << "f32 weights were accepted";
  } catch (const Unsupported& error) {
    EXPECT_STREQ(error.what(), "[compute] bf16 multiplies bf16 weights, but embed.weight is f32");
  }
  const TempFolder temp;
  ThreadPool pool(2);
  write_gguf(temp / "q8_0.gguf", load_checkpoint(kDefaultModel), DType::q8_0, {}, pool);
  const Checkpoint blocks = load_checkpoint(temp / "q8_0.gguf");
  EXPECT_NO_THROW(check_compute(*blocks.model, Compute::bf16));
  RunOptions o;
  const std::vector<std::int32_t> ids = some_ids(*blocks.model, 9, 6);
  const std::vector<float> as_auto = logits_of(*blocks.model, ids, o);
  o.compute = Compute::bf16;
  EXPECT_TRUE(same_bits(logits_of(*blocks.model, ids, o), as_auto));
}

}  // namespace
}  // namespace vitrine::test
