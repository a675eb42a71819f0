// WordPiece and Unigram in GGUF files: the ids of the tokenizer.json that they were written from, the spelling of
// llama.cpp's converter, and what is refused.
#include "tokenizer/read/gguf_document.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/mapped_file.h"
#include "base/temp_folder.h"
#include "support/data.h"
#include "tokenizer/read/gguf_vocab.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::test {
namespace {

Json special(std::uint64_t id, const std::string& text) {
  return {{"id", id},        {"content", text}, {"single_word", false}, {"lstrip", text == "<mask>"},
          {"rstrip", false}, {"special", true}, {"normalized", false}};
}

Json token(const char* name, std::uint64_t type = 0) { return {{"SpecialToken", {{"id", name}, {"type_id", type}}}}; }
Json sequence(const char* name, std::uint64_t type = 0) { return {{"Sequence", {{"id", name}, {"type_id", type}}}}; }
Json ids_of(const char* name, std::uint64_t id) {
  return {{"id", name}, {"ids", Json::array({id})}, {"tokens", Json::array({name})}};
}

Json wordpiece() {
  const std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a",  "cat",    "##s",
                                           "##a",   "##t",   "eat",   "##ing", "!",      "東", "\u2581", "nai",
                                           "##ve",  "##é",   "naïve", "É",     "e",      "E",  "##E"};
  Json vocab = Json::object(), added = Json::array();
  for (std::size_t i = 0; i < pieces.size(); ++i) vocab[pieces[i]] = static_cast<std::uint64_t>(i);
  for (std::size_t i = 0; i < 5; ++i) added.push_back(special(i, pieces[i]));
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {token("[CLS]"), sequence("A"), token("[SEP]")}},
            {"pair", {token("[CLS]"), sequence("A"), token("[SEP]"), sequence("B", 1), token("[SEP]", 1)}},
            {"special_tokens", {{"[CLS]", ids_of("[CLS]", 2)}, {"[SEP]", ids_of("[SEP]", 3)}}}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100U},
            {"vocab", vocab}}}};
}

const std::string kSpace = "\u2581";

Json metaspace() { return {{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", "always"}}; }

Json unigram() {
  const std::vector<std::pair<std::string, double>> pieces = {
      {"<s>", 0},     {"<pad>", 0},         {"</s>", 0}, {"<unk>", 0},  {kSpace, -2}, {kSpace + "a", -3.5},
      {"cat", -4.25}, {kSpace + "cat", -4}, {"s", -3},   {"at", -3.75}, {"c", -5},    {"a", -4.5},
      {"t", -4.5},    {"<mask>", 0}};
  Json vocab = Json::array(), added = Json::array();
  for (const auto& [piece, score] : pieces) vocab.push_back(Json::array({piece, score}));
  for (const std::uint64_t id : {0U, 1U, 2U, 3U, 13U}) added.push_back(special(id, pieces[id].first));
  return {{"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Sequence"}, {"pretokenizers", Json::array({{{"type", "WhitespaceSplit"}}, metaspace()})}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {token("<s>"), sequence("A"), token("</s>")}},
            {"pair", {token("<s>"), sequence("A"), token("</s>"), token("</s>"), sequence("B"), token("</s>")}},
            {"special_tokens", {{"<s>", ids_of("<s>", 0)}, {"</s>", ids_of("</s>", 2)}}}}},
          {"decoder", metaspace()},
          {"model", {{"type", "Unigram"}, {"unk_id", 3U}, {"byte_fallback", false}, {"vocab", vocab}}}};
}

const std::vector<std::string> kTexts = {"",
                                         "a cat eats",
                                         "  A  CATS!  \t cat\n",
                                         "naïve NAÏVE nai\u0308ve É e\u0301",
                                         "東cat東",
                                         "\u2581 a",
                                         "a [MASK] cat[SEP]<mask> s</s>",
                                         "x\x01y \xFF cat",
                                         std::string(101, 'a'),
                                         std::string(100, 'a'),
                                         "🙂 cats 🙂🙂",
                                         "[PAD26] [unused] <pad>"};

