// Training of encoder–decoders on pairs, and of bidirectional models on masked tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "data/masking.h"
#include "data/pack.h"
#include "data/pairs.h"
#include "generate/generator.h"
#include "generate/score.h"
#include "support/data.h"
#include "support/training.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;

/// A tokenizer of the letters a to h and three special tokens.
constexpr const char* kLetters = R"({"version": "1.0", "added_tokens": [
  {"id": 0, "content": "<mask>", "special": true}, {"id": 1, "content": "<s>", "special": true},
  {"id": 2, "content": "</s>", "special": true}],
  "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
  "model": {"type": "BPE", "vocab": {"<mask>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "c": 5, "d": 6, "e": 7, "f": 8,
  "g": 9, "h": 10}, "merges": []}})";

constexpr const char* kTranslator = R"(
[model.config]
model_type = "vitrine"
d_model = 24
n_layers = 1
n_heads = 2
d_ff = 48
vocab_size = 11
max_seq_len = 12
positions = "sinusoidal"
norm = "layer"
norm_bias = true
activation = "relu"
gated = false
tied = true
embedding_scale = 4.9
decoder_start_token_id = 1
eos_token_id = 2
[model.config.encoder]
)";

constexpr const char* kFiller = R"(
[model.config]
model_type = "vitrine"
d_model = 24
n_layers = 2
n_heads = 2
d_ff = 48
vocab_size = 11
max_seq_len = 12
positions = "rope"
bidirectional = true
norm = "layer"
activation = "gelu"
gated = false
tied = true
)";

class Pairs : public testing::Test {
 protected:
  Pairs() { std::ofstream(folder_ / "letters.json") << kLetters; }

  void write(const std::string& name, const std::vector<std::string>& lines) const {
    std::ofstream out(folder_ / name);
    for (const std::string& line : lines) out << line << "\n";
  }
  PackedPairs pack(const std::string& source, const std::string& target, const std::string& out) const {
    ThreadPool pool(2);
    const auto tokenizer = load_tokenizer(folder_ / "letters.json");
    return pack_pairs(folder_ / source, folder_ / target, *tokenizer, *tokenizer, folder_ / out, pool);
  }
  /// Words of two to five letters, and the same reversed.
  void write_reversals(std::size_t n) const {
    std::vector<std::string> words, reversed;
    std::uint32_t state = 5;
    const auto draw = [&](std::uint32_t below) {
      state = state * 1664525U + 1013904223U;
      return (state >> 16U) % below;
    };
    for (std::size_t i = 0; i < n; ++i) {
      std::string word;
      for (std::uint32_t length = 2 + draw(4); word.size() < length;) word += static_cast<char>('a' + draw(8));
      words.push_back(word);
      reversed.emplace_back(word.rbegin(), word.rend());
    }
    write("words", words);
    write("reversed", reversed);
  }
  TinyRun tiny(const std::string& out) const {
    TinyRun run;
    run.model = kTranslator;
    run.data = folder_ / "pairs";
    run.out = folder_ / out;
    return run;
  }

  const TempFolder folder_;
};

TEST_F(Pairs, ABatchHasSourcesAndShiftedTargets) {
  write("s", {"ab", "", "abc", "h"});
  write("t", {"cd\r", "a", "e", "gfe"});
  const PackedPairs packed = pack("s", "t", "pairs");
  EXPECT_EQ(packed.pairs, 3);
  EXPECT_EQ(packed.empty, 1);
  EXPECT_TRUE(is_pair_folder(folder_ / "pairs"));
  const PairCorpus corpus(folder_ / "pairs", "", {.sequence = 8, .batch = 3, .seed = 4}, 1);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = corpus.batch(step);
    ASSERT_EQ(batch.pieces.size(), 3u);
    std::vector<std::pair<Ids, Ids>> pairs;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto part = [](const Ids& ids, const Batch::Piece& piece) {
        return Ids(ids.begin() + piece.first_row, ids.begin() + piece.first_row + piece.length);
      };
      const Ids inputs = part(batch.inputs, batch.pieces[i]), targets = part(batch.targets, batch.pieces[i]);
      EXPECT_EQ(inputs.front(), 1);
      EXPECT_EQ(targets.back(), 2);
      EXPECT_TRUE(std::equal(inputs.begin() + 1, inputs.end(), targets.begin()));
      pairs.emplace_back(part(batch.sources, batch.source_pieces[i]), targets);
    }
    using testing::Pair;
    EXPECT_THAT(pairs, testing::UnorderedElementsAre(Pair(Ids{3, 4}, Ids{5, 6, 2}), Pair(Ids{3, 4, 5}, Ids{7, 2}),
                                                     Pair(Ids{10}, Ids{9, 8, 7, 2})));
  }
  const PairCorpus shorter(folder_ / "pairs", "", {.sequence = 3, .batch = 2, .seed = 4}, 1);
  EXPECT_EQ(shorter.training_pairs(), 2);
  EXPECT_EQ(shorter.left_out(), 1);
  EXPECT_THROW(PairCorpus(folder_ / "pairs", "", {.sequence = 1, .batch = 2}, 1), BadInput);
  write("longer", {"a", "b"});
  EXPECT_THROW(pack("s", "longer", "other"), BadInput);
}

