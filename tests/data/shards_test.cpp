// Token shards: reading returns the tokens that were written, and broken files are rejected.
#include "data/shards.h"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<std::int32_t>;

class Shards : public testing::Test {
 protected:
  /// Documents of 1, 2, … n tokens, counting up from 0.
  void write(int n_documents, const TokenInfo& info, std::int64_t shard_tokens) const {
    ShardWriter writer(path(), info, shard_tokens);
    std::int32_t next = 0;
    for (int n = 1; n <= n_documents; ++n) {
      Ids ids(static_cast<std::size_t>(n));
      std::iota(ids.begin(), ids.end(), next);
      next += n;
      writer.begin_document();
      writer.write(std::span(ids).first(1), 1);
      writer.write(std::span(ids).subspan(1), n);
    }
    writer.finish();
  }
  std::string path() const { return folder_ / "tokens"; }
  std::string shard(int number) const { return path() + "/shard-0000" + std::to_string(number) + ".tokens"; }
  TempFolder folder_;
};

TEST_F(Shards, AreOneStream) {
  for (const std::int64_t vocab_size : {1000, 70'000}) {
    for (const std::int64_t shard_tokens : {1, 7, 100, 1'000'000}) {
      write(20, {vocab_size, 42, 3}, shard_tokens);
      const TokenShards shards = TokenShards::open(path());
      EXPECT_EQ(shards.tokens(), 210);
      EXPECT_EQ(shards.documents(), 20);
      EXPECT_EQ(shards.text_bytes(), 230);
      EXPECT_EQ(shards.info().vocab_size, vocab_size);
      EXPECT_EQ(shards.info().fingerprint, 42U);
      EXPECT_EQ(shards.info().document_token, 3);
      for (const std::int64_t begin : {0, 1, 6, 7, 100, 209, 210}) {
        Ids got(static_cast<std::size_t>(std::min<std::int64_t>(210 - begin, 57))), expected(got.size());
        shards.read(begin, got);
        std::iota(expected.begin(), expected.end(), static_cast<std::int32_t>(begin));
        EXPECT_EQ(got, expected);
      }
      EXPECT_THAT(shards.document_starts(0, 7), ElementsAre(0, 1, 3, 6));
      EXPECT_THAT(shards.document_starts(1, 2), ElementsAre(1));
      EXPECT_THAT(shards.document_starts(7, 10), ElementsAre());
      EXPECT_THAT(shards.document_starts(4, 4), ElementsAre());
      EXPECT_EQ(shards.document_starts(0, 210).size(), 20U);
      EXPECT_THAT(message_of<BadInput>([&] {
                    Ids ids(2);
                    shards.read(209, ids);
                  }),
                  HasSubstr("from 0 to 210"));
      std::filesystem::remove_all(path());
    }
  }
}

TEST_F(Shards, TheLargestIdsFit) {
  for (const std::int64_t vocab_size : {0x10000, 0x10001}) {
    const auto last = static_cast<std::int32_t>(vocab_size - 1);
    {
      ShardWriter writer(path(), {vocab_size, 0, std::nullopt}, 10);
      writer.begin_document();
      writer.write(Ids{last, 0, last}, 3);
      EXPECT_THAT(message_of<BadInput>([&] { writer.write(Ids{last + 1}, 1); }), HasSubstr("expected ids from 0 to"));
      EXPECT_THAT(message_of<BadInput>([&] { writer.write(Ids{-1}, 1); }), HasSubstr("got -1"));
      writer.finish();
    }
    const TokenShards shards = TokenShards::open(path());
    Ids ids(3);
    shards.read(0, ids);
    EXPECT_THAT(ids, ElementsAre(last, 0, last));
    EXPECT_FALSE(shards.info().document_token);
    std::filesystem::remove_all(path());
  }
}

TEST_F(Shards, UnfinishedShardsAreRemoved) {
  {
    ShardWriter writer(path(), {10, 0, std::nullopt}, 1);
    for (int i = 0; i < 3; ++i) {
      writer.begin_document();
      writer.write(Ids{1, 2}, 2);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_THAT(message_of<BadInput>([&] { ShardWriter(path(), {10, 0, {}}, 1).finish(); }), HasSubstr("has none"));
  EXPECT_FALSE(std::filesystem::exists(path()));
  write(1, {10, 0, {}}, 1);
  EXPECT_THAT(message_of<BadInput>([&] { write(1, {10, 0, {}}, 1); }), HasSubstr("new or empty folder"));
  EXPECT_THAT(message_of<BadInput>([&] { ShardWriter(shard(0), {10, 0, {}}, 1); }), HasSubstr("got a file"));
  EXPECT_EQ(TokenShards::open(path()).tokens(), 1);
}

TEST_F(Shards, MissingAndMixedShardsAreReported) {
  const auto error = [&] { return message_of<BadCheckpoint>([&] { TokenShards::open(path()); }); };
  EXPECT_THAT(message_of<BadInput>([&] { TokenShards::open(path()); }), HasSubstr("shard-00000.tokens"));
  write(4, {100, 7, 3}, 1);
  std::filesystem::rename(shard(3), folder_ / "aside");
  EXPECT_THAT(error(), HasSubstr("there is no shard-00003.tokens"));
  std::filesystem::copy(shard(1), shard(3));
  EXPECT_THAT(error(), HasSubstr("expected shard number 3, got 1"));
  std::filesystem::remove_all(path());
  write(4, {100, 8, 3}, 1);
  std::filesystem::remove(shard(3));
  std::filesystem::rename(folder_ / "aside", shard(3));
  EXPECT_THAT(error(), HasSubstr("its tokenizer differs"));
}

/// Changes every byte of the header and of the table of documents, and truncates the file at every length. The reader
/// reports an error or returns tokens in range.
TEST_F(Shards, HostileFiles) {
  write(5, {100, 7, 3}, 1000);
  const std::string good = read_file(shard(0));
  ASSERT_EQ(good.size(), 96U + 32 + 40);
  const auto use = [&](const std::string& bytes) {
    write_file(shard(0), bytes);
    try {
      const TokenShards shards = TokenShards::open(path());
      Ids ids(static_cast<std::size_t>(shards.tokens()));
      shards.read(0, ids);
      for (const std::int32_t id : ids) EXPECT_TRUE(id >= 0 && id < shards.info().vocab_size);
      std::int64_t last = -1;
      for (const std::int64_t start : shards.document_starts(0, shards.tokens())) {
        EXPECT_TRUE(start > last && start < shards.tokens());
        last = start;
      }
      shards.document_starts(5, 9);
      return std::string();
    } catch (const BadCheckpoint& e) {
      return std::string(e.what());
    } catch (const Unsupported& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(use(good), "");
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_NE(use(good.substr(0, size)), "") << size;
  EXPECT_NE(use(good + '\0'), "");
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int change : {1, 0x7F, 0x80, 0xFF}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ change);
      use(bad);
    }
  }
  const auto with = [&](std::size_t at, std::uint64_t value) {
    std::string bad = good;
    std::memcpy(bad.data() + at, &value, 8);
    return use(bad);
  };
  EXPECT_THAT(with(0, 0), HasSubstr("VITRTOKS"));
  EXPECT_THAT(with(16, 1), HasSubstr("documents begin with id 3"));
  EXPECT_THAT(with(16, 4), HasSubstr("expected ids from 0 to 3, got 4 as token 4"));
  EXPECT_THAT(with(16, 1ULL << 40), HasSubstr("contradicts itself"));
  EXPECT_THAT(with(40, 1ULL << 62), HasSubstr("invalid header"));
  EXPECT_THAT(with(40, 0), HasSubstr("invalid header"));
  EXPECT_THAT(with(48, 16), HasSubstr("invalid header"));
  EXPECT_THAT(with(48, 4), HasSubstr("according to the header"));
  EXPECT_THAT(with(128, 1), HasSubstr("first document at 0"));
  EXPECT_THAT(with(136, 0), HasSubstr("expected document 1 to begin at"));
  EXPECT_THAT(with(152, 1000), HasSubstr("expected document 3"));
}

}  // namespace
}  // namespace vitrine::test
