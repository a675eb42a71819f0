// From text to shards: documents, their tokens, dropped characters, errors.
#include "data/pack.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/read/tokenizer_json.h"
#include "tokenizer/read/tokenizer_writer.h"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<std::int32_t>;

class Pack : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& bytes) {
    write_file(folder_ / name, bytes);
    return folder_ / name;
  }
  Packed pack(const std::vector<std::string>& files, const Tokenizer& tokenizer, PackOptions options, int threads = 2) {
    std::filesystem::remove_all(out_);
    ThreadPool pool(threads);
    return pack_corpus(files, tokenizer, out_, options, pool);
  }
  Ids all_ids() const {
    const TokenShards shards = TokenShards::open(out_);
    Ids ids(static_cast<std::size_t>(shards.tokens()));
    shards.read(0, ids);
    return ids;
  }
  TempFolder folder_;
  const std::string out_ = folder_ / "tokens";
  const std::unique_ptr<const Tokenizer> bytes_ = parse_tokenizer_json(bytes_json({"<|endoftext|>", "<x>"}), "bytes");
};

TEST_F(Pack, DocumentsBeginWithTheirToken) {
  const auto text = file("a.txt", "ab\n|\n\n|\nc<x>|");
  const auto lines = file("b.jsonl", "{\"text\": \"d\"}\n{\"text\": \"\"}\n");
  PackOptions options{"|", document_token_of(*bytes_)};
  EXPECT_EQ(options.document_token, 256);
  const Packed packed = pack({text, lines}, *bytes_, options);
  EXPECT_THAT(all_ids(), ElementsAre(256, 'a', 'b', 256, 'c', '<', 'x', '>', 256, 'd'));
  EXPECT_EQ(packed.tokens, 10);
  EXPECT_EQ(packed.documents, 3);
  EXPECT_EQ(packed.text_bytes, 7);
  EXPECT_EQ(packed.lost_bytes, 0);
  const TokenShards shards = TokenShards::open(out_);
  EXPECT_THAT(shards.document_starts(0, 10), ElementsAre(0, 3, 8));
  EXPECT_EQ(shards.info().fingerprint, tokenizer_fingerprint(*bytes_));
  EXPECT_EQ(shards.info().vocab_size, 258);
  EXPECT_EQ(shards.text_bytes(), 7);

  options.document_token.reset();
  options.shard_tokens = 2;
  EXPECT_EQ(pack({text, lines}, *bytes_, options).shards, 3);
  EXPECT_THAT(all_ids(), ElementsAre('a', 'b', 'c', '<', 'x', '>', 'd'));
}

TEST_F(Pack, LongDocumentsAndThreadsChangeNothing) {
  std::string text;
  for (int i = 0; text.size() < 3'500'000; ++i) text += "line " + std::to_string(i) + (i % 9 == 0 ? "\n" : ", ");
  const std::vector<std::string> files = {file("long.txt", text), file("short.txt", "x y"), file("empty.txt", "")};
  const Packed one = pack(files, *bytes_, {"", 256}, 1);
  Ids expected = {256};
  for (const char c : text) expected.push_back(c);
  for (const int id : {256, int{'x'}, int{' '}, int{'y'}}) expected.push_back(id);
  EXPECT_EQ(all_ids(), expected);
  EXPECT_EQ(one.documents, 2);
  pack(files, *bytes_, {"", 256}, 4);
  EXPECT_EQ(all_ids(), expected);
}

TEST_F(Pack, CharactersOutsideTheVocabularyAreCounted) {
  const auto characters = parse_tokenizer_json(characters_json({'a', 'b'}, {}), "characters");
  EXPECT_EQ(document_token_of(*characters), std::nullopt);
  const Packed packed = pack({file("a.txt", "axb|xyz|b")}, *characters, {"|", {}});
  EXPECT_EQ(packed.lost_bytes, 4);
  EXPECT_EQ(packed.documents, 2);
  EXPECT_THAT(all_ids(), ElementsAre(0, 1, 1));
  EXPECT_NE(tokenizer_fingerprint(*characters), tokenizer_fingerprint(*bytes_));
}

TEST_F(Pack, SpecialTokensByName) {
  EXPECT_EQ(special_token(*bytes_, "<x>"), 257);
  EXPECT_EQ(special_token(*bytes_, "x"), std::nullopt);
  EXPECT_EQ(special_token(*bytes_, "<y>"), std::nullopt);
  const auto other = parse_tokenizer_json(bytes_json({"<s>", "</s>"}), "bytes");
  EXPECT_EQ(document_token_of(*other), 256);
}

TEST_F(Pack, FailuresLeaveNothing) {
  const auto error_of = [&](const std::vector<std::string>& files) {
    return message_of<BadInput>([&] { pack(files, *bytes_, {"", 256}); });
  };
  EXPECT_THAT(error_of({file("empty.txt", "")}), HasSubstr("the corpus has none"));
  EXPECT_THAT(error_of({file("good.txt", "a"), file("bad.txt", "\xFF")}), HasSubstr("bad.txt] expected UTF-8"));
  EXPECT_THAT(error_of({folder_ / "none.txt"}), HasSubstr("none.txt"));
  ThreadPool pool(1);
  const ReportProgress stop = [](std::int64_t, std::int64_t) { throw Interrupted(); };
  EXPECT_THROW(pack_corpus({folder_ / "good.txt"}, *bytes_, out_, {"", 256}, pool, stop), Interrupted);
  EXPECT_FALSE(std::filesystem::exists(out_));
}

}  // namespace
}  // namespace vitrine::test