TEST_F(Pairs, ATranslatorLearnsToReverseWords) {
  write_reversals(1500);
  pack("words", "reversed", "pairs");
  TinyRun run = tiny("run");
  run.steps = 600;
  run.batch = 32;
  run.seq_len = 12;
  run.schedule = "name = \"inverse_sqrt\"\nwarmup = 40\n";
  run.data_more = "validation_fraction = 0.05\n";
  run.log = "";
  train_tiny(run, false, 2);
  EXPECT_LT(metrics_of(run.out).back()["val_loss"].get<double>(), 0.35);

  const Checkpoint trained = load_checkpoint(run.out + "/last");
  ThreadPool pool(1);
  const GenerateContext context{trained.model.get(), &pool, &default_kernels()};
  GenerateRequest request;
  request.source = {3, 7, 5, 9};
  request.prompt = {*trained.start_id};
  request.stop_ids = trained.stop_ids;
  request.sampling.temperature = 0;
  request.beam.n_beams = 4;
  EXPECT_EQ(generate(context, {&request, 1})[0].ids, (Ids{9, 5, 7, 3}));
}

TEST_F(Pairs, MicroBatchesThreadsAndResumingChangeNoBit) {
  write_reversals(200);
  pack("words", "reversed", "pairs");
  TinyRun one = tiny("one"), resumed = tiny("resumed"), parts = tiny("parts");
  for (TinyRun* run : {&one, &resumed, &parts}) run->schedule = "name = \"constant\"\n";
  train_tiny(one);
  resumed.steps = 5;
  train_tiny(resumed, false, 2);
  resumed.steps = 8;
  train_tiny(resumed, true, 2);
  EXPECT_TRUE(bytes_of(one.out + "/last/model.safetensors") == bytes_of(resumed.out + "/last/model.safetensors"));
  parts.micro_batches = 2;
  train_tiny(parts);
  const std::vector<double> a = losses_of(one.out), b = losses_of(parts.out);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
}

TEST_F(Pairs, DataThatDoesNotFitTheModelIsAnError) {
  write_reversals(50);
  pack("words", "reversed", "pairs");
  const auto error = [&](TinyRun run) {
    try {
      train_tiny(run);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  TinyRun decoder = tiny("a");
  decoder.model = TinyRun().model;
  EXPECT_THAT(error(decoder), testing::HasSubstr("no encoder"));
  write_corpus(folder_ / "tokens", 11, 500);
  TinyRun stream = tiny("b");
  stream.data = folder_ / "tokens";
  EXPECT_THAT(error(stream), testing::HasSubstr("expected pairs"));
  TinyRun filler = stream;
  filler.model = kFiller;
  EXPECT_THAT(error(filler), testing::HasSubstr("objective"));
  TinyRun masks = tiny("c");
  masks.train = "objective = \"masked\"\n";
  EXPECT_THAT(error(masks), testing::HasSubstr("no later tokens"));
}

TEST(Masking, ChoosesAndReplacesTheFractionsOfBert) {
  Batch batch;
  batch.inputs.assign(100'000, 7);
  batch.targets.assign(100'000, 0);
  batch.counts.assign(100'000, 1);
  const MaskOptions options{.fraction = 0.15, .mask_id = 3, .vocab_size = 1000, .seed = 5};
  const Batch with = masked(batch, options, 4, std::nullopt);
  double chosen = 0, hidden = 0, kept = 0;
  for (std::size_t i = 0; i < with.inputs.size(); ++i) {
    EXPECT_EQ(with.targets[i], 7);
    EXPECT_TRUE(with.counts[i] != 0 || with.inputs[i] == 7);
    chosen += with.counts[i];
    hidden += with.counts[i] != 0 && with.inputs[i] == 3 ? 1 : 0;
    kept += with.counts[i] != 0 && with.inputs[i] == 7 ? 1 : 0;
  }
  EXPECT_NEAR(chosen / 100'000, 0.15, 0.005);
  EXPECT_NEAR(hidden / chosen, 0.8, 0.02);
  EXPECT_NEAR(kept / chosen, 0.1, 0.015);
  EXPECT_EQ(masked(batch, options, 4, std::nullopt).inputs, with.inputs);
  EXPECT_NE(masked(batch, options, 5, std::nullopt).inputs, with.inputs);
  EXPECT_EQ(masked(batch, options, 4, 7).n_counted(), 0);
}

/// The letter between two others is determined by them: it follows the first in the alphabet.
TEST_F(Pairs, AMaskedTokenThatItsNeighborsDetermineIsFound) {
  Ids ids;
  std::uint32_t state = 9;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525U + 1013904223U;
    const auto first = static_cast<std::int32_t>((state >> 16U) % 7U);
    ids.insert(ids.end(), {3 + first, 4 + first, 2});
  }
  write_corpus(folder_ / "tokens", 11, ids);
  TinyRun run = tiny("run");
  run.model = kFiller;
  run.data = folder_ / "tokens";
  run.steps = 1200;
  run.batch = 48;
  run.lr = 1e-2;
  run.train = "objective = \"masked\"\nmask_fraction = 0.2\n";
  run.log = "";
  run.data_more = "validation_fraction = 0.05\n";
  const std::size_t at = run.model.find("vocab_size");
  run.model.insert(at, "mask_token_id = 0\n");
  train_tiny(run, false, 2);
  const Checkpoint trained = load_checkpoint(run.out + "/last");
  ThreadPool pool(1);
  const GenerateContext context{trained.model.get(), &pool, &default_kernels()};
  const Ids text = {3, 4, 2, 5, 0, 2, 8, 9, 2};
  predict_masked(context, text, 0, 1, [&](std::int64_t position, const std::vector<TokenLogprob>& top) {
    EXPECT_EQ(position, 4);
    EXPECT_EQ(top[0].id, 6);
  });
}

}  // namespace
}  // namespace vitrine::test