struct Written {
  explicit Written(const Json& json, std::int64_t n_types = 2) {
    write_file(folder / "tokenizer.json", json.dump());
    keys = gguf_tokenizer_keys(folder / "tokenizer.json",
                               {static_cast<std::int64_t>(json["model"]["vocab"].size()) + 3, {}, {}, false, n_types});
    original = load_tokenizer(folder / "tokenizer.json");
    write({});
  }
  /// Writes the file with further keys.
  void write(const GgufKeys& more) {
    GgufWriter writer(folder / "a.gguf");
    GgufKeys all = keys;
    all.add(more);
    writer.begin(all);
    writer.commit();
    tokenizer = load_tokenizer(folder / "a.gguf");
  }

  const TempFolder folder;
  GgufKeys keys;
  std::unique_ptr<const Tokenizer> original, tokenizer;
};

void expect_same(const Written& w, const std::string& what) {
  for (const std::string& text : kTexts) {
    for (const SpecialTokens policy : {SpecialTokens::apply, SpecialTokens::none}) {
      EXPECT_EQ(w.tokenizer->encode(text, policy), w.original->encode(text, policy)) << what << ": " << text;
    }
    for (const std::string& other : kTexts) {
      const PairEncoding ours = w.tokenizer->encode_pair(text, other, SpecialTokens::apply, 40),
                         theirs = w.original->encode_pair(text, other, SpecialTokens::apply, 40);
      EXPECT_EQ(ours.ids, theirs.ids) << what << ": " << text << ", " << other;
      EXPECT_EQ(ours.types, theirs.types) << what << ": " << text << ", " << other;
    }
  }
  const auto ids = w.original->encode("a cat eats naive", SpecialTokens::apply);
  EXPECT_EQ(w.tokenizer->decode(ids), w.original->decode(ids)) << what;
}

std::string refusal_of(const Json& json) {
  return message_of<Unsupported>([&] { Written w(json); });
}

TEST(GgufDocument, WordPieceKeepsItsIds) {
  for (const bool lowercase : {true, false}) {
    for (const Json& accents : {Json(nullptr), Json(true), Json(false)}) {
      Json json = wordpiece();
      json["normalizer"]["lowercase"] = lowercase;
      json["normalizer"]["strip_accents"] = accents;
      expect_same(Written(json), accents.dump() + (lowercase ? ", lowercase" : ""));
    }
  }
}

TEST(GgufDocument, WordPieceIsSpelledAsLlamaCppExpects) {
  const Written w(wordpiece());
  const auto file = MappedFile::open(w.folder / "a.gguf");
  const GgufMetadata metadata = GgufMetadata::parse(file->bytes(), file->path());
  const auto tokens = metadata.strings("tokenizer.ggml.tokens").value();
  EXPECT_EQ(tokens[2], "[CLS]");
  EXPECT_EQ(tokens[6], "▁cat");
  EXPECT_EQ(tokens[7], "s");
  EXPECT_EQ(tokens[14], "▁▁");
  EXPECT_EQ(metadata.integer("tokenizer.ggml.seperator_token_id"), 3);
  EXPECT_EQ(metadata.integers("tokenizer.ggml.token_type").value()[0], 3);
}

TEST(GgufDocument, WordPieceThatLlamaCppLacksIsRefused) {
  const auto changed = [](const char* pointer, const Json& value) {
    Json json = wordpiece();
    json[Json::json_pointer(pointer)] = value;
    return refusal_of(json);
  };
  EXPECT_THAT(changed("/model/max_input_chars_per_word", 50U), testing::HasSubstr("max_input_chars_per_word"));
  EXPECT_THAT(changed("/normalizer/clean_text", false), testing::HasSubstr("clean_text"));
  EXPECT_THAT(changed("/normalizer/handle_chinese_chars", false), testing::HasSubstr("handle_chinese_chars"));
  EXPECT_THAT(changed("/normalizer", {{"type", "Lowercase"}}), testing::HasSubstr("BertNormalizer"));
  EXPECT_THAT(changed("/pre_tokenizer", {{"type", "Whitespace"}}), testing::HasSubstr("BertPreTokenizer"));
  EXPECT_THAT(changed("/post_processor", nullptr), testing::HasSubstr("template"));
  EXPECT_THAT(changed("/post_processor/pair/3/Sequence/type_id", 0U), testing::HasSubstr("type 0"));
  EXPECT_THAT(changed("/model/vocab/##▁x", 23U), testing::HasSubstr("spell alike"));
}

