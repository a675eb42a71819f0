// The tokens for filling in the middle, as vocabularies spell them.
#include "tokenizer/fim_tokens.h"

#include "support/gguf_file.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/outside.h"
#include "tokenizer/read/gguf_vocab.h"

namespace vitrine {
namespace {

FimTokens found(const std::vector<std::string>& pieces) {
  return find_fim_tokens(std::ssize(pieces),
                         [&](std::int32_t id) { return std::string_view(pieces[static_cast<std::size_t>(id)]); });
}

TEST(FimTokens, SpellingsOfFamilies) {
  const std::vector<std::vector<std::string>> families = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                                          {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                                          {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
                                                          {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
                                                          {"<PRE>", "<SUF>", "<MID>"},
                                                          {"▁<PRE>", "▁<SUF>", "▁<MID>"},
                                                          {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
                                                          {"<|prefix|>", "<|suffix|>", "<|middle|>"}};
  for (const auto& names : families) {
    const FimTokens tokens = found({"a", names[2], names[0], "b", names[1]});
    EXPECT_TRUE(tokens.can_fill()) << names[0];
    EXPECT_EQ(tokens.all(), (Ids{2, 4, 1})) << names[0];
  }
  EXPECT_FALSE(found({"<|fim_prefix|>", "<|fim_middle|>"}).can_fill());
  EXPECT_FALSE(found({"[PREFIX]", "[SUFFIX]", "[MIDDLE]"}).can_fill());
  EXPECT_EQ(found({"▁<EOT>", "<|file_sep|>", "<|repo_name|>", "<|fim_pad|>"}).all(), (Ids{3, 2, 1, 0}));
}

std::unique_ptr<const Tokenizer> load(const test::GgufFile& file) {
  const std::string bytes = file.bytes();
  return make_gguf_tokenizer(GgufMetadata::parse(std::as_bytes(std::span(bytes)), "f"));
}

/// Keys of a GGUF file count more than spellings, and the older of two keys more than the newer one.
TEST(FimTokens, KeysOfGguf) {
  const std::vector<std::string> texts = {"<unk>", "<s>", "</s>", "a", "<PRE>", "<SUF>", "<MID>", "x", "y", "z"};
  const auto file = [&] {
    test::GgufFile f;
    f.add("tokenizer.ggml.model", "llama").add("tokenizer.ggml.tokens", texts);
    return f.add("tokenizer.ggml.scores", std::vector<float>(texts.size()))
        .add("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1, 1, 1, 1, 1, 1, 1});
  };
  EXPECT_EQ(load(file())->fim_tokens().all(), (Ids{4, 5, 6}));
  EXPECT_EQ(load(file())->bytes(4), "") << "a control token, whatever its type in the file";
  const auto named = load(file()
                              .add("tokenizer.ggml.fim_pre_token_id", std::uint32_t{7})
                              .add("tokenizer.ggml.fim_suf_token_id", std::uint32_t{8})
                              .add("tokenizer.ggml.suffix_token_id", std::uint32_t{9})
                              .add("tokenizer.ggml.fim_mid_token_id", std::uint32_t{99})
                              .add("tokenizer.ggml.fim_sep_token_id", std::uint32_t{3}));
  EXPECT_EQ(named->fim_tokens().all(), (Ids{7, 9, 6, 3}));
  EXPECT_EQ(named->stop_ids(), (Ids{2, 3})) << "a separator of files ends a text";
}

}  // namespace
}  // namespace vitrine
