// SentencePiece models: the ids of sentencepiece 0.2.3, and errors for invalid files.
#include "tokenizer/read/sentencepiece.h"

#include <gmock/gmock.h>

#include <chrono>

#include "base/error.h"
#include "tokenizer/outside.h"
#include "tokenizer/spm_file.h"

namespace vitrine {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::unique_ptr<const Tokenizer> load(const std::string& file) {
  return make_sentencepiece_tokenizer(parse_sentencepiece_model(std::as_bytes(std::span(file)), "m"));
}

template <class E>
void expect_refused(const std::string& file, const char* message) {
  EXPECT_THAT([&] { load(file); }, ThrowsMessage<E>(HasSubstr(message)));
}

constexpr SpecialTokens kNone = SpecialTokens::none;
constexpr SpecialTokens kApply = SpecialTokens::apply;

spm::Model letters(int kind) {  // 3 ▁, 4 a, 5 b, 6 ab, 7 ▁ab, 8 aa, 9 <go>
  spm::Model model;
  model.kind = kind;
  model.pieces = {{"\u2581", -5},         {"a", -6}, {"b", -7}, {"ab", -2}, {"\u2581ab", -1}, {"aa", -3},
                  {"<go>", 0, spm::kUser}};
  return model;
}

TEST(SentencePiece, MergesTheBestScoreFirst) {
  const auto tokenizer = load(letters(2).file());
  EXPECT_EQ(tokenizer->encode("ab", kNone), Ids({7}));
  EXPECT_EQ(tokenizer->encode("aab", kNone), Ids({3, 4, 6}));
  EXPECT_EQ(tokenizer->encode("aaa", kNone), Ids({3, 8, 4}));  // the leftmost of equal scores
  EXPECT_EQ(tokenizer->encode(" ab", kNone), Ids({3, 7}));
  EXPECT_EQ(tokenizer->encode("", kNone), Ids());
  EXPECT_EQ(tokenizer->encode("xyz", kNone), Ids({3, 0}));  // adjacent unknown characters become one
}

TEST(SentencePiece, TakesTheBestPathOfAUnigramModel) {
  const auto tokenizer = load(letters(1).file());
  EXPECT_EQ(tokenizer->encode("ab", kNone), Ids({7}));
  EXPECT_EQ(tokenizer->encode("aab", kNone), Ids({3, 4, 6}));
  EXPECT_EQ(tokenizer->encode("a<go>xx", kNone), Ids({3, 4, 9, 0}));
}

TEST(SentencePiece, RecognizesSpecialTokens) {
  const auto tokenizer = load(letters(2).file());
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->stop_ids(), Ids({2}));
  EXPECT_EQ(tokenizer->encode("", kApply), Ids({1}));
  // The dummy prefix is added only at the start of the text.
  EXPECT_EQ(tokenizer->encode("ab</s>ab", kApply), Ids({1, 7, 2, 6}));
  EXPECT_EQ(tokenizer->encode("<s>ab", kApply), Ids({1, 1, 6}));
  EXPECT_EQ(tokenizer->encode("ab</s> ab", kApply), Ids({1, 7, 2, 7}));
  EXPECT_EQ(tokenizer->encode("<unk>", kApply), Ids({1, 0}));
  EXPECT_EQ(tokenizer->encode("ab</s>", kNone), Ids({7, 0}));
  EXPECT_EQ(tokenizer->encode("<go>a", kNone), Ids({3, 9, 4}));  // a user-defined piece is text
}

TEST(SentencePiece, Decodes) {
  const auto tokenizer = load(letters(2).file());
  EXPECT_EQ(tokenizer->decode(Ids({7, 7})), "ab ab");
  EXPECT_EQ(tokenizer->decode(Ids({1, 7, 2, 7})), "ab ab");
  EXPECT_EQ(tokenizer->decode(Ids({3, 7, 0})), " ab \xE2\x81\x87 ");
  EXPECT_EQ(Detokenizer(*tokenizer, 4).push(7), " ab");
  EXPECT_EQ(tokenizer->piece(7), "\u2581ab");
  EXPECT_THROW(tokenizer->bytes(10), BadInput);
  EXPECT_THROW(tokenizer->bytes(-1), BadInput);
}

