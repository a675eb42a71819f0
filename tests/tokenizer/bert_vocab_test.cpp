// BERT's vocab.txt, and pairs of texts.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/outside.h"
#include "tokenizer/read/tokenizer_folder.h"
#include "tokenizer/read/tokenizer_json.h"

namespace vitrine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kLines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##able\nÉ\ne\n\n京\n[MASK]\r\nUn";

std::unique_ptr<const Tokenizer> parse_vocab_txt(const char* vocab, const char* config = "{}") {
  TokenizerFiles files;
  files.config = parse_json(config, "tokenizer_config.json");
  const TokenizerFolder folder = make_tokenizer_folder("", "vocab.txt", std::move(files), false);
  return make_json_tokenizer(folder_document(folder, std::as_bytes(std::span(std::string_view(vocab))), ""),
                             "vocab.txt");
}

TEST(BertVocab, NumbersLines) {
  const auto tokenizer = parse_vocab_txt(kLines);
  EXPECT_EQ(tokenizer->vocab_size(), 12);
  EXPECT_EQ(tokenizer->piece(8), "");
  EXPECT_EQ(tokenizer->piece(10), "[MASK]");
  EXPECT_EQ(tokenizer->encode("Unable É京x[MASK]", SpecialTokens::apply), (Ids{2, 4, 5, 7, 9, 1, 10, 3}));
  EXPECT_EQ(tokenizer->encode("unable", SpecialTokens::none), (Ids{4, 5}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 4, 5, 7, 3, 0}), "unable e");
}

TEST(BertVocab, ReadsOptions) {
  EXPECT_EQ(parse_vocab_txt(kLines, R"({"do_lower_case":false})")->encode("Un É", SpecialTokens::none), (Ids{11, 6}));
  EXPECT_EQ(
      parse_vocab_txt(kLines, R"({"do_lower_case":false,"strip_accents":true})")->encode("é", SpecialTokens::none),
      Ids{7});
  EXPECT_EQ(parse_vocab_txt(kLines, R"({"strip_accents":false})")->encode("é", SpecialTokens::none), Ids{1});
  EXPECT_EQ(parse_vocab_txt(kLines, R"({"tokenize_chinese_chars":false})")->encode("京e", SpecialTokens::none), Ids{1});
  EXPECT_EQ(
      parse_vocab_txt(kLines, R"({"cls_token":"un","sep_token":{"content":"e"}})")->encode("", SpecialTokens::apply),
      (Ids{4, 7}));
}

TEST(BertVocab, IsFoundInFolders) {
  const test::TempFolder folder;
  test::write_file(folder / "vocab.txt", kLines);
  EXPECT_EQ(load_tokenizer(folder.path())->encode("Un", SpecialTokens::none), Ids{4});
  test::write_file(folder / "tokenizer_config.json", R"({"do_lower_case":false})");
  EXPECT_EQ(load_tokenizer(folder.path())->encode("Un", SpecialTokens::none), Ids{11});
  EXPECT_EQ(load_tokenizer(folder / "vocab.txt")->encode("Un", SpecialTokens::none), Ids{11});
  for (const std::string& path : {folder.path(), folder / "vocab.txt"}) EXPECT_EQ(tokenizer_files(path).size(), 2U);
  test::write_file(folder / "tokenizer_config.json", "[");
  EXPECT_THAT([&] { load_tokenizer(folder.path()); },
              ThrowsMessage<BadCheckpoint>(HasSubstr("[" + (folder / "tokenizer_config.json") + "]")));
}

TEST(BertVocab, RefusesMalformedFiles) {
  const auto refusal = [](const char* vocab, const char* config) {
    return test::message_of<Error>([&] { parse_vocab_txt(vocab, config); });
  };
  EXPECT_EQ(refusal("", "{}"), "[vocab.txt] expected the unk_token \"[UNK]\" in the vocabulary, got none");
  EXPECT_EQ(refusal("[UNK]\n[CLS]\n[SEP]\na\na\n", "{}"), "[vocab.txt] lines 4 and 5 have the same piece \"a\"");
  EXPECT_EQ(refusal("[UNK]\n\xFF", "{}"), "[vocab.txt] expected UTF-8, got other bytes");
  EXPECT_EQ(refusal("[UNK]\n[CLS]\n", "{}"),
            "[vocab.txt] expected the sep_token \"[SEP]\" in the vocabulary, got none");
  EXPECT_THAT(refusal(kLines, R"({"do_lower_case":"no"})"),
              AllOf(HasSubstr("[tokenizer_config.json]"), HasSubstr("do_lower_case")));
  EXPECT_THAT(refusal(kLines, R"({"unk_token":7})"), HasSubstr("unk_token"));
  EXPECT_THAT(refusal(kLines, "[]"), HasSubstr("[tokenizer_config.json]"));
  EXPECT_THAT(
      refusal(kLines, R"({"tokenizer_class":"BertJapaneseTokenizer"})"),
      HasSubstr("[tokenizer_config.json] tokenizer_class: vocab.txt of a BertJapaneseTokenizer is not supported"));
  EXPECT_EQ(refusal(kLines, R"({"tokenizer_class":"BertTokenizerFast"})"), "");
}

