// Explanations: their ids are those of encode, and their steps, when repeated, give the same pieces.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "tokenizer/outside.h"
#include "tokenizer/read/llama2c.h"
#include "tokenizer/read/sentencepiece.h"
#include "tokenizer/read/tokenizer_json.h"
#include "tokenizer/spm_file.h"
#include "tokenizer/vocabulary.h"

namespace vitrine {
namespace {

using Word = Explanation::Word;

/// The number of recorded items, so that a test does not pass because nothing was recorded.
struct Counts {
  std::size_t words = 0, merges = 0, candidates = 0;
};

/// Whether `symbols` become `ids`: each is a piece, its bytes, or unknown; adjacent unknown ones may be one id.
bool spell(const std::vector<std::string>& symbols, const Ids& ids, const Tokenizer& tokenizer) {
  std::size_t i = 0;
  const auto piece = [&](std::size_t at) { return at < ids.size() ? tokenizer.piece(ids[at]) : ""; };
  const auto is_unknown = [&](std::size_t at) { return piece(at) == "<unk>" || piece(at) == "[UNK]"; };
  for (const std::string& symbol : symbols) {
    if (piece(i) == symbol) {
      ++i;
    } else if (is_unknown(i)) {
      ++i;
    } else if (piece(i) == fmt::format("<0x{:02X}>", static_cast<unsigned char>(symbol[0]))) {
      for (const char byte : symbol) {
        if (piece(i++) != fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte))) return false;
      }
    } else if (i == 0 || !is_unknown(i - 1)) {
      return false;
    }
  }
  return i == ids.size();
}

void check_merges(const Word& word, const Tokenizer& tokenizer) {
  std::map<std::size_t, std::string> symbols;
  for (const std::string& symbol : word.symbols) symbols.emplace(symbols.size(), symbol);
  for (const Explanation::Merge& m : word.merges) {
    const auto left = symbols.find(m.place);
    ASSERT_NE(left, symbols.end());
    const auto right = std::next(left);
    ASSERT_NE(right, symbols.end());
    EXPECT_EQ(left->second, m.left);
    EXPECT_EQ(right->second, m.right);
    EXPECT_EQ(m.left + m.right, m.result);
    left->second = m.result;
    symbols.erase(right);
  }
  std::vector<std::string> last;
  for (const auto& [place, symbol] : symbols) last.push_back(symbol);
  EXPECT_TRUE(spell(last, word.ids, tokenizer))
      << testing::PrintToString(last) << " became " << testing::PrintToString(word.ids);
}

/// The chosen candidates are contiguous, and no other candidate is better.
void check_candidates(const Word& word, const Tokenizer& tokenizer) {
  std::size_t end = 0;
  std::vector<std::string> texts;
  Ids ids;
  double sum = 0;
  for (const Explanation::Candidate& c : word.candidates) {
    if (!c.chosen) continue;
    ASSERT_EQ(c.begin, end);
    end = c.end;
    sum += c.score;
    if (c.end <= word.text.text.size()) texts.push_back(word.text.text.substr(c.begin, c.end - c.begin));
    ids.push_back(c.id);
    for (const Explanation::Candidate& other : word.candidates) {
      if (word.rule == Word::Rule::best_sum) {
        EXPECT_TRUE(other.end != c.end || other.best <= c.best);
      } else if (other.begin == c.begin) {
        EXPECT_LE(other.end, c.end);
      }
    }
    EXPECT_NEAR(c.best, sum, 1e-3 * std::abs(sum));
  }
  if (word.rule == Word::Rule::longest_first) {
    const bool is_unknown = word.ids.size() == 1 && tokenizer.piece(word.ids[0]) == "[UNK]";
    EXPECT_TRUE(is_unknown || ids == word.ids);
    return;
  }
  EXPECT_EQ(end, word.text.n_bytes);
  EXPECT_TRUE(spell(texts, word.ids, tokenizer)) << testing::PrintToString(texts);
}