TEST(SentencePiece, SpellsUnknownCharactersAsBytes) {
  spm::Model model = letters(2);
  model.byte_fallback = true;
  for (int byte = 0; byte < 256; ++byte) model.pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, spm::kByte});
  const auto tokenizer = load(model.file());
  const Ids ids = tokenizer->encode("\xC3\xA4", kNone);
  EXPECT_EQ(ids, Ids({3, 10 + 0xC3, 10 + 0xA4}));
  EXPECT_EQ(tokenizer->decode(ids), "\xC3\xA4");
  EXPECT_EQ(tokenizer->bytes(10 + 0xC3), "\xC3");
  EXPECT_EQ(tokenizer->encode("\xFF", kNone), tokenizer->encode("\xEF\xBF\xBD", kNone));  // invalid UTF-8: U+FFFD
}

TEST(SentencePiece, SplitsUnusedPieces) {
  spm::Model model = letters(2);
  model.pieces[3].type = spm::kUnused;  // ab
  model.pieces[4].type = spm::kUnused;  // ▁ab
  EXPECT_EQ(load(model.file())->encode("ab", kNone), Ids({3, 4, 5}));
}

TEST(SentencePiece, RemovesExtraWhitespace) {
  spm::Model model = letters(2);
  model.remove_extra = true;
  const auto tokenizer = load(model.file());
  EXPECT_EQ(tokenizer->encode("  ab   ab ", kNone), Ids({7, 7}));
  EXPECT_EQ(tokenizer->encode("   ", kNone), Ids());
  EXPECT_EQ(tokenizer->decode(Ids({3, 3, 7})), "ab");
}

TEST(SentencePiece, RefusesInvalidModels) {
  const spm::Model good = letters(2);
  expect_refused<BadCheckpoint>(spm::piece({"a"}) + spm::piece({"b"}), "expected an unknown piece");
  spm::Model model = good;
  model.pieces.push_back({"a"});
  expect_refused<BadCheckpoint>(model.file(), "have the same text");
  model = good;
  model.pieces.push_back({""});
  expect_refused<BadCheckpoint>(model.file(), "expected 1 to 4096 bytes for piece 10, got 0");
  model.pieces.back() = {std::string(70000, 'x')};
  expect_refused<BadCheckpoint>(model.file(), "got 70000");
  model.pieces.back() = {"\xFF"};
  expect_refused<BadCheckpoint>(model.file(), "UTF-8");
  model.pieces.back() = {"x", std::numeric_limits<float>::infinity()};
  expect_refused<BadCheckpoint>(model.file(), "finite score");
  model.pieces.back() = {"x", 0, 7};
  expect_refused<BadCheckpoint>(model.file(), "type from 1 to 6");
  model.pieces.back() = {"<unk2>", 0, spm::kUnknown};
  expect_refused<BadCheckpoint>(model.file(), "one unknown piece");
  model.pieces.back() = {"<0x00>", 0, spm::kByte};
  expect_refused<BadCheckpoint>(model.file(), "expected 0 byte pieces");
  model = good;
  model.kind = 3;
  expect_refused<Unsupported>(model.file(), "words");
  expect_refused<Unsupported>(good.file() + spm::bytes(5, spm::bytes(2, "abc")), "denormalizer");
  expect_refused<BadCheckpoint>(good.file() + std::string(12, '\xFF'), "without an end");
  expect_refused<BadCheckpoint>(good.file() + "\x0A\x7F", "truncated");
  expect_refused<BadCheckpoint>(good.file() + "\x0B", "wire type");
}

