// BLEU and chrF: the numbers, tokens and lower case of sacreBLEU (tools/goldens score), and values by hand.
#include <gtest/gtest.h>

#include "checkpoint/hugging_face/config_json.h"
#include "metrics/translation_scores.h"
#include "support/data.h"
#include "tokenizer/utf8.h"

namespace vitrine::test {
namespace {

constexpr double kTolerance = 1e-9;
constexpr ScoreTokenizer kTokenizers[] = {ScoreTokenizer::v13a, ScoreTokenizer::intl, ScoreTokenizer::character,
                                          ScoreTokenizer::none};

Json goldens_of(const char* part) { return read_json_file(source_dir() + "/tests/goldens/score.json").at(part); }

ScoreTokenizer tokenizer_of(const std::string& name) {
  for (const ScoreTokenizer tokenizer : kTokenizers) {
    if (name_of(tokenizer) == name) return tokenizer;
  }
  ADD_FAILURE() << name;
  return ScoreTokenizer::none;
}

/// The tokens of a line, joined by spaces.
std::string tokens_of(const std::string& line, ScoreTokenizer tokenizer) {
  const std::u32string text = score_tokenized(line_characters(line, false), tokenizer);
  std::string joined;
  for (const std::u32string_view word : split_words(text)) {
    if (!joined.empty()) joined += ' ';
    for (const char32_t c : word) append_code_point(c, joined);
  }
  return joined;
}

TEST(Score, EqualsSacreBleu) {
  int compared = 0;
  for (const Json& corpus : goldens_of("corpora")) {
    const auto texts = corpus["pairs"].get<std::vector<std::pair<std::string, std::string>>>();
    std::vector<LinePair> lines;
    for (const auto& [hypothesis, reference] : texts) lines.push_back({hypothesis, reference});
    for (const Json& golden : corpus["scores"]) {
      const BleuSettings settings{tokenizer_of(golden["tokenize"]), golden["lowercase"].get<bool>()};
      SCOPED_TRACE(corpus["name"].get<std::string>() + " " + settings.signature());
      EXPECT_EQ(settings.signature(), golden["signature"]);
      const Bleu bleu = corpus_bleu(lines, settings);
      EXPECT_NEAR(bleu.score, golden["bleu"].get<double>(), kTolerance);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(bleu.precisions[i], golden["precisions"][i].get<double>(), kTolerance) << i;
      }
      EXPECT_NEAR(bleu.brevity_penalty, golden["brevity_penalty"].get<double>(), kTolerance);
      EXPECT_EQ(Json({bleu.hypothesis_length, bleu.reference_length}), golden["lengths"]);
      const Chrf chrf = corpus_chrf(lines, settings.lowercase);
      EXPECT_NEAR(chrf.chrf, golden["chrf"].get<double>(), kTolerance);
      EXPECT_NEAR(chrf.chrf_plus_plus, golden["chrf++"].get<double>(), kTolerance);
      ++compared;
    }
  }
  EXPECT_GE(compared, 80);
}

TEST(Score, TokensEqualSacreBleu) {
  const Json lines = goldens_of("lines");
  EXPECT_GE(lines.size(), 40U);
  for (const Json& golden : lines) {
    const auto line = golden["line"].get<std::string>();
    for (const ScoreTokenizer tokenizer : kTokenizers) {
      EXPECT_EQ(tokens_of(line, tokenizer), golden[std::string(name_of(tokenizer))]) << name_of(tokenizer);
    }
    EXPECT_EQ(full_lowercase(line), golden["lowercase"]);
  }
}

TEST(Score, CharactersNewerThanUnicode14HaveAClass) {
  EXPECT_EQ(class_of(0x1FAE9), CharacterClass::symbol) << "an emoji of Unicode 16";
  EXPECT_EQ(class_of(0x1FAEB), CharacterClass::symbol) << "the last of a range";
  EXPECT_EQ(class_of(0x1FAEC), CharacterClass::other) << "unassigned";
  EXPECT_EQ(class_of(0x11F50), CharacterClass::number);
  EXPECT_EQ(class_of(0x11F4F), CharacterClass::punctuation);
  EXPECT_EQ(class_of(0x10FFFF), CharacterClass::other);
}

TEST(Score, BleuByHand) {
  const LinePair line{"a b c d", "a b c e f"};
  const Bleu bleu = corpus_bleu({&line, 1}, {});
  EXPECT_DOUBLE_EQ(bleu.precisions[0], 75);
  EXPECT_DOUBLE_EQ(bleu.precisions[1], 200.0 / 3);
  EXPECT_DOUBLE_EQ(bleu.precisions[2], 50);
  EXPECT_DOUBLE_EQ(bleu.precisions[3], 50) << "no match: 1 / (2 · 1)";
  EXPECT_NEAR(bleu.brevity_penalty, 0.77880078307140487, 1e-15) << "exp(1 - 5/4)";
  EXPECT_NEAR(bleu.score, 0.77880078307140487 * 100 * 0.59460355750136053, 1e-12) << "the fourth root of 1/8";
}

TEST(Score, ChrfByHand) {
  const LinePair line{"ab", "a b c"};
  const Chrf chrf = corpus_chrf({&line, 1}, false);
  const double precision = 1, recall = (2.0 / 3 + 1.0 / 2) / 2;  // of a, b, c and ab, bc; the order 3 is not in "ab"
  EXPECT_NEAR(chrf.chrf, 100 * 5 * precision * recall / (4 * precision + recall), 1e-12);
  EXPECT_LT(chrf.chrf_plus_plus, chrf.chrf) << "no word matches";
}

TEST(Score, NothingHasTheScoreZero) {
  EXPECT_EQ(corpus_bleu({}, {}).score, 0);
  EXPECT_EQ(corpus_chrf({}, false).chrf_plus_plus, 0);
}

}  // namespace
}  // namespace vitrine::test
