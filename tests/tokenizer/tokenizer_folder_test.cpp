// Folders of every kind give the ids of AutoTokenizer, transformers 5.24.0, which are the numbers below.
#include "tokenizer/read/tokenizer_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/outside.h"
#include "tokenizer/read/gguf_tokenizer_keys.h"
#include "tokenizer/spm_file.h"

namespace vitrine {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kWords = R"({"version": "1.0", "added_tokens": [],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                 "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "post_processor": null,
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"[MASK]":4,"a":5,"A":6,"e":7,"é":8}}})";

/// Pieces of a BPE model with byte fallback; the first has id 3, `<0x00>` 9.
spm::Model bpe_model() {
  spm::Model model;
  model.byte_fallback = true;
  model.pieces = {{"▁", -1}, {"a", -2}, {"b", -3}, {"▁a", -4}, {"ab", -5}, {"▁ab", -6}};
  for (int byte = 0; byte < 256; ++byte) model.pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, spm::kByte});
  return model;
}

spm::Model unigram_model() {
  spm::Model model;
  model.kind = 1;
  model.remove_extra = true;
  model.pieces = {{"▁a", -1}, {"▁", -2}, {"a", -3}, {"b", -4}};
  return model;
}

class FolderTokenizer : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const { test::write_file(folder_ / name, content); }
  void configure(const std::string& config, const std::string& model_type) const {
    write("tokenizer_config.json", config);
    write("config.json", "{\"model_type\": \"" + model_type + "\"}");
  }
  Ids ids(const std::string& text, const std::string& source_lang = "") const {
    return load_tokenizer(folder_.path(), {"", source_lang})->encode(text, SpecialTokens::apply);
  }
  std::string text(const Ids& all) const { return load_tokenizer(folder_.path())->decode(all); }

  /// The tokenizer that the folder's GGUF file has.
  std::unique_ptr<const Tokenizer> written(std::int64_t vocab_size, const Ids& stops = {}) const {
    GgufWriter writer(folder_ / "model.gguf");
    writer.begin(gguf_tokenizer_keys(folder_.path(), {vocab_size, std::nullopt, stops}));
    writer.commit();
    return load_tokenizer(folder_ / "model.gguf");
  }

  test::TempFolder folder_;
};

TEST_F(FolderTokenizer, TheClassReplacesThePipeline) {
  write("tokenizer.json", kWords);
  configure(R"({"tokenizer_class": "BertTokenizer"})", "bert");
  EXPECT_EQ(ids("A é [MASK]"), (Ids{2, 5, 7, 4, 3}));
  configure(R"({"tokenizer_class": "BertTokenizerFast", "do_lower_case": false})", "bert");
  EXPECT_EQ(ids("A é [MASK]"), (Ids{2, 6, 8, 4, 3}));
  configure(R"({"strip_accents": false})", "bert");
  EXPECT_EQ(ids("A é [MASK]"), (Ids{2, 5, 8, 4, 3})) << "the class of the model's type";
  configure(R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false})", "bert");
  EXPECT_EQ(ids("A é [MASK]"), (Ids{5, 7, 1, 1, 1})) << "the file as it is";
  configure(R"({"tokenizer_class": "T5Tokenizer"})", "t5");
  EXPECT_EQ(ids("a"), Ids{5}) << "another kind of model: the file as it is";
}

TEST_F(FolderTokenizer, VocabAndMerges) {
  write("vocab.json", R"({"<s>":0,"a":1,"b":2,"Ġ":3,"Ġa":4,"ab":5,"</s>":6})");
  write("merges.txt", "#version: 0.2\nĠ a\na b\n");
  const std::string names = R"("tokenizer_class": "GPT2Tokenizer", "bos_token": "<s>", "eos_token": "</s>",)"
                            R"( "unk_token": "</s>")";
  configure("{" + names + R"(, "add_prefix_space": true})", "gpt2");
  EXPECT_EQ(ids("ab a<t>b<k>"), (Ids{4, 2, 4, 2}));
  EXPECT_EQ(ids("<s>a</s>"), (Ids{0, 4, 6}));
  configure("{" + names + R"(, "additional_special_tokens": ["<t>"]})", "gpt2");
  write("added_tokens.json", R"({"<t>": 7, "<k>": 8})");
  EXPECT_EQ(ids("ab a<t>b<k>"), (Ids{5, 4, 7, 2, 8}));
  EXPECT_EQ(text({5, 7, 8}), "ab<k>") << "<t> is special";
  const std::string token = R"(, "added_tokens_decoder": {"9": {"content": "<t>", "special": true}})";
  configure("{" + names + token + R"(, "add_bos_token": true})", "gpt2");
  EXPECT_EQ(ids("ab a<t>b<k>"), (Ids{0, 5, 4, 7, 2})) << "added_tokens.json does not count, nor does the id 9";
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<t>"}}})");
  EXPECT_THAT([&] { ids("a"); }, ThrowsMessage<BadCheckpoint>(HasSubstr("added_tokens_decoder")));
}