TEST(SentencePiece, AppliesCharacterMaps) {
  // The state 256 has one edge, 'x' (0x78), to a state with a leaf, which contains the value.
  std::vector<std::uint32_t> units(768, 0xFFFFFF01);
  units[0] = 256U << 10;                                           // offset 256
  units[256 ^ 'x'] = ((256U ^ 'x' ^ 512U) << 10) | 1U << 8 | 'x';  // → state 512, has a leaf
  units[512] = 0x80000000U | 0;
  const auto blob = [&](std::string_view replacements) {
    std::string bytes(4 + units.size() * 4, '\0');
    const auto size = static_cast<std::uint32_t>(units.size() * 4);
    std::memcpy(bytes.data(), &size, 4);
    std::memcpy(bytes.data() + 4, units.data(), units.size() * 4);
    return bytes + std::string(replacements);
  };
  using std::string_view_literals::operator""sv;
  const Charsmap map = Charsmap::parse(blob("ab\0"sv), "m");
  EXPECT_EQ(map.longest("xx").length, 1U);
  EXPECT_EQ(map.longest("xx").replacement, "ab");
  EXPECT_EQ(map.longest("y").length, 0U);
  spm::Model model = letters(2);
  model.charsmap = blob("ab\0"sv);
  EXPECT_EQ(load(model.file())->encode("x", kNone), Ids({7}));

  model.charsmap = blob("ab"sv);
  expect_refused<BadCheckpoint>(model.file(), "NUL after the last replacement");
  model.charsmap = blob("\xFF\0"sv);
  expect_refused<BadCheckpoint>(model.file(), "UTF-8");
  units[512] = 0x80000003U;
  model.charsmap = blob("ab\0"sv);
  expect_refused<BadCheckpoint>(model.file(), "replacements of the character map within 3 bytes, got one at 3");
  units[256 ^ 'x'] = (0x1FFFFFU << 10) | 'x';
  model.charsmap = blob("ab\0"sv);
  expect_refused<BadCheckpoint>(model.file(), "states of the character map");
  model.charsmap = "abc";
  expect_refused<BadCheckpoint>(model.file(), "more than 4 bytes");
  model.charsmap = blob("ab\0"sv).substr(0, 100);
  expect_refused<BadCheckpoint>(model.file(), "whole 4-byte units");
}

TEST(SentencePiece, NeverTakesQuadraticTime) {
  for (const int kind : {1, 2}) {
    const auto tokenizer = load(letters(kind).file());
    for (const char* unit : {"a", " ", "ab", "\xF0\x9F\xA6\x99", "<", "<s", "<go>", "\xFF"}) {
      const std::string text = long_text(unit);
      const auto start = std::chrono::steady_clock::now();
      tokenizer->encode(text, kApply);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      EXPECT_LT(seconds.count(), 10) << unit;  // about 0.3; quadratic time would take hours
    }
  }
}

TEST(SentencePiece, GemmaGivesTheReferencesIds) {
  OUTSIDE_DATA_OR_SKIP(path, "tokenizers/gemma/tokenizer.model");
  const auto gemma = load_tokenizer(path);
  EXPECT_EQ(gemma->encode("I want to move", kApply), Ids({2, 235285, 1938, 577, 3124}));
  EXPECT_EQ(gemma->encode("The superlative", kApply), Ids({2, 651, 2557, 133344}));
  EXPECT_EQ(gemma->piece(651), "The");
  EXPECT_EQ(gemma->piece(1175), "the");
  EXPECT_EQ(gemma->piece(1938), "\u2581want");
  EXPECT_EQ(gemma->piece(5000), "\xE7\x94\xBB\xE5\x83\x8F");
  EXPECT_EQ(gemma->piece(5001), "\u2581fish");
  EXPECT_EQ(gemma->piece(5002), "mento");
  std::vector<std::string> pieces;
  for (const std::int32_t id : gemma->encode("nvdkjsv", kNone)) pieces.push_back(gemma->piece(id));
  EXPECT_EQ(pieces, (std::vector<std::string>{"n", "vd", "k", "js", "v"}));
  expect_vectors(*gemma, test::outside_data("tokenizers/vectors.json"), "gemma");
}

TEST(SentencePiece, Llama2GivesTheReferencesIds) {
  OUTSIDE_DATA_OR_SKIP(path, "tokenizers/llama2/tokenizer.model");
  expect_vectors(*load_tokenizer(path), test::outside_data("tokenizers/vectors.json"), "llama2");
}

TEST(SentencePiece, SmallModelsGiveTheReferencesIds) {
  OUTSIDE_DATA_OR_SKIP(path, "tokenizers/small/cases.json");
  const nlohmann::json all = nlohmann::json::parse(read_all(path));
  for (const char* name : {"spm_model", "spm_bytefallback", "spm_bpe_model"}) {
    const auto file = all.at(name).at("tokenizer").get<std::string>();
    const auto tokenizer = load_tokenizer(test::outside_data("tokenizers/small/" + file));
    for (const auto& c : all.at(name).at("cases")) {
      const auto ids = c.at("ids").get<Ids>();
      EXPECT_EQ(tokenizer->encode(c.at("text").get<std::string>(), kNone), ids) << name << ": " << c.at("text");
      EXPECT_EQ(tokenizer->decode(ids), c.at("decoded").get<std::string>()) << name;
    }
  }
}

}  // namespace
}  // namespace vitrine
