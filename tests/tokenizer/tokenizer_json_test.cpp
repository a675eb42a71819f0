// tokenizer.json, compared with Hugging Face's `tokenizers`: cases, vectors, worst-case inputs, hostile files.
#include "tokenizer/read/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "base/json.h"
#include "support/data.h"
#include "tokenizer/outside.h"

namespace vitrine {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Parses without the limits of parse_json.
Json json_of(const std::string& path) { return Json::parse(read_all(path)); }

std::string data(const std::string& path) { return test::outside_data("tokenizers/" + path); }

TEST(TokenizerJson, AgreesOnSmallCases) {
  if (data("small").empty()) GTEST_SKIP() << "VITRINE_DATA is unset";
  int n_cases = 0;
  const Json groups = json_of(data("small/cases.json"));
  for (const auto& [name, group] : groups.items()) {
    const std::string file = group["tokenizer"];
    if (!file.ends_with(".json")) continue;
    const auto tokenizer = load_tokenizer(data("small/" + file));
    for (const Json& c : group["cases"]) {
      const std::vector<std::int32_t> ids = c["ids"];
      EXPECT_EQ(tokenizer->encode(c["text"].get<std::string>(), SpecialTokens::apply), ids) << name << c["text"];
      EXPECT_EQ(tokenizer->decode(ids), c["decoded"].get<std::string>()) << name << c["text"];
      ++n_cases;
    }
  }
  EXPECT_GT(n_cases, 200);
}

TEST(TokenizerJson, AgreesOnVectors) {
  if (data("vectors.json").empty()) GTEST_SKIP() << "VITRINE_DATA is unset";
  const Json vectors = json_of(data("vectors.json"));
  for (const char* name : {"gpt2", "llama2", "qwen2", "t5"}) {
    const auto tokenizer =
        load_tokenizer(data(std::string(name) == "gpt2" ? "gpt2" : std::string(name) + "/tokenizer.json"));
    for (const Json& c : vectors[name]) {
      const std::string text = c["text"];
      // This copy of the file has plain spaces where the published one has no-break spaces.
      if (std::string(name) == "llama2" && text.find("\u00a0") != text.npos) continue;
      EXPECT_EQ(tokenizer->encode(text, SpecialTokens::apply), c["ids"].get<std::vector<std::int32_t>>())
          << name << c["text"];
    }
  }
}

/// Each text is a worst case for some rule.
TEST(TokenizerJson, NoQuadraticTime) {
  if (data("gpt2").empty()) GTEST_SKIP() << "VITRINE_DATA is unset";
  const std::vector<std::string> texts = {long_text("a"),      long_text(" "),          long_text(" ") + "x",
                                          long_text("ab"),     long_text("\u0301"),     long_text("\u0301\u0316"),
                                          long_text("7"),      long_text("\U0001F600"), long_text("\n"),
                                          long_text("'s"),     long_text("A"),          long_text("\u65e5"),
                                          long_text("\u200d"), long_text("<s"),         long_text("\xff")};
  for (const char* name : {"gpt2", "llama2/tokenizer.json", "qwen2/tokenizer.json", "t5/tokenizer.json",
                           "small/tiny_bpe_split_deepseek_tokenizer.json", "small/tiny_wordpiece_tokenizer.json"}) {
    const auto tokenizer = load_tokenizer(data(name));
    for (const std::string& text : texts) {
      const auto start = std::chrono::steady_clock::now();
      tokenizer->encode(text, SpecialTokens::apply);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      EXPECT_LT(seconds, 10) << name << " "
                             << Json(text.substr(0, 4)).dump(-1, ' ', true, Json::error_handler_t::replace);
    }
  }
}

/// A BPE of the letters a and b, with additional fields in the model and in the document.
std::string tiny(const std::string& model = "", const std::string& rest = "") {
  return R"({"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"])" + model + "}" +
         rest + "}";
}

TEST(TokenizerJson, RefusesInvalidFiles) {
  const auto refuses = [](const std::string& file, const char* message) {
    EXPECT_THAT([&] { parse_tokenizer_json(file, "F"); }, ThrowsMessage<Error>(HasSubstr(message)))
        << file.substr(0, 200);
  };
  const std::string good = tiny();
  EXPECT_EQ(parse_tokenizer_json(good, "F")->encode("abab", SpecialTokens::apply), (std::vector<std::int32_t>{2, 2}));
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_THROW(parse_tokenizer_json(good.substr(0, n), "F"), BadCheckpoint);

  const auto model = [](const std::string& fields) { return R"({"model":{"type":"BPE",)" + fields + "}}"; };
  refuses("{}", "\"model\"");
  refuses(R"({"model":{"type":"BPE","merges":[]}})", "vocabulary");
  refuses(model(R"("vocab":{"a":0,"b":0},"merges":[])"), "appears twice");
  refuses(model(R"("vocab":{"a":0,"a":1},"merges":[])"), "appears twice");
  refuses(model(R"("vocab":{"a":-1},"merges":[])"), "expected an id");
  refuses(model(R"("vocab":{"a":1.5},"merges":[])"), "expected an id");
  refuses(model(R"("vocab":{"a":4294967296},"merges":[])"), "expected an id");
  refuses(model(R"("vocab":{"a":"x"},"merges":[])"), "an id for each piece");
  refuses(model(R"("vocab":{"a":0},"merges":["a"])"), "a space between them");
  refuses(model(R"("vocab":{"a":0},"merges":["a b"])"), "not in the vocabulary");
  refuses(model(R"("vocab":{"a":0,"b":1},"merges":["a b"])"), "the result of merge 0");
  refuses(model(R"("vocab":{"a":0,"":1},"merges":[["a",""]])"), "merge");
  refuses(model(R"("vocab":{"a":0},"merges":[["a","a","a"]])"), "merge");
  refuses(model(R"("vocab":{"a":0},"merges":[{}])"), "merge");
  refuses(model(R"("vocab":[["a",0]],"merges":[])"), "object of pieces");
  refuses(R"({"model":{"type":"Unigram","unk_id":5,"vocab":[["a",0]]}})", "unk_id");
  refuses(R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a",1e999]]}})", "");
  refuses(R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}})", "piece, score");
  refuses(R"({"model":{"type":"Magic","vocab":{"a":0}}})", "\"Magic\"");
  refuses(R"({"model":{"vocab":{"a":0}}})", "no type");
  refuses(tiny(R"(,"dropout":0.1)"), "dropout");
  refuses(tiny(R"(,"new_option":1)"), "\"new_option\"");
  refuses(tiny(R"(,"fuse_unk":1)"), "fuse_unk");
  refuses(tiny("", R"(,"normalizer":{"type":"Rot13"})"), "\"Rot13\"");
  refuses(tiny("", R"(,"pre_tokenizer":{"type":"UnicodeScripts"})"), "\"UnicodeScripts\"");
  refuses(tiny("", R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"})"), "regex");
  refuses(tiny("", R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a&&[b&&c]|\\X"},"behavior":"Isolated"})"),
          "regex");
  refuses(tiny("", R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},"behavior":"Odd"})"), "\"Odd\"");
  refuses(tiny("", R"(,"pre_tokenizer":{"type":"FixedLength","length":0})"), "length");
  refuses(tiny("", R"(,"decoder":{"type":"CTC"})"), "\"CTC\"");
  refuses(tiny("", R"(,"post_processor":{"type":"Odd"})"), "\"Odd\"");
  refuses(
      tiny(
          "",
          R"(,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],)"
          R"("special_tokens":{"x":{"id":"x","ids":[3]}}})"),
      "the id 3, which no token has");
  refuses(tiny("", R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":"////"})"), "");
  refuses(tiny("", R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":"?"})"), "base64");
  refuses(tiny("", R"(,"added_tokens":[{"id":0,"content":"x"}])"), "which the vocabulary gives to");
  refuses(tiny("", R"(,"added_tokens":[{"id":9,"content":"a"}])"), "but the vocabulary gives it");
  refuses(tiny("", R"(,"added_tokens":[{"id":7,"content":"x"},{"id":7,"content":"y"}])"), "appears twice");
  refuses(tiny("", R"(,"added_tokens":[{"id":2147483647,"content":"x"}])"), "ids up to");
  refuses(tiny("", ",\"added_tokens\":" + std::string(100'000, '[')), "nested");
}

/// The trainer of `tokenizers` writes such files if a special token is also a piece. The last one is used.
TEST(TokenizerJson, AllowsRepeatedPiecesInAScoredVocabulary) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-1.0],["b",-2.0],["ab",-5.0],["a",-3.0],["ab",-1.5]]}})",
      "F");
  EXPECT_EQ(tokenizer->encode("aab", SpecialTokens::none), (Ids{4, 5}));
  EXPECT_EQ(tokenizer->encode("baba", SpecialTokens::none), (Ids{2, 5, 4}));
  EXPECT_EQ(tokenizer->piece(1), "a");
  EXPECT_EQ(tokenizer->piece(5), "ab");
  EXPECT_EQ(tokenizer->vocab_size(), 6);
}

