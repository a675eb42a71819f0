// Samples: their tokens, order, documents, and validation.
#include "data/dataset.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<std::int32_t>;

/// A corpus whose token at position p is p, so that every sample shows its position.
class Data : public testing::Test {
 protected:
  TokenShards corpus(const std::vector<int>& lengths, std::optional<std::int32_t> document_token = 0) {
    const std::string path = folder_ / ("tokens" + std::to_string(n_++));
    ShardWriter writer(path, {100'000, 1, document_token}, 50);
    std::int32_t next = 0;
    for (const int length : lengths) {
      Ids ids(static_cast<std::size_t>(length));
      std::iota(ids.begin(), ids.end(), next);
      next += length;
      writer.begin_document();
      writer.write(ids, length);
    }
    writer.finish();
    return TokenShards::open(path);
  }
  static std::string refused(const TokenShards& shards, const DatasetOptions& options) {
    return message_of<BadInput>([&] { Dataset(shards, options, 100'000); });
  }
  TempFolder folder_;
  int n_ = 0;
};

TEST_F(Data, PermutationsArePermutations) {
  for (const std::uint64_t n : {1ULL, 2ULL, 3ULL, 7ULL, 64ULL, 65ULL, 1000ULL}) {
    std::set<std::vector<std::uint64_t>> orders;
    for (std::uint64_t number = 0; number < 20; ++number) {
      std::vector<std::uint64_t> order;
      for (std::uint64_t i = 0; i < n; ++i) order.push_back(permuted(i, n, 5, number));
      const std::set<std::uint64_t> different(order.begin(), order.end());
      EXPECT_EQ(different.size(), n);
      EXPECT_LT(*different.rbegin(), n);
      orders.insert(order);
    }
    if (n > 7) {
      EXPECT_EQ(orders.size(), 20U);
    }
  }
  // Large ranges: neighbors are mapped far from each other, and the top bits are used.
  constexpr std::uint64_t kLarge = (1ULL << 50) + 12345;
  std::uint64_t above = 0, near = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t a = permuted(i, kLarge, 1, 0), b = permuted(i + 1, kLarge, 1, 0);
    ASSERT_LT(a, kLarge);
    above += a > kLarge / 2 ? 1 : 0;
    near += (a > b ? a - b : b - a) < kLarge / 1000 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(above), 500, 60);
  EXPECT_LT(near, 15U);
}

TEST_F(Data, TargetsFollowInputsAndAnEpochHasEachWindowOnce) {
  const TokenShards shards = corpus({301, 200, 502});
  const Dataset data(shards, {16, 3, 9}, 100'000);
  EXPECT_EQ(data.train_tokens(), 1003);
  const std::int64_t windows = data.samples_per_epoch();
  EXPECT_EQ(windows, 1002 / 16 - 1);
  std::set<std::int64_t> shifts;
  std::vector<std::vector<std::int32_t>> orders;
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    const Batch all = data.samples(epoch * windows, windows);
    std::set<std::int32_t> seen(all.inputs.begin(), all.inputs.end());
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(windows * 16)) << "each token appears once";
    shifts.insert(*seen.begin());
    for (std::size_t row = 0; row < all.inputs.size(); ++row) {
      EXPECT_EQ(all.targets[row], all.inputs[row] + 1);
      if (row % 16 != 0) {
        EXPECT_EQ(all.inputs[row], all.inputs[row - 1] + 1);
      }
    }
    EXPECT_THAT(all.counts, Each(1));
    ASSERT_EQ(all.pieces.size(), static_cast<std::size_t>(windows));
    EXPECT_EQ(all.pieces[2].first_row, 32);
    EXPECT_EQ(all.pieces[2].length, 16);
    orders.push_back(all.inputs);
  }
  EXPECT_GE(shifts.size(), 3U);
  EXPECT_NE(orders[0], orders[1]);
}

TEST_F(Data, BatchesAreAFunctionOfSeedAndStep) {
  const TokenShards shards = corpus({1000});
  const Dataset a(shards, {8, 4, 1}, 100'000), b(shards, {8, 4, 1}, 100'000), c(shards, {8, 4, 2}, 100'000);
  const Dataset small(shards, {8, 2, 1}, 100'000);
  int n_different = 0;
  for (const std::int64_t step : {60, 0, 7, 1'000'000'000}) {
    const Batch batch = a.batch(step);
    EXPECT_EQ(batch.inputs.size(), 32U);
    EXPECT_EQ(batch.inputs, b.batch(step).inputs);
    n_different += batch.inputs != c.batch(step).inputs ? 1 : 0;
    Ids two = small.batch(2 * step).inputs;  // micro-batches make up the batch
    const Ids second = small.batch(2 * step + 1).inputs;
    two.insert(two.end(), second.begin(), second.end());
    EXPECT_EQ(two, batch.inputs);
  }
  EXPECT_EQ(n_different, 4);
  EXPECT_THAT(message_of<BadInput>([&] { a.batch(-1); }), HasSubstr("no step -1"));
  EXPECT_THAT(message_of<BadInput>([&] { a.batch(std::int64_t{1} << 62); }), HasSubstr("no step"));
}

TEST_F(Data, DocumentsAreMasked) {
  const TokenShards with = corpus({5, 1, 2, 9});
  const Dataset data(with, {16, 1, 0, 0, true}, 100'000);
  const Batch batch = data.batch(3);
  ASSERT_EQ(batch.inputs.front(), 0);
  std::vector<std::int64_t> begins, lengths;
  for (const Batch::Piece& piece : batch.pieces) {
    begins.push_back(piece.first_row);
    lengths.push_back(piece.length);
  }
  EXPECT_THAT(begins, ElementsAre(0, 5, 6, 8));
  EXPECT_THAT(lengths, ElementsAre(5, 1, 2, 8));
  EXPECT_THAT(batch.counts, Each(1)) << "the end of a document predicts the token of the next one";

  const TokenShards without = corpus({5, 1, 2, 9}, std::nullopt);
  const Dataset masked(without, {16, 1, 0, 0, true}, 100'000);
  const std::vector<std::uint8_t> expected = {1, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(masked.batch(0).counts, expected);
  EXPECT_EQ(masked.batch(0).n_counted(), 13);
  const Dataset open(without, {16, 1, 0, 0, false}, 100'000);
  EXPECT_EQ(open.batch(0).n_counted(), 16);
  EXPECT_EQ(open.batch(0).pieces.size(), 1U);

  const TokenShards at_end = corpus({4, 4, 1}, std::nullopt);  // the last target begins a document
  const Batch last = Dataset(at_end, {8, 1, 0, 0, true}, 100'000).batch(0);
  EXPECT_THAT(last.counts, ElementsAre(1, 1, 1, 0, 1, 1, 1, 0));
  EXPECT_EQ(last.pieces.size(), 2U);
}

TEST_F(Data, ValidationTokensAreNotTrainedOnAndCountOnce) {
  const TokenShards shards = corpus({1003});
  const Dataset data(shards, {16, 3, 4, 0.1}, 100'000);
  EXPECT_EQ(data.train_tokens(), 902);  // as int(n * 0.9)
  for (std::int64_t step = 0; step < 100; ++step) {
    const Batch batch = data.batch(step);
    EXPECT_LT(*std::max_element(batch.targets.begin(), batch.targets.end()), 902);
  }
  std::multiset<std::int32_t> counted;
  for (std::int64_t i = 0; i < data.validation_batches(); ++i) {
    const Batch batch = data.validation_batch(i);
    for (std::size_t row = 0; row < batch.targets.size(); ++row) {
      EXPECT_EQ(batch.targets[row], batch.inputs[row] + 1);
      if (batch.counts[row] == 1) counted.insert(batch.targets[row]);
    }
    EXPECT_EQ(batch.inputs.size() % 16, 0U);
  }
  Ids expected(100);
  std::iota(expected.begin(), expected.end(), 903);
  EXPECT_EQ(Ids(counted.begin(), counted.end()), expected);
  EXPECT_THAT(message_of<BadInput>([&] { data.validation_batch(data.validation_batches()); }),
              HasSubstr("from 0 to 2"));

  const Dataset tiny(shards, {600, 2, 4, 0.1}, 100'000);  // the validation part is shorter than a sample
  EXPECT_EQ(tiny.validation_batches(), 1);
  EXPECT_EQ(tiny.validation_batch(0).n_counted(), 100);
  EXPECT_EQ(Dataset(shards, {16, 1}, 100'000).validation_batches(), 0);
}

TEST_F(Data, ValidationBeginsAtANearbyDocument) {
  const std::vector<int> lengths(100, 10);
  EXPECT_EQ(Dataset(corpus(lengths), {8, 1, 0, 0.1}, 100'000).train_tokens(), 900);
  EXPECT_EQ(Dataset(corpus(lengths), {8, 1, 0, 0.104}, 100'000).train_tokens(), 900);
  EXPECT_EQ(Dataset(corpus({950, 50}), {8, 1, 0, 0.1}, 100'000).train_tokens(), 950);
  EXPECT_EQ(Dataset(corpus({500, 500}), {8, 1, 0, 0.1}, 100'000).train_tokens(), 900);
}

TEST_F(Data, SmallCorpora) {
  const TokenShards three = corpus({3});
  const Dataset data(three, {2, 4, 0}, 100'000);
  EXPECT_EQ(data.samples_per_epoch(), 1);
  EXPECT_THAT(data.batch(0).inputs, ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(refused(three, {3, 1, 0}), HasSubstr("expected at least 4 tokens to train on"));
  EXPECT_THAT(refused(corpus({1}), {1, 1, 0}), HasSubstr("got 1"));
  EXPECT_THAT(refused(corpus({1, 1, 1, 1}, std::nullopt), {2, 1, 0, 0, true}),
              HasSubstr("every document has a single token"));
  EXPECT_EQ(Dataset(corpus({1, 1, 1, 1}), {2, 1, 0, 0, true}, 100'000).batch(0).pieces.size(), 2U);
  EXPECT_THAT(refused(corpus({10}), {2, 1, 0, 0.1}), HasSubstr("two tokens for validation"));
  EXPECT_THAT(refused(three, {0, 1, 0}), HasSubstr("a sequence of 1 to"));
  EXPECT_THAT(refused(three, {2, 0, 0}), HasSubstr("a batch of 1 to"));
  EXPECT_THAT(refused(three, {2, 1, 0, 1.5}), HasSubstr("validation part"));
  const TokenShards whole = corpus({4, 5, 3});
  const Dataset held_out(whole, {2, 1, 0, 1.0}, 100'000);  // all tokens are for validation
  EXPECT_EQ(held_out.train_tokens(), 0);
  EXPECT_EQ(held_out.validation_tokens(), whole.tokens());
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < held_out.validation_batches(); ++i) counted += held_out.validation_batch(i).n_counted();
  EXPECT_EQ(counted, whole.tokens() - 1);
  EXPECT_THAT(refused(three, {2, 1, 0, std::nan("")}), HasSubstr("validation part"));
  EXPECT_THAT(message_of<BadInput>([&] {
                Dataset(three, {2, 1, 0}, 99'999);
              }),
              HasSubstr("ids up to 99999, but the model has only 99999 tokens"));
}

}  // namespace
}  // namespace vitrine::test
