// Tokenizers of GGUF files, compared with llama.cpp's ids.
#include "tokenizer/read/gguf_vocab.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>

#include "base/error.h"
#include "support/gguf_file.h"
#include "tokenizer/outside.h"
#include "tokenizer/read/gguf_pre.h"
#include "tokenizer/split.h"

namespace vitrine {
namespace {

using test::GgufFile;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr SpecialTokens kNone = SpecialTokens::none;
constexpr SpecialTokens kApply = SpecialTokens::apply;

std::unique_ptr<const Tokenizer> load(const GgufFile& file) {
  const std::string bytes = file.bytes();
  return make_gguf_tokenizer(GgufMetadata::parse(std::as_bytes(std::span(bytes)), "f"));
}

template <class E>
void expect_refused(const GgufFile& file, const char* message) {
  EXPECT_THAT([&] { load(file); }, ThrowsMessage<E>(HasSubstr(message)));
}

struct SpmVocabulary {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<float> scores = {0, 0, 0};
  std::vector<std::int32_t> types = {2, 3, 3};

  void add(const std::string& text, float score, std::int32_t type = 1) {
    texts.push_back(text);
    scores.push_back(score);
    types.push_back(type);
  }
  GgufFile file() const {
    GgufFile file;
    file.add("tokenizer.ggml.model", "llama").add("tokenizer.ggml.tokens", texts);
    return file.add("tokenizer.ggml.scores", scores).add("tokenizer.ggml.token_type", types);
  }
};

SpmVocabulary letters() {  // 3 ▁, 4 a, 5 b, 6 ab, 7 ▁ab, 8 <x>, 9 <end_of_turn>
  SpmVocabulary v;
  v.add("\u2581", -5);
  v.add("a", -6);
  v.add("b", -7);
  v.add("ab", -2);
  v.add("\u2581ab", -1);
  v.add("<x>", 0, 4);
  v.add("<end_of_turn>", 0, 4);
  return v;
}

TEST(GgufSpm, Encodes) {
  const auto tokenizer = load(letters().file());
  EXPECT_EQ(tokenizer->encode("ab", kApply), Ids({1, 7}));
  EXPECT_EQ(tokenizer->encode("ab</s>ab", kApply), Ids({1, 7, 2, 7}));  // a space after special tokens, too
  EXPECT_EQ(tokenizer->encode("ab<x>ab", kNone), Ids({7, 8, 7}));       // user-defined tokens are always recognized
  EXPECT_EQ(tokenizer->encode("", kNone), Ids());
  EXPECT_EQ(tokenizer->encode("", kApply), Ids({1}));
  EXPECT_EQ(tokenizer->decode(Ids({1, 7, 8, 7})), "ab<x> ab");
  EXPECT_EQ(tokenizer->stop_ids(), Ids({2, 9}));
  EXPECT_EQ(tokenizer->bytes(9), "");  // a control token, whatever its type in the file
}

TEST(GgufSpm, ReadsFlags) {
  GgufFile file = letters().file();
  file.add("tokenizer.ggml.add_bos_token", false).add("tokenizer.ggml.add_eos_token", true);
  file.add("tokenizer.ggml.add_space_prefix", false).add("tokenizer.ggml.eos_token_id", 8U);
  EXPECT_EQ(load(file)->encode("ab", kApply), Ids({6, 8}));
  EXPECT_EQ(load(file)->encode("ab", kNone), Ids({6}));
}

TEST(GgufSpm, StripsWhitespaceAfterTokensOfPhi3) {
  GgufFile file = letters().file();
  file.add("general.name", "Phi-3 mini");
  EXPECT_EQ(load(file)->encode("<x>  \n ab", kNone), Ids({8, 7}));
}

TEST(GgufSpm, FindsTheLongestSpecialTokenFirst) {
  SpmVocabulary v = letters();
  v.add("ba", 0, 4);
  v.add("aab", 0, 4);
  EXPECT_EQ(load(v.file())->encode("baab", kNone), Ids({3, 5, 11}));  // not ba, a, b
}

GgufFile bpe(const std::string& pre) {
  std::vector<std::string> texts;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    texts.push_back(byte_level({&c, 1}));
  }
  for (const char* text : {"ab", "abc", "<s>"}) texts.emplace_back(text);
  std::vector<std::int32_t> types(texts.size(), 1);
  types.back() = 3;
  GgufFile file;
  file.add("tokenizer.ggml.model", "gpt2").add("tokenizer.ggml.tokens", texts);
  file.add("tokenizer.ggml.merges", std::vector<std::string>{"a b"}).add("tokenizer.ggml.token_type", types);
  if (!pre.empty()) file.add("tokenizer.ggml.pre", pre.c_str());
  return file;
}

TEST(GgufBpe, Encodes) {
  const auto tokenizer = load(bpe("gpt-2"));
  EXPECT_EQ(tokenizer->encode("abc", kApply), Ids({256, 'c'}));
  EXPECT_EQ(tokenizer->encode("a\xFF", kApply), Ids({'a', 0xFF}));
  EXPECT_EQ(tokenizer->encode("<s>ab", kApply), Ids({258, 256}));
  EXPECT_EQ(tokenizer->decode(Ids({256, 0xFF, 258})), "ab\xFF");
  EXPECT_FALSE(tokenizer->bos());
  const auto llama3 = load(bpe("llama-bpe").add("tokenizer.ggml.bos_token_id", 258U));
  EXPECT_EQ(llama3->encode("abc", kApply), Ids({258, 257}));  // a word that is in the vocabulary is not merged
}

TEST(GgufBpe, LoadsEveryNamedPreTokenizer) {
  for (const char* pre :
       {"default",       "gpt-2",       "phi-2",      "llama-bpe",    "llama3",         "llama-v3",    "falcon3",
        "qwen2",         "stablelm2",   "megrez",     "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon",
        "mpt",           "olmo",        "jais",       "starcoder",    "refact",         "command-r",   "smollm",
        "codeshell",     "exaone",      "minerva-7b", "tekken",       "gpt-4o",         "llama4",      "dbrx",
        "smaug-bpe",     "chatglm-bpe", "poro-chat",  "bloom",        "gpt3-finnish",   "viking",      "roberta-bpe",
        "jina-v2-de",    "kimi-k2",     "youtu",      "jais-2",       "glm4",           "exaone-moe",  "hunyuan",
        "hunyuan-dense", "solar-open",  "minimax-m2", "afmoe"}) {
    const auto tokenizer = load(bpe(pre).add("tokenizer.ggml.bos_token_id", 258U));
    const std::string text = "It's 12345 \xC3\xA4 \xE4\xB8\x80\n\n  x ";
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, kNone)), text) << pre;
  }
}

