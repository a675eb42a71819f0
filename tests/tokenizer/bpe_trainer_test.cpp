// Training: the merges and vocabularies of the references, and the files that are written.
#include "tokenizer/train/bpe_trainer.h"

#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/outside.h"
#include "tokenizer/read/tokenizer_json.h"
#include "tokenizer/read/tokenizer_writer.h"
#include "tokenizer/split.h"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using MergeIds = std::vector<std::array<std::int32_t, 2>>;

MergeIds merge_ids(const TrainedBpe& bpe) {
  MergeIds ids;
  for (const Bpe::Pair& pair : bpe.merges) ids.push_back({pair.left, pair.right});
  return ids;
}

class BpeTrainer : public testing::Test {
 protected:
  WordCounts words_of(const std::string& text, WordCounting options = {}, int threads = 2) {
    write_file(folder_ / "corpus.txt", text);
    ThreadPool pool(threads);
    return count_words({folder_ / "corpus.txt"}, options, pool);
  }
  TempFolder folder_;
};

TEST_F(BpeTrainer, BreaksTiesBySmallerIdAsHuggingFace) {
  int n_cases = 0;
  for (const auto& c : nlohmann::json::parse(read_all(goldens() + "/trained_merges.json"))) {
    std::string path = folder_ / "text.txt";
    if (c.contains("text")) write_file(path, c.at("text").get<std::string>());
    if (c.contains("file")) path = outside_data(c.at("file").get<std::string>());
    if (path.empty()) continue;
    ThreadPool pool(2);
    BpeTraining options;
    options.vocab_size = c.at("vocab_size");
    options.ties = BpeTies::smaller_id;
    WordCounting counting;
    counting.by_line = true;
    const TrainedBpe bpe = train_bpe(count_words({path}, counting, pool), options);
    EXPECT_EQ(bpe.pieces.size(), c.at("vocab_out").get<std::size_t>());
    EXPECT_EQ(merge_ids(bpe), c.at("merges").get<MergeIds>());
    ++n_cases;
  }
  EXPECT_GE(n_cases, 2);
}

TEST_F(BpeTrainer, BreaksTiesByGreaterPieceAsTheReference) {
  OUTSIDE_DATA_OR_SKIP(corpus, "tokenizers/bpe_training/corpus.en");
  OUTSIDE_DATA_OR_SKIP(vocab_path, "tokenizers/bpe_training/train-bpe-reference-vocab.json");
  OUTSIDE_DATA_OR_SKIP(merges_path, "tokenizers/bpe_training/train-bpe-reference-merges.txt");
  const auto vocab = nlohmann::json::parse(read_all(vocab_path)).get<std::map<std::string, std::int32_t>>();
  ThreadPool pool(2);
  BpeTraining options;
  options.vocab_size = static_cast<std::int64_t>(vocab.size());
  options.specials = {"<|endoftext|>"};
  const TrainedBpe bpe = train_bpe(count_words({corpus}, {"", options.specials}, pool), options);
  std::map<std::string, std::int32_t> got = {{bpe.pieces[0], 0}};
  for (std::size_t id = 1; id < bpe.pieces.size(); ++id)
    got[byte_level(bpe.pieces[id])] = static_cast<std::int32_t>(id);
  EXPECT_EQ(got, vocab);
  std::string merges;
  for (const Bpe::Pair& pair : bpe.merges) {
    merges += byte_level(bpe.pieces[static_cast<std::size_t>(pair.left)]) + " " +
              byte_level(bpe.pieces[static_cast<std::size_t>(pair.right)]) + "\n";
  }
  EXPECT_EQ(merges, read_all(merges_path));
}

TEST_F(BpeTrainer, BreaksTiesAsRequested) {
  BpeTraining options;
  options.vocab_size = 257;
  const auto first = [&](BpeTies ties) {
    options.ties = ties;
    const TrainedBpe bpe = train_bpe(words_of("ab zy é"), options);
    return bpe.pieces.back();
  };
  EXPECT_EQ(first(BpeTies::greater), "\xC3\xA9");  // bytes, not characters
  EXPECT_EQ(first(BpeTies::smaller_id), "ab");
}

TEST_F(BpeTrainer, CountsPairsThatOverlapThemselves) {
  BpeTraining options;
  options.vocab_size = 300;
  options.min_frequency = 2;
  // (a, a) appears 3 times, (b, b) twice; then (aa, aa) appears once.
  const TrainedBpe bpe = train_bpe(words_of("aaaa\nbb\nbb"), options);
  ASSERT_EQ(bpe.merges.size(), 2U);
  EXPECT_EQ(bpe.pieces[256], "aa");
  EXPECT_EQ(bpe.pieces[257], "bb");
}