TEST(TokenizerJson, OmitsSpecialTokensFromDecodedText) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"model":{"type":"BPE","vocab":{"a</w>":0,"b</w>":1,"a":2,"<s>":3},"merges":[]},)"
      R"("added_tokens":[{"id":3,"content":"<s>","special":true}],"decoder":{"type":"BPEDecoder","suffix":"</w>"}})",
      "F");
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{0, 3, 1}), "a b");
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{3, 0, 3, 3, 2, 3, 1, 3}), "a ab");
}

std::string repeated_part(const std::string& part, int n) {
  std::string list = part;
  for (int i = 1; i < n; ++i) list += "," + part;
  return "[" + list + "]";
}

/// Files of a few hundred bytes that would expand two letters to gigabytes, or overflow the stack.
TEST(TokenizerJson, BoundsTheGrowthOfText) {
  const std::string replace = R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"})";
  const std::string normalizer =
      tiny("", R"(,"normalizer":{"type":"Sequence","normalizers":)" + repeated_part(replace, 12) + "}");
  const auto grows = parse_tokenizer_json(normalizer, "f");
  EXPECT_THROW(grows->encode("aa", SpecialTokens::none), OutOfCapacity);
  EXPECT_NO_THROW(grows->encode("bb", SpecialTokens::none));

  const std::string decoder =
      tiny("", R"(,"decoder":{"type":"Sequence","decoders":)" + repeated_part(replace, 12) + "}");
  const auto grows_back = parse_tokenizer_json(decoder, "f");
  EXPECT_THROW(grows_back->decode(grows_back->encode("a", SpecialTokens::none)), OutOfCapacity);

  const std::string level = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";
  const auto pre_tokenizer = [](const std::string& part, int n) {
    return tiny("", R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":)" + repeated_part(part, n) + "}");
  };
  EXPECT_NO_THROW(parse_tokenizer_json(pre_tokenizer(level, 1), "f"));
  EXPECT_THROW(parse_tokenizer_json(pre_tokenizer(level, 2), "f"), Unsupported);
  EXPECT_NO_THROW(parse_tokenizer_json(pre_tokenizer(R"({"type":"Whitespace"})", 64), "f"));
  EXPECT_THROW(parse_tokenizer_json(pre_tokenizer(R"({"type":"Whitespace"})", 100'000), "f"), BadCheckpoint);
}

}  // namespace
}  // namespace vitrine