/// Whether the pre-tokenizer leaves `text` in one piece. The vocabulary has merges that make it one token.
bool is_one_word(const char* pre, const std::string& text) {
  std::vector<std::string> texts, merges;
  for (unsigned byte = 0; byte < 256; ++byte) texts.push_back(byte_level(std::string(1, static_cast<char>(byte))));
  std::string prefix = texts[static_cast<unsigned char>(text[0])];
  for (std::size_t i = 1; i < text.size(); ++i) {
    const std::string& next = texts[static_cast<unsigned char>(text[i])];
    merges.push_back(prefix + " " + next);
    prefix += next;
    texts.push_back(prefix);
  }
  GgufFile file;
  file.add("tokenizer.ggml.model", "gpt2").add("tokenizer.ggml.pre", pre).add("tokenizer.ggml.tokens", texts);
  file.add("tokenizer.ggml.merges", merges).add("tokenizer.ggml.add_bos_token", false);
  return load(file)->encode(text, kNone).size() == 1;
}

TEST(GgufBpe, SplitsAsLlamaCpp) {
  const std::string accent = "e\xCC\x81";  // e, combining acute accent
  for (const char* pre : {"qwen2", "deepseek-r1-qwen", "kormo"}) {
    EXPECT_TRUE(is_one_word(pre, "!\n")) << pre;
    EXPECT_FALSE(is_one_word(pre, "12")) << pre;
    EXPECT_FALSE(is_one_word(pre, accent)) << pre;
  }
  for (const char* pre : {"pixtral", "midm-2.0", "falcon-h1", "lfm2"}) EXPECT_TRUE(is_one_word(pre, "123")) << pre;
  for (const char* pre : {"a.x-4.0", "mellum", "exaone4", "trillion", "granite-docling"}) {
    EXPECT_TRUE(is_one_word(pre, "1234")) << pre;
    EXPECT_FALSE(is_one_word(pre, "!\n")) << pre;
  }
  for (const char* pre : {"glm4", "jais-2"}) {
    EXPECT_TRUE(is_one_word(pre, "123")) << pre;
    EXPECT_FALSE(is_one_word(pre, "1234")) << pre;
  }
  EXPECT_TRUE(is_one_word("exaone-moe", "ab c"));
  EXPECT_TRUE(is_one_word("minimax-m2", "It's"));
  EXPECT_TRUE(is_one_word("afmoe", "123"));
  EXPECT_FALSE(is_one_word("afmoe", "1234"));
  for (const char* pre : {"hunyuan", "solar-open"}) EXPECT_FALSE(is_one_word(pre, "12")) << pre;
  EXPECT_TRUE(is_one_word("kanana2", "It's"));
  EXPECT_TRUE(is_one_word("qwen35", accent));
  EXPECT_FALSE(is_one_word("seed-coder", "!\n"));
  EXPECT_FALSE(is_one_word("seed-coder", "12"));
}

