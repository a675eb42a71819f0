// BPE: both implementations of merging, options, splitting, the byte-level alphabet.
#include "tokenizer/algorithms/bpe.h"

#include <gtest/gtest.h>

#include "tokenizer/split.h"

namespace vitrine {
namespace {

using Ids = std::vector<std::int32_t>;

PieceTable pieces_of(const std::vector<std::string>& pieces) {
  PieceTable table;
  for (std::size_t i = 0; i < pieces.size(); ++i) table.add(pieces[i], static_cast<std::int32_t>(i));
  return table;
}

Ids encode(const Bpe& bpe, std::string_view word) {
  Bpe::Workspace workspace;
  Ids ids;
  bpe.encode(word, workspace, ids);
  Ids again;
  bpe.encode(word, workspace, again);  // from the cache, if it stores the word
  EXPECT_EQ(ids, again);
  return ids;
}

TEST(Bpe, MergesTheLowestRankFirst) {
  const Bpe bpe(pieces_of({"a", "b", "aa", "ab", "aab"}), {{0, 1}, {0, 0}, {0, 3}}, {}, "F");
  EXPECT_EQ(encode(bpe, "aab"), Ids({4}));
  EXPECT_EQ(encode(bpe, "aaa"), Ids({2, 0}));
  EXPECT_EQ(encode(bpe, "aaaab"), Ids({2, 4}));
  EXPECT_EQ(encode(bpe, ""), Ids());
}

TEST(Bpe, ScanAndHeapAgree) {
  MergeTable table(200);
  std::uint64_t state = 7;
  const auto random = [&](std::size_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>((state >> 33) % n);
  };
  for (std::uint32_t rank = 0; rank < 200; ++rank) {
    table.add(static_cast<std::int32_t>(random(3 + rank)), static_cast<std::int32_t>(random(3)),
              {rank, static_cast<std::int32_t>(3 + rank)});
  }
  const auto find = [&](const auto& left, const auto& right) { return table.find(left.id, right.id); };
  Bpe::Workspace workspace;
  for (int repeat = 0; repeat < 300; ++repeat) {
    Ids scan(random(200));
    for (std::int32_t& id : scan) id = static_cast<std::int32_t>(random(3));
    Ids heap = scan;
    merge_by_scan(table, workspace.merges, scan);
    merge_by_heap(find, workspace.scratch, heap, [](auto&&...) {});
    ASSERT_EQ(scan, heap);
  }
}

TEST(Bpe, ReplacesUnknownCharacters) {
  BpeOptions options;
  options.unk_id = 0;
  const auto pieces = [] { return pieces_of({"<unk>", "a", "<0xC3>", "<0xA9>"}); };
  EXPECT_EQ(encode(Bpe(pieces(), {}, options, "F"), "a\u00fc\u00fca"), Ids({1, 0, 0, 1}));
  options.fuse_unk = true;
  EXPECT_EQ(encode(Bpe(pieces(), {}, options, "F"), "a\u00fc\u00fca"), Ids({1, 0, 1}));
  options.byte_fallback = true;
  EXPECT_EQ(encode(Bpe(pieces(), {}, options, "F"), "\u00e9\u00fc"), Ids({2, 3, 0}));
  options.unk_id = kNoId;
  EXPECT_EQ(encode(Bpe(pieces(), {}, options, "F"), "\u00fca"), Ids({1}));
}

TEST(Bpe, AddsAffixes) {
  BpeOptions options;
  options.continuing_subword_prefix = "##";
  options.end_of_word_suffix = "</w>";
  const Bpe bpe(pieces_of({"a", "##b", "##b</w>", "ab</w>", "a</w>"}), {{0, 2}}, options, "F");
  EXPECT_EQ(encode(bpe, "ab"), Ids({3}));
  EXPECT_EQ(encode(bpe, "abb"), Ids({0, 1, 2}));
  EXPECT_EQ(encode(bpe, "a"), Ids({4}));
}

TEST(Bpe, DerivesMergesFromRanks) {
  BpeOptions options;
  options.symbols = BpeOptions::Symbols::bytes;
  const Bpe bpe = Bpe::from_ranks(pieces_of({"a", "b", "\xff", "ab", "b\xff", "ab\xff"}), options, "F");
  EXPECT_EQ(encode(bpe, "ab\xff"), Ids({5}));
  EXPECT_EQ(encode(bpe,
                   "b\xff"
                   "b"),
            Ids({4, 1}));
}

TEST(Bpe, IgnoresMergesForAWordThatIsAPiece) {
  BpeOptions options;
  EXPECT_EQ(encode(Bpe(pieces_of({"a", "b", "ab"}), {}, options, "F"), "ab"), Ids({0, 1}));
  options.ignore_merges = true;
  EXPECT_EQ(encode(Bpe(pieces_of({"a", "b", "ab"}), {}, options, "F"), "ab"), Ids({2}));
}

std::vector<std::string> split(const Split& s, std::string_view text) {
  std::vector<std::string> pieces;
  s(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(Split, HasFiveBehaviors) {
  using Strings = std::vector<std::string>;
  const auto of = [](SplitBehavior behavior, bool invert = false) { return Split("-", behavior, invert); };
  EXPECT_EQ(split(of(SplitBehavior::removed), "a-b--c-"), Strings({"a", "b", "c"}));
  EXPECT_EQ(split(of(SplitBehavior::isolated), "a-b--c-"), Strings({"a", "-", "b", "-", "-", "c", "-"}));
  EXPECT_EQ(split(of(SplitBehavior::merged_with_previous), "a-b--c-"), Strings({"a-", "b-", "-", "c-"}));
  EXPECT_EQ(split(of(SplitBehavior::merged_with_next), "a-b--c-"), Strings({"a", "-b", "-", "-c", "-"}));
  EXPECT_EQ(split(of(SplitBehavior::contiguous), "a-b--c-"), Strings({"a", "-", "b", "--", "c", "-"}));
  EXPECT_EQ(split(of(SplitBehavior::removed, true), "a-b--c-"), Strings({"-", "-", "-", "-"}));
}

TEST(Split, FollowsTheSemanticsOfTheOriginalEngine) {
  const auto matches = [](const char* pattern, std::string_view text, RegexSyntax syntax = RegexSyntax::oniguruma) {
    std::vector<std::string> found;
    Regex(pattern, syntax, "F").for_each_match(text, [&](Regex::Match m) {
      found.emplace_back(text.substr(m.begin, m.end - m.begin));
    });
    return found;
  };
  EXPECT_TRUE(matches(R"(\s)", "\u180e").empty());  // not white space since Unicode 6.3
  EXPECT_EQ(matches(R"(\s)", "\u3000").size(), 1U);
  EXPECT_EQ(matches(R"([^\s]+)", "a\u00a0b").size(), 2U);
  EXPECT_EQ(matches(R"(a$)", "a\na").size(), 2U);
  EXPECT_EQ(matches(R"(a$)", "a\na", RegexSyntax::rust).size(), 1U);
  EXPECT_EQ(matches(R"(\s+$)", "  a  \n "), std::vector<std::string>({"  \n "}));
  EXPECT_EQ(matches(R"( ?[^(\s|[.,!?])]+)", "ab (c"), std::vector<std::string>({"ab", "c"}));
}

TEST(ByteLevel, IsInvertible) {
  std::string bytes, back;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  EXPECT_TRUE(append_from_byte_level(byte_level(bytes), back));
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(byte_level(" \n!"), "\u0120\u010a!");
  EXPECT_FALSE(append_from_byte_level("\u65e5", back));
}

}  // namespace
}  // namespace vitrine
