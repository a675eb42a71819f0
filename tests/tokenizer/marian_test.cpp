// Marian's folders: language codes, special tokens, two vocabularies, malformed files.
#include "tokenizer/read/marian.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/outside.h"
#include "tokenizer/spm_file.h"

namespace vitrine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kVocab =
    R"({"</s>":0,"<unk>":1,"▁a":2,"▁b":3,"b":4,"▁":5,">>fra<<":6,"é":7,"▁x":8,"<pad>":9,"éb":10})";

class Marian : public testing::Test {
 protected:
  Marian() {
    spm::Model source, target;
    source.kind = target.kind = 1;
    source.remove_extra = target.remove_extra = true;
    source.pieces = {{"▁a", -1}, {"▁b", -2}, {"b", -3}, {"▁", -4}, {"q", -5}};
    target.pieces = {{"▁x", -1}, {"b", -3}, {"▁", -4}};
    write("source.spm", source.file());
    write("target.spm", target.file());
    write("vocab.json", kVocab);
  }
  void write(const std::string& name, const std::string& content) const { test::write_file(folder_ / name, content); }
  std::unique_ptr<const Tokenizer> load() const { return load_tokenizer(folder_.path()); }
  template <class E>
  void expect_refused(const char* file, const char* message) const {
    EXPECT_THAT([&] { load(); }, ThrowsMessage<E>(AllOf(HasSubstr("[" + (folder_ / file) + "]"), HasSubstr(message))));
  }
  test::TempFolder folder_;
};

TEST_F(Marian, EncodesSourceAndTarget) {
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->vocab_size(), 11);
  EXPECT_EQ(tokenizer->encode("a b", SpecialTokens::apply), (Ids{2, 3, 0}));
  EXPECT_EQ(tokenizer->encode("a b", SpecialTokens::none), (Ids{2, 3}));
  EXPECT_EQ(tokenizer->encode("", SpecialTokens::apply), Ids{0});
  EXPECT_EQ(tokenizer->target().encode("x b", SpecialTokens::apply), (Ids{8, 5, 4, 0}));
  EXPECT_EQ(&tokenizer->target().target(), &tokenizer->target());
  EXPECT_EQ(tokenizer->target().stop_ids(), Ids{0});
}

TEST_F(Marian, UnknownPiecesAreLookedUpAsText) {
  const auto tokenizer = load();
  // "é" and "éé" are unknown to source.spm; vocab.json has the first. It does not have "q", a piece of source.spm.
  EXPECT_EQ(tokenizer->encode("aé", SpecialTokens::none), (Ids{2, 7}));
  EXPECT_EQ(tokenizer->encode("aéé", SpecialTokens::none), (Ids{2, 1}));
  EXPECT_EQ(tokenizer->encode("aéb", SpecialTokens::none), (Ids{2, 7, 4}));
  EXPECT_EQ(tokenizer->encode("aq", SpecialTokens::none), (Ids{2, 1}));
}

TEST_F(Marian, RecognizesLanguageCodesAndSpecialTokens) {
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->encode(">>fra<< a", SpecialTokens::apply), (Ids{6, 2, 0}));
  EXPECT_EQ(tokenizer->encode(">>deu<<a", SpecialTokens::apply), (Ids{1, 2, 0}));
  EXPECT_EQ(tokenizer->encode("a</s>>>fra<<b<pad>", SpecialTokens::apply), (Ids{2, 0, 6, 3, 9, 0}));
  EXPECT_EQ(tokenizer->encode(">>fra< a", SpecialTokens::apply), (Ids{5, 1, 2, 0}));
  EXPECT_EQ(tokenizer->encode(">>deu<< a", SpecialTokens::none), (Ids{5, 1, 2}));
  EXPECT_EQ(tokenizer->encode("a >>deu<<", SpecialTokens::apply), (Ids{2, 5, 1, 0}));
}

TEST_F(Marian, DecodesWithoutSpecialTokens) {
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->decode(Ids{9, 2, 3, 4, 1, 7, 0}), "a bbé");
  EXPECT_EQ(tokenizer->decode(Ids{5, 5, 2}), "a");
  EXPECT_EQ(tokenizer->decode(Ids{6, 2}), ">>fra<< a");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("b a b", SpecialTokens::apply)), "b a b");
  EXPECT_THROW(tokenizer->decode(Ids{11}), BadInput);
}