TEST(GgufVocab, RecognizesStopTokensByTheirText) {
  SpmVocabulary v = letters();
  v.add("<|end_of_text|>", 0, 3);
  v.add("<fim_pad>", 0, 1);
  EXPECT_EQ(load(v.file())->stop_ids(), Ids({2, 9, 10, 11}));
}

TEST(GgufVocab, RefusesInvalidAndUnknownFiles) {
  expect_refused<Unsupported>(bpe(""), "does not name its pre-tokenizer");
  expect_refused<Unsupported>(bpe("no-such"), "the pre-tokenizer \"no-such\" is not known");
  expect_refused<BadCheckpoint>(bpe("llama-bpe"), "expected tokenizer.ggml.bos_token_id");
  expect_refused<Unsupported>(GgufFile().add("tokenizer.ggml.model", "rwkv"), "\"rwkv\"");
  expect_refused<BadInput>(GgufFile().add("tokenizer.ggml.model", "no_vocab"), "contains no tokenizer");
  expect_refused<BadInput>(GgufFile(), "contains no tokenizer");
  expect_refused<BadCheckpoint>(GgufFile().add("tokenizer.ggml.model", "llama"), "tokenizer.ggml.tokens");
  SpmVocabulary v = letters();
  v.add("ab", 0);
  expect_refused<BadCheckpoint>(v.file(), "tokens 6 and 10 have the same text");
  v = letters();
  v.scores.pop_back();
  expect_refused<BadCheckpoint>(v.file(), "expected 10 elements in tokenizer.ggml.scores, got 9");
  v = letters();
  v.types[4] = 0;
  expect_refused<BadCheckpoint>(v.file(), "type from 1 to 6");
  v = letters();
  v.add("<0x00>", 0, 6);
  expect_refused<BadCheckpoint>(v.file(), "256 byte tokens or none");
}

