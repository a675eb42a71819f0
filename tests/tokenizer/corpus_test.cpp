// Reading a corpus: pieces, documents, invalid files.
#include "tokenizer/train/corpus.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/split.h"
#include "tokenizer/utf8.h"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Corpus : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& bytes) {
    write_file(folder_ / name, bytes);
    return folder_ / name;
  }
  static std::vector<CorpusReader::Piece> pieces(const std::vector<std::string>& files, CorpusOptions options) {
    CorpusReader reader(files, std::move(options));
    std::vector<CorpusReader::Piece> all;
    for (CorpusReader::Piece piece; reader.next(piece);) all.push_back(piece);
    EXPECT_EQ(reader.bytes_done(), reader.bytes_total());
    return all;
  }
  /// The documents, reassembled from their pieces.
  static std::vector<std::string> documents(const std::vector<std::string>& files, CorpusOptions options) {
    std::vector<std::string> all;
    for (const CorpusReader::Piece& piece : pieces(files, std::move(options))) {
      EXPECT_FALSE(piece.text.empty());
      if (piece.begins_document) all.emplace_back();
      EXPECT_FALSE(all.empty());
      if (!all.empty()) all.back() += piece.text;
    }
    return all;
  }
  TempFolder folder_;
};

TEST_F(Corpus, ReadsTextJsonLinesAndFolders) {
  file("b.txt", "one|two||three|");
  file("a.jsonl",
       "{\"text\": \"four\\n\"}\n\n{\"id\": 1, \"text\": \"f\\u00fcnf\"}\r\n{\"text\": \"\"}\n{\"text\": \"six\"}");
  file("c.md", "not read");
  const std::vector<std::string> files = corpus_files({folder_.path()});
  EXPECT_THAT(files, ElementsAre(folder_ / "a.jsonl", folder_ / "b.txt"));
  EXPECT_THAT(documents(files, {"|", {}}), ElementsAre("four\n", "fünf", "six", "one", "two", "three"));
  EXPECT_THAT(documents(files, {"", {}}), ElementsAre("four\n", "fünf", "six", "one|two||three|"));
  EXPECT_THAT(documents({file("e.txt", "")}, {}), ElementsAre());
  EXPECT_THAT(documents({file("f.txt", "a\n|\nb\n\n|\n\n|\n|c\n")}, {"|", {}}), ElementsAre("a", "b\n", "c\n"));
}

TEST_F(Corpus, ReadsTheSameDocumentsInPiecesOfAnySize) {
  std::string text, lines;
  for (int i = 0; i < 300; ++i) {
    text += "Wort für Wort, 東京都\n\n" + std::string(static_cast<std::size_t>(i % 40), 'x') +
            (i % 7 == 0 ? "<|end|>" : " ");
  }
  lines = "{\"text\": \"" + std::string(200, 'y') + " z\"}\n{\"text\": \"ä b\"}\n";
  const std::vector<std::string> files = {file("t.txt", text), file("l.jsonl", lines)};
  const auto expected = documents(files, {"<|end|>", {}, 1 << 20});
  EXPECT_EQ(expected.size(), 43U + 1 + 2);
  for (const std::size_t bytes : {8U, 9U, 13U, 64U, 100U, 1000U, 4096U}) {
    EXPECT_EQ(documents(files, {"<|end|>", {}, bytes}), expected) << bytes;
    for (const auto& piece : pieces(files, {"", {"<|end|>"}, bytes})) {
      std::string rest = piece.text;
      for (std::size_t at = rest.find("<|end|>"); at != rest.npos; at = rest.find("<|end|>")) rest.erase(at, 7);
      EXPECT_THAT(rest, testing::Not(HasSubstr("<|"))) << bytes;
      EXPECT_THAT(rest, testing::Not(HasSubstr("|>"))) << bytes;
      EXPECT_LE(piece.text.size(), std::max<std::size_t>(bytes, 8) + 16);
    }
  }
}

TEST_F(Corpus, DoesNotCutWords) {
  const std::string text =
      "We'll  see   it. 12345 != x\n\n\n  then\t on\nnext  \n \u00a0 \u3000 wörter, 東京 "
      "東京\r\n\r\n(end)\n東京。\n次の ";
  for (
      const char* pattern :
      {kGpt2Pattern,
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}) {
    const Split split(Regex(pattern, RegexSyntax::oniguruma, ""), SplitBehavior::isolated, false);
    const auto words = [&](std::string_view part) {
      std::vector<std::string> all;
      split(part, [&](std::string_view word) { all.emplace_back(word); });
      return all;
    };
    const std::vector<std::string> expected = words(text);
    int n_cuts = 0;
    for (std::size_t size = 2; size <= text.size(); ++size) {
      const std::string front = text.substr(0, size);
      if (is_continuation(text[size])) continue;
      if (front.find(' ', 1) == std::string::npos) continue;
      const std::size_t cut = last_cut(front);
      std::vector<std::string> got = words(text.substr(0, cut));
      const std::vector<std::string> rest = words(text.substr(cut));
      got.insert(got.end(), rest.begin(), rest.end());
      EXPECT_EQ(got, expected) << cut;
      ++n_cuts;
    }
    EXPECT_GT(n_cuts, 50);
  }
  EXPECT_EQ(last_cut("東京"), 3U);
  EXPECT_EQ(last_cut("a\nb\nc"), 4U);
  EXPECT_EQ(last_cut("é"), 2U);
}

TEST_F(Corpus, NamesInvalidFiles) {
  const auto refusal = [&](const std::string& path) { return message_of<BadInput>([&] { pieces({path}, {}); }); };
  EXPECT_THAT(refusal(file("bad.txt", std::string(3'000'000, 'a') + " \xC3(")), HasSubstr("0xC3 at byte 3000001"));
  EXPECT_THAT(refusal(file("cut.txt", "abc\xE6\x9D")), HasSubstr("0xE6 at byte 3"));
  EXPECT_THAT(refusal(folder_ / "none.txt"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("got a folder"));
  EXPECT_THAT(refusal(file("n.jsonl", "{\"text\": \"a\"}\n{\"text\": 3}\n")), HasSubstr("n.jsonl, line 2]"));
  EXPECT_THAT(refusal(file("m.jsonl", "[1]\n")), HasSubstr("expected an object"));
  EXPECT_THAT(message_of<BadCheckpoint>([&] { pieces({file("o.jsonl", "{\"text\": \"a\"\n")}, {}); }),
              HasSubstr("o.jsonl, line 1]"));
  EXPECT_THAT(message_of<BadInput>([&] { corpus_files({folder_ / "none"}); }), HasSubstr("no such file"));
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_THAT(message_of<BadInput>([&] { corpus_files({folder_ / "empty"}); }), HasSubstr("found none"));
  const std::string secret = file("secret.txt", "a");
  const WithoutRights none;
  ASSERT_TRUE(none.works());
  EXPECT_THAT(refusal(secret), HasSubstr("ermission denied"));
}

}  // namespace
}  // namespace vitrine::test