void check(const Tokenizer& tokenizer, const std::string& text, SpecialTokens policy, Counts& counts) {
  const Explanation e = tokenizer.explain(text, policy, 1'000'000);
  const Ids ids = tokenizer.encode(text, policy);
  ASSERT_EQ(e.ids, ids);
  ASSERT_FALSE(e.is_cut);
  Ids joined;
  for (const Explanation::Step& step : e.steps) {
    if (const auto* token = std::get_if<Explanation::Token>(&step)) joined.push_back(token->id);
    const auto* word = std::get_if<Word>(&step);
    if (word == nullptr) continue;
    joined.insert(joined.end(), word->ids.begin(), word->ids.end());
    const bool by_merges = word->rule == Word::Rule::merges_by_rank || word->rule == Word::Rule::merges_by_score;
    if (by_merges) check_merges(*word, tokenizer);
    if (!word->candidates.empty()) check_candidates(*word, tokenizer);
    ++counts.words;
    counts.merges += word->merges.size();
    counts.candidates += word->candidates.size();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(joined, ids);
}

class Explain : public testing::TestWithParam<const char*> {};

TEST_P(Explain, ThousandsOfLines) {
  OUTSIDE_DATA_OR_SKIP(path, GetParam());
  const auto tokenizer = load_tokenizer(path);
  std::ifstream text(test::goldens() + "/tokenizers/text.jsonl");
  Counts counts;
  int n_lines = 0;
  for (std::string line; std::getline(text, line) && n_lines < 3000; ++n_lines) {
    const auto policy = n_lines % 2 == 0 ? SpecialTokens::apply : SpecialTokens::none;
    check(*tokenizer, Json::parse(line).get<std::string>(), policy, counts);
    if (HasFailure()) FAIL() << "line " << n_lines << ": " << line;
  }
  EXPECT_EQ(n_lines, 3000);
  EXPECT_GT(counts.merges + counts.candidates, 10'000U);
}

INSTANTIATE_TEST_SUITE_P(
    All, Explain,
    testing::Values("tokenizers/gpt2", "tokenizers/llama2/tokenizer.json", "tokenizers/llama2/tokenizer.model",
                    "tokenizers/qwen2/tokenizer.json", "tokenizers/t5/tokenizer.json",
                    "tokenizers/gemma/tokenizer.model", "tokenizers/llama3/tokenizer.model",
                    "tokenizers/mistral/tokenizer.model", "tokenizers/gguf_vocab/gpt-2.gguf",
                    "tokenizers/gguf_vocab/llama-spm.gguf", "tokenizers/gguf_vocab/deepseek-llm.gguf",
                    "tokenizers/small/tiny_wordpiece_tokenizer.json", "tokenizers/small/tiny_unigram_tokenizer.json",
                    "tokenizers/small/tiny_bpe_falcon_seq_tokenizer.json", "tokenizers/small/tiny_spm.model",
                    "tokenizers/small/tiny_spm_bytefallback.model", "models/stories260K/tok512.bin"),
    [](const auto& name) {
      std::string words = std::string(name.param).substr(std::string(name.param).find('/') + 1);
      std::replace_if(
          words.begin(), words.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
      return words;
    });

/// BPE of a and b with normalizers, pre-tokenizers and an added token.
constexpr const char* kTiny = R"({"added_tokens":[{"id":9,"content":"<x>","special":true}],
  "normalizer":{"type":"Sequence","normalizers":[{"type":"Lowercase"},{"type":"NFC"}]},
  "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Digits"}]},
  "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<x>"}},{"Sequence":{"id":"A"}}],
    "special_tokens":{"<x>":{"ids":[9]}}},
  "model":{"type":"BPE","unk_token":"u","vocab":{"a":0,"b":1,"ab":2,"aba":3,"u":4},"merges":["a b","ab a"]}})";

TEST(Explanations, RecordEveryStep) {
  const auto tokenizer = parse_tokenizer_json(kTiny, "F");
  const Explanation e = tokenizer->explain("aBa b1<x>ab", SpecialTokens::apply);
  ASSERT_EQ(e.steps.size(), 13U);
  const auto token = [&](std::size_t i) { return std::get<Explanation::Token>(e.steps[i]); };
  const auto word = [&](std::size_t i) { return std::get<Word>(e.steps[i]); };
  EXPECT_EQ(token(0).id, 9);
  EXPECT_EQ(token(0).from, Explanation::Token::From::policy);
  EXPECT_EQ(std::get<Explanation::Part>(e.steps[1]).text.text, "aBa b1");
  EXPECT_EQ(std::get<Explanation::Normalized>(e.steps[2]).by, "Lowercase") << "NFC changes nothing";
  EXPECT_EQ(std::get<Explanation::Normalized>(e.steps[2]).text.text, "aba b1");
  EXPECT_EQ(std::get<Explanation::Cut>(e.steps[3]).by, "WhitespaceSplit");
  EXPECT_EQ(std::get<Explanation::Cut>(e.steps[3]).words.size(), 2U);
  EXPECT_EQ(std::get<Explanation::Cut>(e.steps[4]).by, "Digits");
  EXPECT_EQ(std::get<Explanation::Cut>(e.steps[4]).words.size(), 3U);
  EXPECT_EQ(word(5).text.text, "aba");
  EXPECT_EQ(word(5).symbols, (std::vector<std::string>{"a", "b", "a"}));
  ASSERT_EQ(word(5).merges.size(), 2U);
  EXPECT_EQ(word(5).merges[0].result, "ab");
  EXPECT_EQ(word(5).merges[1].order, 1);
  EXPECT_EQ(word(5).ids, Ids({3}));
  EXPECT_EQ(word(7).symbols, (std::vector<std::string>{"u"})) << "unknown";
  EXPECT_EQ(token(8).from, Explanation::Token::From::text);
  EXPECT_EQ(word(12).ids, Ids({2}));
  EXPECT_EQ(e.ids, Ids({9, 3, 1, 4, 9, 2}));
}