TEST_F(FolderTokenizer, SentencePieceOfLlama) {
  write("tokenizer.model", bpe_model().file());
  const auto tokens = [](const std::string& more) {
    return R"({"tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": {"265": {"content": "<t>",)"
           R"( "special": true}})" +
           more + "}";
  };
  configure(tokens(R"(, "add_bos_token": true, "eos_token": "<e>")"), "llama");
  EXPECT_EQ(ids("ab<t>ab a"), (Ids{1, 8, 265, 7, 6}));
  EXPECT_EQ(ids(" a\n"), (Ids{1, 6, 19}));
  EXPECT_EQ(load_tokenizer(folder_.path())->vocab_size(), 267);
  configure(tokens(R"(, "legacy": true, "add_eos_token": true)"), "llama");
  EXPECT_EQ(ids("ab<t>ab a"), (Ids{8, 265, 8, 6, 2}));
  configure(R"({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": false})", "llama");
  EXPECT_EQ(ids("ab<t>ab a"), (Ids{7, 69, 125, 71, 7, 6}));
  configure(R"({})", "llama");
  EXPECT_EQ(ids(" a\n"), (Ids{3, 6, 19})) << "SentencePiece's rule";
  configure(R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "legacy": false})", "mistral");
  EXPECT_EQ(ids("ab<s>ab"), (Ids{1, 8, 1, 7}));
}

TEST_F(FolderTokenizer, SentencePieceOfEncoders) {
  write("spiece.model", unigram_model().file());
  configure(R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 2})", "t5");
  EXPECT_EQ(ids("a b<extra_id_0> ab"), (Ids{3, 4, 6, 8, 3, 6, 2}));
  EXPECT_EQ(ids(""), Ids{2});
  write("sentencepiece.bpe.model", unigram_model().file());
  std::filesystem::remove(folder_ / "spiece.model");
  configure(R"({"tokenizer_class": "XLMRobertaTokenizer"})", "xlm-roberta");
  EXPECT_EQ(ids("a b<mask> a"), (Ids{0, 4, 5, 7, 8, 4, 2}));
  configure(R"({"tokenizer_class": "BertTokenizer"})", "bert");
  EXPECT_THAT([&] { ids("a"); }, ThrowsMessage<Unsupported>(HasSubstr("BertTokenizer")));
}

/// Unigram models do, BPE only if the configuration insists on it.
TEST_F(FolderTokenizer, DecodedTextLosesSpacesIfTheConfigurationSaysSo) {
  spm::Model model = unigram_model();
  model.pieces.push_back({"▁.", -5});
  write("spiece.model", model.file());
  configure(R"({"tokenizer_class": "T5Tokenizer", "clean_up_tokenization_spaces": true})", "t5");
  EXPECT_EQ(text({3, 7, 3, 7}), "a. a.");
  for (const char* unset :
       {R"({"clean_up_tokenization_spaces": false})", R"({"clean_up_tokenization_spaces": null})", "{}"}) {
    configure(unset, "t5");
    EXPECT_EQ(text({3, 7, 3, 7}), "a . a .") << unset;
  }
  std::filesystem::remove(folder_ / "spiece.model");
  write("tokenizer.model", bpe_model().file());
  configure(R"({"tokenizer_class": "LlamaTokenizer", "clean_up_tokenization_spaces": true})", "llama");
  EXPECT_EQ(text({4, 3, 55}), "a .");
  EXPECT_EQ(written(265)->decode(Ids{4, 3, 55}), "a .");
  configure(R"({"tokenizer_class": "LlamaTokenizer", "clean_up_tokenization_spaces": true,
                "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": true})",
            "llama");
  EXPECT_EQ(text({4, 3, 55}), "a.");
  EXPECT_THAT([&] { written(265); }, ThrowsMessage<Unsupported>(HasSubstr("clean_up_tokenization_spaces")));
}