TEST_F(Marian, HasTwoVocabularies) {
  write("target_vocab.json", R"({"<unk>":0,"b":1,"▁x":2,"</s>":3})");
  EXPECT_EQ(load()->target().vocab_size(), 11) << "separate_vocabs is false";
  write("tokenizer_config.json", R"({"separate_vocabs":true,"added_tokens_decoder":{"0":{"content":"</s>"}}})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->encode("a b", SpecialTokens::apply), (Ids{2, 3, 0}));
  EXPECT_EQ(tokenizer->target().encode("xb", SpecialTokens::apply), (Ids{2, 1, 3}));
  EXPECT_EQ(tokenizer->target().decode(Ids{2, 1, 0, 3}), "xb");
}

TEST_F(Marian, ReadsTheNamesOfSpecialTokens) {
  write("vocab.json", R"({"[E]":0,"[U]":1,"▁a":2,"[P]":3})");
  write("tokenizer_config.json", R"({"eos_token":{"content":"[E]"},"unk_token":"[U]","pad_token":"[P]",
                                     "added_tokens_decoder":{"4":{"content":"[X]","special":true}}})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_EQ(tokenizer->encode("a[P]b[X]", SpecialTokens::apply), (Ids{2, 3, 1, 4, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 3, 1, 4, 0}), "a");
}

TEST_F(Marian, RefusesMalformedFolders) {
  const std::string spm = read_all(folder_ / "source.spm");
  write("tokenizer_config.json", R"({"separate_vocabs":true})");
  expect_refused<BadInput>("target_vocab.json", "cannot open");
  write("tokenizer_config.json", R"({"separate_vocabs":1})");
  expect_refused<BadCheckpoint>("tokenizer_config.json", "separate_vocabs");
  write("tokenizer_config.json", R"({"eos_token":1})");
  expect_refused<BadCheckpoint>("tokenizer_config.json", "eos_token");
  write("tokenizer_config.json", R"({"added_tokens_decoder":{"x":{}}})");
  expect_refused<BadCheckpoint>("tokenizer_config.json", "added_tokens_decoder");
  write("tokenizer_config.json", R"({"sp_model_kwargs":{"enable_sampling":true}})");
  expect_refused<Unsupported>("tokenizer_config.json", "sp_model_kwargs");
  write("tokenizer_config.json", "{}");
  write("source.spm", spm.substr(0, spm.size() / 2));
  expect_refused<BadCheckpoint>("source.spm", "truncated");
  write("source.spm", spm);
  for (const auto& [vocab, message] : {std::pair("[1]", "expected an object of pieces"), std::pair("{", "JSON"),
                                       std::pair(R"({"</s>":0,"<unk>":-1})", "expected an id from 0"),
                                       std::pair(R"({"</s>":0,"<unk>":99999999})", "expected an id from 0"),
                                       std::pair(R"({"</s>":0,"<unk>":0})", "id 0 appears twice"),
                                       std::pair(R"({"</s>":0})", "expected the token \"<unk>\""),
                                       std::pair(R"({"<unk>":0})", "expected the token \"</s>\"")}) {
    write("vocab.json", vocab);
    expect_refused<BadCheckpoint>("vocab.json", message);
  }
  std::filesystem::remove(folder_ / "vocab.json");
  expect_refused<BadInput>("vocab.json", "cannot open");
  write("vocab.json", kVocab);
  write("tokenizer_config.json", R"({"added_tokens_decoder":{"3":{"content":"</s>"}}})");
  expect_refused<BadCheckpoint>("tokenizer_config.json", "has id 3, but the vocabulary gives it 0");
  write("tokenizer_config.json", "{}");
  std::filesystem::remove(folder_ / "source.spm");
  expect_refused<BadInput>("source.spm", "cannot open");
}

TEST_F(Marian, TruncatedModelsLoadOrThrow) {
  const std::string spm = read_all(folder_ / "source.spm");
  for (std::size_t size = 0; size < spm.size(); ++size) {
    write("source.spm", spm.substr(0, size));
    try {
      load()->encode("a é\xFF b", SpecialTokens::apply);
    } catch (const Error&) {
    }
  }
}

TEST(TargetTokenizer, IsReadFromItsOwnFile) {
  const test::TempFolder folder;
  const auto json = [](const char* vocab) {
    return std::string(R"({"model":{"type":"WordLevel","unk_token":"u","vocab":)") + vocab +
           R"(},"pre_tokenizer":{"type":"WhitespaceSplit"}})";
  };
  test::write_file(folder / "tokenizer.json", json(R"({"u":0,"a":1})"));
  const auto one = load_tokenizer(folder.path());
  EXPECT_EQ(&one->target(), one.get());
  test::write_file(folder / "target_tokenizer.json", json(R"({"u":0,"b":1,"c":2})"));
  const auto two = load_tokenizer(folder.path());
  EXPECT_EQ(two->encode("a b c", SpecialTokens::apply), (Ids{1, 0, 0}));
  EXPECT_EQ(two->target().encode("a b c", SpecialTokens::apply), (Ids{0, 1, 2}));
  EXPECT_EQ(two->target().vocab_size(), 3);
  EXPECT_EQ(tokenizer_files(folder.path()).size(), 2U);
  test::write_file(folder / "target_tokenizer.json", "{");
  EXPECT_THAT([&] { load_tokenizer(folder.path()); }, ThrowsMessage<BadCheckpoint>(HasSubstr("target_tokenizer.json")));
}

}  // namespace
}  // namespace vitrine