/// The definition: counts all pairs again for each merge.
TrainedBpe trained_by_definition(const WordCounts& words, std::size_t vocab_size) {
  TrainedBpe bpe;
  std::map<std::string, std::int32_t> ids;
  for (const std::uint8_t byte : byte_level_order()) {
    ids[std::string(1, static_cast<char>(byte))] = static_cast<std::int32_t>(bpe.pieces.size());
    bpe.pieces.emplace_back(1, static_cast<char>(byte));
  }
  std::vector<std::pair<std::vector<std::string>, std::uint64_t>> all;
  words.for_each([&](std::string_view word, std::uint64_t count) {
    std::vector<std::string> symbols;
    for (const char c : word) symbols.emplace_back(1, c);
    all.emplace_back(symbols, count);
  });
  while (bpe.pieces.size() < vocab_size) {
    std::map<std::pair<std::string, std::string>, std::uint64_t> counts;
    for (const auto& [symbols, count] : all) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) counts[{symbols[i], symbols[i + 1]}] += count;
    }
    const auto best = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second, a.first) < std::pair(b.second, b.first);
    });
    if (best == counts.end()) break;
    const auto [left, right] = best->first;
    bpe.merges.push_back({ids[left], ids[right]});
    ids[left + right] = static_cast<std::int32_t>(bpe.pieces.size());
    bpe.pieces.push_back(left + right);
    for (auto& [symbols, count] : all) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] != left || symbols[i + 1] != right) continue;
        symbols[i] += right;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return bpe;
}

TEST_F(BpeTrainer, AgreesWithTheDefinition) {
  std::uint32_t state = 1;
  const auto draw = [&](std::uint32_t n) { return (state = state * 1664525 + 1013904223) / 65536 % n; };
  for (const std::uint32_t letters : {1U, 2U, 3U, 12U}) {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      for (std::uint32_t n = draw(15) + 1; n > 0; --n) text += static_cast<char>('a' + draw(letters));
      text += ' ';
    }
    const WordCounts words = words_of(text);
    BpeTraining options;
    options.vocab_size = 400;
    const TrainedBpe got = train_bpe(words_of(text), options);
    const TrainedBpe expected = trained_by_definition(words, 400);
    EXPECT_EQ(got.pieces, expected.pieces) << letters;
    EXPECT_EQ(merge_ids(got), merge_ids(expected)) << letters;
  }
}

TEST_F(BpeTrainer, CountsTheSameWithAnyNumberOfThreads) {
  std::string text;
  for (int i = 0; text.size() < 5'000'000; ++i) text += "word" + std::to_string(i * 7919 % 100'000) + " and again, ";
  const WordCounts one = words_of(text, {}, 1), four = words_of(text, {}, 4);
  EXPECT_GT(one.size(), 70'000U);
  std::map<std::string, std::uint64_t> a, b;
  one.for_each([&](std::string_view word, std::uint64_t count) { a[std::string(word)] = count; });
  four.for_each([&](std::string_view word, std::uint64_t count) { b[std::string(word)] = count; });
  EXPECT_EQ(a, b);
  std::uint64_t bytes = 0;
  for (const auto& [word, count] : a) bytes += word.size() * count;
  EXPECT_EQ(bytes, text.size());
}

TEST_F(BpeTrainer, DoesNotCountSpecialTokens) {
  const WordCounts words = words_of("ab<s>ab<s><s>cd\n", {"", {"<s>"}});
  std::map<std::string, std::uint64_t> counts;
  words.for_each([&](std::string_view word, std::uint64_t count) { counts[std::string(word)] = count; });
  EXPECT_EQ(counts, (std::map<std::string, std::uint64_t>{{"ab", 2}, {"cd", 1}, {"\n", 1}}));
}

TEST_F(BpeTrainer, WritesFilesThatEncodeAndDecode) {
  const std::string text = "Once upon a time, in 東京:\n\n  don't <|end|>stop.\tée ";
  BpeTraining options;
  options.vocab_size = 280;
  options.specials = {"<|end|>", "<pad>"};
  for (const std::string pattern : {"", R"(\p{L}+|[^\p{L}]+)"}) {
    const TrainedBpe bpe = train_bpe(words_of(text + text, {pattern, options.specials}), options);
    const auto tokenizer = parse_tokenizer_json(bpe_json(bpe, pattern), "trained");
    EXPECT_EQ(tokenizer->vocab_size(), 280);
    EXPECT_EQ(tokenizer->encode("<|end|>", SpecialTokens::apply), Ids{0});
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, SpecialTokens::none)), text);
    EXPECT_LT(tokenizer->encode(text, SpecialTokens::none).size(), text.size() - 10);
  }
  const auto bytes = parse_tokenizer_json(bytes_json({"<|end|>"}), "bytes");
  EXPECT_EQ(bytes->encode(std::string("\0 \n\xFFz", 5), SpecialTokens::none), (Ids{0, 32, 10, 255, 122}));
  EXPECT_EQ(bytes->encode("a<|end|>", SpecialTokens::apply), (Ids{97, 256}));
  EXPECT_EQ(bytes->decode(bytes->encode(text, SpecialTokens::none)), text);
}