TEST_F(FolderTokenizer, SourceLanguages) {
  write("sentencepiece.bpe.model", unigram_model().file());
  configure(R"({"tokenizer_class": "MBartTokenizer", "src_lang": "fr_XX"})", "mbart");
  EXPECT_EQ(ids("a b"), (Ids{4, 5, 7, 2, 15}));
  EXPECT_EQ(ids("a b", "de_DE"), (Ids{4, 5, 7, 2, 10}));
  EXPECT_THAT([&] { ids("a", "xx_XX"); }, ThrowsMessage<BadInput>(HasSubstr("xx_XX")));
  write("vocab.json", R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"▁a":4,"b":5,"▁":6})");
  configure(R"({"tokenizer_class": "M2M100Tokenizer", "src_lang": "fr"})", "m2m_100");
  EXPECT_EQ(ids("a b"), (Ids{31, 4, 6, 5, 2}));
  EXPECT_EQ(ids("<s> a q</s>"), (Ids{31, 0, 4, 6, 3, 2, 2}));
  EXPECT_EQ(ids("a", "de"), (Ids{23, 4, 2}));
  EXPECT_THAT([&] { ids("a", "xx"); }, ThrowsMessage<BadInput>(HasSubstr("__xx__")));
  Ids marked = ids("a b");
  set_source_language(*load_tokenizer(folder_.path()), "de", marked);
  EXPECT_EQ(marked, (Ids{23, 4, 6, 5, 2})) << "of one request";
  write("vocab.json", R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"▁a":4,"▁.":5,"▁":6})");
  configure(R"({"tokenizer_class": "M2M100Tokenizer", "clean_up_tokenization_spaces": true})", "m2m_100");
  EXPECT_EQ(text({4, 5}), "a.");
}

TEST_F(FolderTokenizer, ATokenizerWithoutLanguagesHasNone) {
  write("tokenizer.json", kWords);
  configure(R"({"tokenizer_class": "BertTokenizer"})", "bert");
  EXPECT_THAT([&] { ids("a", "fr_XX"); }, ThrowsMessage<BadInput>(HasSubstr("does not mark texts")));
  Ids all = ids("a");
  EXPECT_THROW(set_source_language(*load_tokenizer(folder_.path()), "fr_XX", all), BadInput);
}

TEST_F(FolderTokenizer, GgufFilesHaveTheFoldersTokenizer) {
  write("tokenizer.model", bpe_model().file());
  configure(R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "eos_token": "<e>",
                "added_tokens_decoder": {"265": {"content": "<t>", "special": true, "rstrip": true},
                                         "266": {"content": "<e>", "special": true},
                                         "267": {"content": "<k>", "special": false}}})",
            "llama");
  const auto original = load_tokenizer(folder_.path());
  const auto file = written(270, {266, 2, 265, 1, 0});
  EXPECT_THAT(file->stop_ids(), testing::ElementsAre(0, 1, 2, 265, 266)) << "five, and the format has three keys";
  EXPECT_EQ(file->piece(267), "<k>");
  for (const char* text : {"ab<t>  ab a", " a", "ab", "", "a<k> b<e>ab", "é\n"}) {
    EXPECT_EQ(file->encode(text, SpecialTokens::apply), original->encode(text, SpecialTokens::apply)) << text;
  }
  EXPECT_THAT(written(270)->stop_ids(), testing::ElementsAre(266)) << "the folder's";
}

TEST_F(FolderTokenizer, LengthsAndNames) {
  write("tokenizer.json", kWords);
  configure(R"({"tokenizer_class": "BertTokenizer", "model_max_length": 12, "sep_token": {"content": "a"}})", "bert");
  const TokenizerFolder folder = read_tokenizer_folder(folder_.path());
  EXPECT_EQ(model_max_length(folder), 12);
  EXPECT_THAT(folder.named, testing::Contains(testing::Pair("cls_token", Json("[CLS]")))) << "the class's";
  EXPECT_EQ(ids("A"), (Ids{2, 5, 5}));
  configure(R"({"model_max_length": 1000000000000000019884624838656})", "bert");
  EXPECT_EQ(model_max_length(read_tokenizer_folder(folder_.path())), std::nullopt);
}

}  // namespace
}  // namespace vitrine