TEST(GgufDocument, UnigramKeepsItsIds) {
  expect_same(Written(unigram()), "words");
  Json json = unigram();
  for (const char* scheme : {"always", "first", "never"}) {
    json["pre_tokenizer"] = metaspace();
    json["pre_tokenizer"]["prepend_scheme"] = json["decoder"]["prepend_scheme"] = scheme;
    json["normalizer"] = nullptr;
    expect_same(Written(json), scheme);
    json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
    expect_same(Written(json), std::string(scheme) + ", without further spaces");
  }
}

TEST(GgufDocument, UnigramWithoutAKeyOfOursHasLlamaCppsSpaces) {
  Json json = unigram();
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", Json::array({{{"type", "WhitespaceSplit"}}, metaspace()})}};
  Written w(json);
  const auto file = MappedFile::open(w.folder / "a.gguf");
  const GgufMetadata metadata = GgufMetadata::parse(file->bytes(), file->path());
  GgufKeys keys;
  for (const auto& [key, value] : metadata.values()) {
    if (key != "tokenizer.ggml.remove_extra_whitespaces") keys.add(key, value);
  }
  w.keys = keys;
  w.write({});
  const auto ids = [&](const std::string& text) { return w.tokenizer->encode(text, SpecialTokens::none); };
  EXPECT_EQ(ids("a  cat"), (std::vector<std::int32_t>{5, 4, 7}));
  EXPECT_EQ(ids(" a"), (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(ids("  "), (std::vector<std::int32_t>{4, 4}));
}

TEST(GgufDocument, UnigramThatLlamaCppLacksIsRefused) {
  const auto changed = [](const char* pointer, const Json& value) {
    Json json = unigram();
    json[Json::json_pointer(pointer)] = value;
    return refusal_of(json);
  };
  EXPECT_THAT(changed("/normalizer", {{"type", "NFKC"}}), testing::HasSubstr("the normalizer NFKC"));
  EXPECT_THAT(changed("/pre_tokenizer", {{"type", "Whitespace"}}), testing::HasSubstr("pre-tokenizer"));
  EXPECT_THAT(changed("/model/byte_fallback", true), testing::HasSubstr("byte_fallback"));
  EXPECT_THAT(changed("/added_tokens/4/single_word", true), testing::HasSubstr("single_word"));
}

TEST(GgufDocument, MalformedKeysAreErrors) {
  const auto error = [](const Json& json, const std::function<void(GgufKeys&)>& change, const char* without) {
    Written w(json);
    const auto file = MappedFile::open(w.folder / "a.gguf");
    const GgufMetadata metadata = GgufMetadata::parse(file->bytes(), file->path());
    GgufKeys keys;
    for (const auto& [key, value] : metadata.values()) {
      if (key != without) keys.add(key, value);
    }
    change(keys);
    w.keys = keys;
    return message_of<Error>([&] { w.write({}); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(error(
                  wordpiece(), [](GgufKeys&) {}, "tokenizer.ggml.unknown_token_id"),
              HasSubstr("unknown_token_id"));
  EXPECT_THAT(
      error(
          wordpiece(), [](GgufKeys& k) { k.add("tokenizer.ggml.bos_token_id", 900U); }, "tokenizer.ggml.bos_token_id"),
      HasSubstr("bos_token_id"));
  EXPECT_THAT(error(
                  wordpiece(), [](GgufKeys& k) { k.add("tokenizer.ggml.add_bos_token", false); },
                  "tokenizer.ggml.add_bos_token"),
              HasSubstr("add_bos_token"));
  EXPECT_THAT(error(
                  unigram(), [](GgufKeys&) {}, "tokenizer.ggml.scores"),
              HasSubstr("tokenizer.ggml.scores"));
  EXPECT_THAT(error(
                  unigram(), [](GgufKeys& k) { k.add("tokenizer.ggml.precompiled_charsmap", 7U); }, ""),
              HasSubstr("precompiled_charsmap"));
  EXPECT_THAT(error(
                  unigram(), [](GgufKeys& k) { k.add(kGgufPrependScheme, "last"); }, ""),
              HasSubstr("last"));
  EXPECT_THAT(error(
                  unigram(), [](GgufKeys& k) { k.add(kGgufNormalized, std::vector<std::int32_t>{99}); }, ""),
              HasSubstr("99"));
}

}  // namespace
}  // namespace vitrine::test