/// A tokenizer of the words a, b and the special tokens [C], [S] with this post-processor.
std::unique_ptr<const Tokenizer> with_post_processor(const std::string& json) {
  return parse_tokenizer_json(
      R"({"model":{"type":"WordLevel","unk_token":"?","vocab":{"[C]":0,"[S]":1,"a":2,"b":3,"?":4}},
          "pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":)" +
          json + "}",
      "f");
}

void expect_pair(const std::string& json, SpecialTokens policy, const Ids& ids, const Ids& types) {
  const PairEncoding pair = with_post_processor(json)->encode_pair("a a", "b", policy);
  EXPECT_EQ(pair.ids, ids) << json;
  EXPECT_EQ(pair.types, types) << json;
}

/// A template with a pair of these entries.
std::string with_pair(const std::string& pair, const char* tokens = R"({"[C]":{"ids":[0]},"[S]":{"ids":[1]}})") {
  return R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}],"special_tokens":)" +
         std::string(tokens) + R"(,"pair":)" + pair + "}";
}

constexpr const char* kPair =
    R"([{"Sequence":{"id":"B","type_id":2}},{"SpecialToken":{"id":"[S]","type_id":3}},{"Sequence":{"id":"A","type_id":1}}])";

TEST(EncodePair, FollowsThePostProcessor) {
  const auto apply = SpecialTokens::apply, none = SpecialTokens::none;
  const char* const bert = R"({"type":"BertProcessing","cls":["[C]",0],"sep":["[S]",1]})";
  const char* const roberta = R"({"type":"RobertaProcessing","cls":["[C]",0],"sep":["[S]",1]})";
  expect_pair(bert, apply, {0, 2, 2, 1, 3, 1}, {0, 0, 0, 0, 1, 1});
  expect_pair(bert, none, {2, 2, 3}, {0, 0, 1});
  expect_pair(roberta, apply, {0, 2, 2, 1, 1, 3, 1}, {0, 0, 0, 0, 0, 0, 0});
  expect_pair(roberta, none, {2, 2, 3}, {0, 0, 0});
  expect_pair(with_pair(kPair), apply, {3, 1, 2, 2}, {2, 3, 1, 1});
  expect_pair(with_pair(kPair), none, {3, 2, 2}, {2, 1, 1});
  expect_pair(R"({"type":"ByteLevel"})", apply, {2, 2, 3}, {0, 0, 0});
  expect_pair(R"({"type":"Sequence","processors":[{"type":"ByteLevel"},)" + std::string(bert) + "]}", apply,
              {0, 2, 2, 1, 3, 1}, {0, 0, 0, 0, 1, 1});
}

TEST(EncodePair, NeedsATemplate) {
  for (const std::string& json :
       {std::string("null"), with_pair("null"), with_pair("[]"), with_pair(R"([{"Sequence":{"id":"A","type_id":0}}])"),
        R"({"type":"Sequence","processors":[)" + with_pair(kPair) + "," + with_pair(kPair) + "]}"}) {
    const auto tokenizer = with_post_processor(json);
    EXPECT_THAT([&] { tokenizer->encode_pair("a", "b", SpecialTokens::apply); },
                ThrowsMessage<Unsupported>(HasSubstr("[tokenizer] pairs of texts are not supported")))
        << json;
  }
}

TEST(EncodePair, RefusesMalformedTemplates) {
  for (const std::string& json :
       {with_pair("1"), with_pair("[1]"), with_pair("[{}]"), with_pair(R"([{"Sequence":{"id":"A","type_id":-1}}])"),
        with_pair(R"([{"Sequence":{"id":"A","type_id":99999999}}])"), with_pair(R"([{"Sequence":{"type_id":0}}])"),
        with_pair(R"([{"SpecialToken":{"id":"[X]","type_id":0}}])"), with_pair(kPair, R"({"[S]":{"ids":[9]}})"),
        with_pair(kPair, R"({"[S]":{"ids":[-1]}})")}) {
    EXPECT_THROW(with_post_processor(json), BadCheckpoint) << json;
  }
}

}  // namespace
}  // namespace vitrine