TEST(GgufSpm, IgnoresIdsThatAreNotInTheVocabulary) {
  const auto load_with = [](const char* key, GgufType type, const std::string& value) {
    GgufFile file = letters().file();
    return load(file.add(key, type, value).add("tokenizer.ggml.add_eos_token", true));
  };
  const char* const bos = "tokenizer.ggml.bos_token_id";
  const std::vector<std::pair<GgufType, std::string>> bad = {
      {GgufType::u32, test::raw(10U)},
      {GgufType::u32, test::raw(0xFFFFFFFFU)},
      {GgufType::i32, test::raw(-1)},
      {GgufType::i64, test::raw(std::int64_t{-5})},
      {GgufType::u64, test::raw(std::uint64_t{1} << 63)},
      {GgufType::u8, test::raw(std::uint8_t{200})},
  };
  for (const auto& [type, value] : bad) {
    for (const char* key : {bos, "tokenizer.ggml.eos_token_id", "tokenizer.ggml.unknown_token_id",
                            "tokenizer.ggml.eot_token_id", "tokenizer.ggml.padding_token_id"}) {
      const auto tokenizer = load_with(key, type, value);
      EXPECT_EQ(tokenizer->encode("abq", kApply), Ids({1, 7, 0, 2})) << key << ": llama.cpp's defaults";
      EXPECT_EQ(tokenizer->stop_ids(), Ids({2, 9}));
      const std::string bytes = letters().file().add(key, type, value).bytes();
      const auto notes = gguf_ignored_ids(GgufMetadata::parse(std::as_bytes(std::span(bytes)), "f"), 10);
      ASSERT_EQ(notes.size(), 1U) << key;
      EXPECT_THAT(notes[0], testing::AllOf(HasSubstr(key), HasSubstr("10 tokens")));
    }
  }
  EXPECT_EQ(load_with(bos, GgufType::i16, test::raw(std::int16_t{8}))->encode("ab", kApply), Ids({8, 7, 2}));
  expect_refused<BadCheckpoint>(letters().file().add(bos, "1"), "expected an integer for tokenizer.ggml.bos_token_id");
}

TEST(GgufBpe, AddsNoTokenThatIsNotInTheVocabulary) {
  expect_refused<BadCheckpoint>(bpe("llama-bpe"), "--tokenizer");
  const auto tokenizer = load(bpe("llama-bpe").add("tokenizer.ggml.bos_token_id", 9999U));
  EXPECT_FALSE(tokenizer->bos());
  EXPECT_EQ(tokenizer->encode("a", kApply), tokenizer->encode("a", kNone));
}

/// `.inp` contains texts, each followed by a separator line, `.out` a line of ids for each text.
void expect_llama_cpp(const std::string& name) {
  const std::string base = test::outside_data("tokenizers/gguf_vocab/" + name + ".gguf");
  if (base.empty()) GTEST_SKIP() << "no gguf_vocab/" << name << ".gguf under VITRINE_DATA";
  const auto tokenizer = load_tokenizer(base);
  const std::string stem = base.substr(0, base.size() - 5);
  const std::string texts = read_all(stem + ".inp");
  std::istringstream lines(read_all(stem + ".out"));
  const std::string mark = "\n__ggml_vocab_test__\n";
  std::size_t n = 0, at = 0;
  for (std::size_t end = texts.find(mark); end != texts.npos; at = end + mark.size(), end = texts.find(mark, at)) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    std::istringstream numbers(line);
    const Ids expected{std::istream_iterator<std::int32_t>(numbers), {}};
    EXPECT_EQ(tokenizer->encode(texts.substr(at, end - at), kNone), expected) << texts.substr(at, end - at);
    ++n;
  }
  EXPECT_EQ(n, 46U);
}

TEST(GgufVocab, LlamaSpmGivesLlamaCppsIds) { expect_llama_cpp("llama-spm"); }
TEST(GgufVocab, Phi3GivesLlamaCppsIds) { expect_llama_cpp("phi-3"); }
TEST(GgufVocab, Gpt2GivesLlamaCppsIds) { expect_llama_cpp("gpt-2"); }
TEST(GgufVocab, DeepseekGivesLlamaCppsIds) { expect_llama_cpp("deepseek-llm"); }

}  // namespace
}  // namespace vitrine