TEST_F(BpeTrainer, WritesATemplateThatAddsBos) {
  const auto bytes = parse_tokenizer_json(bytes_json({"<pad>", "<|end|>"}, {"<|end|>"}), "bytes");
  EXPECT_EQ(bytes->encode("ab", SpecialTokens::apply), (Ids{257, 97, 98}));
  EXPECT_EQ(bytes->encode("", SpecialTokens::apply), Ids{257});
  EXPECT_EQ(bytes->encode("ab", SpecialTokens::none), (Ids{97, 98}));
  EXPECT_EQ(message_of<BadInput>([&] { bytes_json({"<pad>"}, {"<s>"}); }),
            "[bos] expected one of the special tokens, got \"<s>\"");
}

TEST_F(BpeTrainer, NumbersCharactersInOrder) {
  write_file(folder_ / "text.txt", "hello\n wörld 京\"\\");
  const std::vector<std::uint32_t> characters = characters_of({folder_ / "text.txt"});
  EXPECT_THAT(characters, ElementsAre('\n', ' ', '"', '\\', 'd', 'e', 'h', 'l', 'o', 'r', 'w', 0xF6, 0x4EAC));
  const auto tokenizer = parse_tokenizer_json(characters_json(characters, {"<|end|>"}), "characters");
  EXPECT_EQ(tokenizer->vocab_size(), 14);
  EXPECT_EQ(tokenizer->encode("\n 京ö<|end|>", SpecialTokens::apply), (Ids{0, 1, 12, 11, 13}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("hello  wörld\n\n\"\\", SpecialTokens::none)), "hello  wörld\n\n\"\\");
  EXPECT_EQ(message_of<BadInput>([&] { characters_json(characters, {"h"}); }),
            "[special tokens] expected texts that are not pieces, got \"h\"");
}

TEST_F(BpeTrainer, RefusesWrongOptionsAndEmptyCorpora) {
  const auto refusal = [&](std::int64_t vocab_size, std::vector<std::string> specials) {
    BpeTraining options;
    options.vocab_size = vocab_size;
    options.specials = std::move(specials);
    return message_of<BadInput>([&] { train_bpe(words_of("a b ab ab"), options); });
  };
  EXPECT_THAT(refusal(255, {}), HasSubstr("from 256"));
  EXPECT_THAT(refusal(257, {"<a>", "<b>"}), HasSubstr("expected a size from 258 (256 bytes and 2 special tokens)"));
  EXPECT_THAT(refusal(1 << 30, {}), HasSubstr("to 4194303, got 1073741824"));
  EXPECT_THAT(refusal(300, {"<a>", "<a>"}), HasSubstr("appears twice"));
  EXPECT_THAT(refusal(300, {""}), HasSubstr("an empty string"));
  EXPECT_THAT(refusal(300, {"\xFF"}), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal(300, {"a"}), HasSubstr("not pieces, got \"a\""));
  EXPECT_THAT(refusal(300, {"ab"}), HasSubstr("not pieces, got \"ab\""));
  EXPECT_EQ(refusal(256, {}), "");
  EXPECT_THAT(message_of<BadInput>([&] { words_of(""); }), HasSubstr("the files contain none"));
  EXPECT_THAT(message_of<BadInput>([&] { words_of("<s><s>", {"", {"<s>"}}); }), HasSubstr("the files contain none"));
  EXPECT_THAT(message_of<BadCheckpoint>([&] { words_of("a", {"(", {}}); }), HasSubstr("regex"));
  write_file(folder_ / "empty.txt", "");
  EXPECT_THAT(message_of<BadInput>([&] { characters_of({folder_ / "empty.txt"}); }),
              HasSubstr("the files contain none"));
}

TEST_F(BpeTrainer, StopsIfTheProgressReportThrows) {
  const ReportProgress stop = [](std::int64_t, std::int64_t) { throw Interrupted(); };
  write_file(folder_ / "text.txt", "some words, some more words");
  ThreadPool pool(1);
  EXPECT_THROW(count_words({folder_ / "text.txt"}, {}, pool, stop), Interrupted);
  EXPECT_THROW(characters_of({folder_ / "text.txt"}, stop), Interrupted);
  BpeTraining options;
  options.vocab_size = 300;
  EXPECT_THROW(train_bpe(words_of("some words, some more words"), options, stop), Interrupted);
}

}  // namespace
}  // namespace vitrine::test
