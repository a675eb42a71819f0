// Training vocabularies of words, WordPiece and characters, and the files that are written.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/outside.h"
#include "tokenizer/read/tokenizer_json.h"
#include "tokenizer/read/tokenizer_writer.h"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TrainVocabulary : public testing::Test {
 protected:
  WordCounts wordpiece_words(const std::string& text, const std::vector<std::string>& specials = {}) const {
    return counted(text, {"", specials, true, wordpiece_normalizer(), wordpiece_pre_tokenizer()});
  }
  WordCounts words(const std::string& text, const std::vector<std::string>& specials = {}) const {
    return counted(text, {"", specials, false, {}, words_pre_tokenizer()});
  }
  WordCounts counted(const std::string& text, const WordCounting& counting) const {
    write_file(folder_ / "corpus.txt", text);
    ThreadPool pool(2);
    return count_words({folder_ / "corpus.txt"}, counting, pool);
  }
  static BpeTraining training(std::int64_t vocab_size, std::vector<std::string> specials) {
    return {vocab_size, BpeTies::smaller_id, 1, std::move(specials), BpeSymbols::characters};
  }
  TempFolder folder_;
};

TEST_F(TrainVocabulary, AgreesWithHuggingFace) {
  const std::vector<std::string> specials = {"[UNK]", "[EOS]"};
  int n_cases = 0;
  for (const auto& c : nlohmann::json::parse(read_all(goldens() + "/trained_vocabularies.json"))) {
    const auto text = c.at("text").get<std::string>();
    const auto vocab_size = c.at("vocab_size").get<std::int64_t>();
    std::vector<std::string> pieces;
    if (c.at("model") == "word") {
      pieces = frequent_words(words(text), static_cast<std::size_t>(vocab_size) - 2, 1);
      pieces.insert(pieces.begin(), specials.begin(), specials.end());
    } else {
      pieces = train_bpe(wordpiece_words(text), training(vocab_size, specials)).pieces;
    }
    EXPECT_EQ(pieces, c.at("pieces").get<std::vector<std::string>>());
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 4);
}

TEST_F(TrainVocabulary, WritesWordPiece) {
  const std::vector<std::string> specials = {"[UNK]", "[CLS]", "[SEP]"};
  const std::string text = "unable able unable. [SEP] Él 京都\n";
  const TrainedBpe bpe = train_bpe(wordpiece_words(text, specials), training(60, specials));
  const auto tokenizer = parse_tokenizer_json(wordpiece_json(bpe, {"[CLS]", "[SEP]", "[UNK]"}), "trained");
  EXPECT_EQ(tokenizer->vocab_size(), static_cast<std::int64_t>(bpe.pieces.size()));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("unable able 京 Él.", SpecialTokens::apply)), "unable able 京 Él.");
  EXPECT_EQ(tokenizer->encode("unable", SpecialTokens::none).size(), 1U);
  EXPECT_EQ(tokenizer->encode("zzz", SpecialTokens::apply), (Ids{1, 0, 2}));
  const PairEncoding pair = tokenizer->encode_pair("zz", "zz", SpecialTokens::apply);
  EXPECT_EQ(pair.ids, (Ids{1, 0, 2, 1, 0, 2}));
  EXPECT_EQ(pair.types, (Ids{0, 0, 0, 1, 1, 1}));
}

TEST_F(TrainVocabulary, WritesWords) {
  const WordCounts counts = words("b a\tb c <pad>a b.\nb", {"<pad>"});
  EXPECT_THAT(frequent_words(counts, 99, 1), ElementsAre("b", "a", "b.", "c"));
  EXPECT_THAT(frequent_words(counts, 99, 2), ElementsAre("b", "a"));
  EXPECT_THAT(frequent_words(counts, 3, 1), ElementsAre("b", "a", "b."));
  const auto tokenizer =
      parse_tokenizer_json(words_json({"b", "a"}, {"<pad>", "<unk>", "</s>"}, {"", "</s>", "<unk>"}), "words");
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_EQ(tokenizer->encode("a  x b<pad>", SpecialTokens::apply), (Ids{4, 1, 3, 0, 2}));
  EXPECT_EQ(tokenizer->encode("a b", SpecialTokens::none), (Ids{4, 3}));
  EXPECT_EQ(tokenizer->decode(Ids{4, 3, 2}), "a b");
}

TEST_F(TrainVocabulary, WritesCharactersByFrequency) {
  write_file(folder_ / "text.txt", "ba ab c\n c é");
  const std::vector<std::string> files = {folder_ / "text.txt"};
  const auto frequent = [&](std::size_t most, CharacterOrder order) { return frequent_characters(files, most, order); };
  const std::vector<std::uint32_t> characters = frequent(99, CharacterOrder::frequency);
  EXPECT_THAT(characters, ElementsAre(' ', 'a', 'b', 'c', '\n', 0xE9));
  EXPECT_THAT(frequent(3, CharacterOrder::frequency), ElementsAre(' ', 'a', 'b'));
  EXPECT_THAT(frequent(5, CharacterOrder::code_point), ElementsAre('\n', ' ', 'a', 'b', 'c'));
  const TokenRoles roles = {"", "</s>", "<unk>"};
  const auto first = parse_tokenizer_json(characters_json(characters, {"<unk>", "</s>"}, roles, true), "first");
  EXPECT_EQ(first->encode("a z\n", SpecialTokens::apply), (Ids{3, 2, 0, 6, 1}));
  EXPECT_EQ(first->decode(first->encode(" ba  é\n", SpecialTokens::apply)), " ba  é\n");
  const auto last = parse_tokenizer_json(characters_json(characters, {"<unk>", "</s>"}, roles), "last");
  EXPECT_EQ(last->encode("a z\n", SpecialTokens::apply), (Ids{1, 0, 6, 4, 7}));
}

TEST_F(TrainVocabulary, RefusesWrongOptions) {
  const auto refusal = [&](std::int64_t vocab_size, const std::vector<std::string>& specials) {
    return message_of<BadInput>([&] { train_bpe(wordpiece_words("ab ba"), training(vocab_size, specials)); });
  };
  EXPECT_EQ(refusal(5, {"[UNK]"}), "");
  EXPECT_THAT(refusal(4, {"[UNK]"}), HasSubstr("expected a size from 5 (4 characters and 1 special tokens)"));
  EXPECT_THAT(refusal(9, {"##a"}), HasSubstr("expected texts that are not pieces, got \"##a\""));
  EXPECT_THAT(refusal(9, {"ab"}), HasSubstr("expected texts that are not pieces, got \"ab\""));
  const auto role_refusal = [](const TokenRoles& roles) {
    return message_of<BadInput>([&] { words_json({"a"}, {"<s>"}, roles); });
  };
  EXPECT_EQ(role_refusal({"", "", "<s>"}), "");
  EXPECT_EQ(role_refusal({"", "", "<u>"}), "[unk] expected one of the special tokens, got \"<u>\"");
  EXPECT_EQ(role_refusal({"", "</s>", "<s>"}), "[eos] expected one of the special tokens, got \"</s>\"");
  EXPECT_EQ(message_of<BadInput>([] {
              words_json({"a"}, {"a"}, {"", "", "a"});
            }),
            "[special tokens] expected texts that are not pieces, got \"a\"");
}

}  // namespace
}  // namespace vitrine::test