/// One tokenizer of each kind.
std::vector<std::unique_ptr<const Tokenizer>> small_tokenizers() {
  std::vector<std::unique_ptr<const Tokenizer>> all;
  all.push_back(parse_tokenizer_json(kTiny, "F"));
  all.push_back(parse_tokenizer_json(
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-2],["b",-3],["ab",-4],["aba",-9]]}})", "F"));
  all.push_back(parse_tokenizer_json(
      R"({"pre_tokenizer":{"type":"Whitespace"},"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"ab":2,"##b":3}}})",
      "F"));
  all.push_back(parse_tokenizer_json(R"({"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0,"ab":1}}})", "F"));
  const std::string llama2c = llama2c_file(with_bytes({{" ", 0}, {"a", 0}, {"b", 0}, {"ab", -1}, {" ab", -2}}));
  all.push_back(parse_llama2c_tokenizer(as_bytes(llama2c), "F"));
  for (const int kind : {1, 2}) {
    spm::Model model;
    model.kind = kind;
    model.pieces = {{"\u2581", -5}, {"a", -6}, {"b", -7}, {"ab", -2}, {"aba", -4}, {"<go>", 0, spm::kUser}};
    if (kind == 2) model.pieces.push_back({"bb", -1, spm::kUnused});
    const std::string file = model.file();
    all.push_back(make_sentencepiece_tokenizer(parse_sentencepiece_model(as_bytes(file), "F")));
  }
  return all;
}

TEST(Explanations, AgreeWithTokenizersOfEveryKind) {
  const std::vector<std::string> texts = {
      "", "a", "ab aba", "<go>ab<x>a", "\xFFza\xE2\x82", "xyz ab", "<s>ab</s>", std::string("a\0b", 3), "\u65e5 abab"};
  for (const auto& tokenizer : small_tokenizers()) {
    Counts counts;
    for (const std::string& text : texts) {
      check(*tokenizer, text, SpecialTokens::apply, counts);
      check(*tokenizer, text, SpecialTokens::none, counts);
      ASSERT_FALSE(HasFailure()) << text << " of " << tokenizer->piece(tokenizer->vocab_size() > 4 ? 4 : 0);
    }
    EXPECT_GT(counts.words, 10U);
  }
}

/// With any limit, the first steps and all ids are recorded.
TEST(Explanations, AreBounded) {
  std::string text = "ab<go> aba<x>\xFF ";
  for (int i = 0; i < 6; ++i) text += text;
  std::string large;
  while (large.size() < 100'000) large += text;
  for (const auto& tokenizer : small_tokenizers()) {
    const Ids ids = tokenizer->encode(text, SpecialTokens::apply);
    std::size_t last = 0;
    for (std::size_t limit = 0; limit < 60; ++limit) {
      const Explanation e = tokenizer->explain(text, SpecialTokens::apply, limit);
      EXPECT_EQ(e.ids, ids);
      EXPECT_LE(e.steps.size(), limit);
      EXPECT_GE(e.steps.size(), last);
      last = e.steps.size();
    }
    const Explanation e = tokenizer->explain(large, SpecialTokens::apply, 1000);
    EXPECT_EQ(e.ids, tokenizer->encode(large, SpecialTokens::apply));
    EXPECT_EQ(e.is_cut, e.ids.size() > 1) << "for one model the whole text is one unknown word";
    EXPECT_LE(e.steps.size(), 1000U);
  }
}

}  // namespace
}  // namespace vitrine
