// Loading a tokenizer: detection of formats, folders, errors.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace vitrine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class LoadTokenizer : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    test::write_file(folder_ / name, content);
    return folder_ / name;
  }

  template <class E>
  static void expect_refused(const std::string& path, const char* message) {
    EXPECT_THAT([&] { load_tokenizer(path); },
                ThrowsMessage<E>(AllOf(HasSubstr("[" + path + "]"), HasSubstr(message))));
  }

  test::TempFolder folder_;
};

TEST_F(LoadTokenizer, DetectsLlama2cWithAnyFirstByte) {
  for (std::int32_t max_token_length : {7, 10 /* '\n', as SentencePiece */, 123 /* '{', as JSON */, 65535}) {
    const std::string path = write("any_name", llama2c_file(with_bytes({{"a", 0}}), max_token_length));
    EXPECT_EQ(load_tokenizer(path)->vocab_size(), 260);
  }
}

TEST_F(LoadTokenizer, RefusesInvalidFilesOfEveryFormat) {
  expect_refused<BadCheckpoint>(write("a", R"({"version":"1.0"})"), "\"model\" of the tokenizer");
  expect_refused<BadCheckpoint>(write("b", " \n  {\n}"), "\"model\" of the tokenizer");
  expect_refused<BadInput>(write("odd.json", R"({"!":0})"), "a name ending in vocab.json");
  expect_refused<BadCheckpoint>(write("c", std::string("\x0a\x0e\x0a\x05<unk>\x15\0\0\0", 12)), "SentencePiece");
  expect_refused<BadCheckpoint>(write("d", "IQ== 0\nIg== 1\n"), "expected a rank for every byte");
  expect_refused<BadCheckpoint>(write("e", std::string("GGUF\x03\0\0\0", 8)), "number of tensors");
  expect_refused<BadCheckpoint>(write("f", "once upon a time"), "unknown format");
  expect_refused<BadCheckpoint>(write("g", ""), "unknown format");
  expect_refused<BadCheckpoint>(write("h", llama2c_file(with_bytes({}), -1)), "unknown format");
  expect_refused<BadInput>(folder_ / "none", "cannot open");
}

TEST_F(LoadTokenizer, RefusesALlama2cModel) {
  const auto model = [](std::int32_t vocab, std::size_t n_floats) {
    std::string file;
    for (const std::int32_t n : {8, 12, 2, 4, 2, vocab, 16}) append_number(file, n);
    return file + std::string(4 * n_floats, '\0');
  };
  // Embedding; for each layer two norms, q and o, k and v, three matrices of the FFN; last norm; RoPE's sines and
  // cosines.
  const std::size_t n = 300 * 8 + 2 * (2 * 8 + 2 * 64 + 2 * 32 + 3 * 96) + 8 + 16 * 2;
  expect_refused<BadInput>(write("model.bin", model(300, n)), "got a llama2.c model without one; give the file");
  expect_refused<BadInput>(write("model.bin", model(-300, n + 300 * 8)), "got a llama2.c model");
  expect_refused<BadCheckpoint>(write("model.bin", model(300, n - 1)), "token");
  expect_refused<BadCheckpoint>(write("model.bin", model(0, n)), "truncated");
}

TEST_F(LoadTokenizer, FindsTokenizersInFolders) {
  const std::string& folder = folder_.path();
  expect_refused<BadInput>(folder,
                           "tokenizer.json, tekken.json, tokenizer.model, tiktoken.model, spiece.model, "
                           "sentencepiece.bpe.model, vocab.json");
  write("vocab.json", "{}");
  expect_refused<BadInput>(folder, "got none");
  write("merges.txt", "a b");
  EXPECT_THAT([&] { load_tokenizer(folder); }, ThrowsMessage<BadCheckpoint>(HasSubstr("not in the vocabulary")));
  const std::string merges = write("merges.txt", "#version: 0.2\na b\n");
  const std::string vocab = write("vocab.json", R"({"a":0,"b":1,"ab":2})");
  for (const std::string& path : {folder, merges, vocab}) {
    EXPECT_EQ(load_tokenizer(path)->encode("aba", SpecialTokens::apply), (std::vector<std::int32_t>{2, 0}));
  }
  const std::string model = write("tokenizer.model", "IQ== 0\n");
  EXPECT_THAT([&] { load_tokenizer(folder); }, ThrowsMessage<BadCheckpoint>(HasSubstr("[" + model + "]")));
  const std::string json = write("tokenizer.json", "{}");
  EXPECT_THAT([&] { load_tokenizer(folder); }, ThrowsMessage<BadCheckpoint>(HasSubstr("[" + json + "]")));
  write("tokenizer.bin", llama2c_file(with_bytes({{"a", 0}})));
  EXPECT_EQ(load_tokenizer(folder)->vocab_size(), 260);
}

}  // namespace
}  // namespace vitrine
