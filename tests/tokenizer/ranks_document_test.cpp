// Mistral's tekken.json and Kimi's tiktoken.model.
#include "tokenizer/read/ranks_document.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/temp_folder.h"
#include "tokenizer/outside.h"
#include "tokenizer/read/base64.h"
#include "tokenizer/read/tiktoken.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

constexpr SpecialTokens kApply = SpecialTokens::apply, kNone = SpecialTokens::none;
constexpr const char* kPattern = R"([^ ]+| +)";

std::string base64(std::string_view bytes) {
  return encode_base64({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()});
}

/// Every byte, then `more`.
std::vector<std::string> pieces_with(const std::vector<std::string>& more) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  pieces.insert(pieces.end(), more.begin(), more.end());
  return pieces;
}

std::string ranks_of(const std::vector<std::string>& pieces) {
  std::string text;
  for (std::size_t i = 0; i < pieces.size(); ++i) text += base64(pieces[i]) + " " + std::to_string(i) + "\n";
  return text;
}

Json tekken(const std::vector<std::string>& pieces, std::size_t n_special, std::size_t n_kept) {
  Json vocab = Json::array();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    vocab.push_back({{"rank", i}, {"token_bytes", base64(pieces[i])}, {"token_str", nullptr}});
  }
  return {{"config",
           {{"pattern", kPattern},
            {"num_vocab_tokens", pieces.size()},
            {"default_vocab_size", n_special + n_kept},
            {"default_num_special_tokens", n_special},
            {"version", "v3"}}},
          {"vocab", vocab}};
}

const std::vector<std::string> kMore = {"bc", "ab", "abc", "\xC3\xA9", " \xE2", "aab"};

class Tekken : public testing::Test {
 protected:
  std::unique_ptr<const Tokenizer> load(const Json& json) const {
    write_file(folder / "tekken.json", json.dump());
    return load_tokenizer(folder.path());
  }
  std::string refusal(const Json& json) const {
    return message_of<BadCheckpoint>([&] { load(json); });
  }
  const TempFolder folder;
};

TEST_F(Tekken, HasTheIdsOfItsRanksAfterTheSpecialTokens) {
  const std::vector<std::string> pieces = pieces_with(kMore);
  const auto tokenizer = load(tekken(pieces, 30, pieces.size()));
  const auto by_rank = parse_tiktoken(ranks_of(pieces), kPattern, "m");
  for (const char* text : {"abc", "aabc abab", "xyz bcabc", "\xC3\xA9\xC3", " \xE2\x82\xAC a", ""}) {
    std::vector<std::int32_t> ids = by_rank->encode(text, kNone);
    for (std::int32_t& id : ids) id += 30;
    EXPECT_EQ(tokenizer->encode(text, kNone), ids) << text;
    ids.insert(ids.begin(), 1);
    EXPECT_EQ(tokenizer->encode(text, kApply), ids) << text;
    EXPECT_EQ(tokenizer->decode(by_rank->encode(text, kNone).empty() ? Ids() : tokenizer->encode(text, kNone)), text);
  }
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->encode("[INST]a[/INST]", kApply), Ids({1, 3, 30 + 'a', 4}));
  EXPECT_EQ(tokenizer->encode("<SPECIAL_29>", kApply), Ids({1, 29}));
}

TEST_F(Tekken, LeavesOutPiecesBeyondItsSize) {
  const std::vector<std::string> pieces = pieces_with(kMore);
  const auto tokenizer = load(tekken(pieces, 20, 258));
  EXPECT_EQ(tokenizer->vocab_size(), 278);
  EXPECT_EQ(tokenizer->encode("abc", kNone), Ids({20 + 'a', 20 + 256}));
}

TEST_F(Tekken, NamesItsSpecialTokens) {
  Json json = tekken(pieces_with({}), 4, 256);
  json["special_tokens"] = Json::array({{{"rank", 2}, {"token_str", "<s>"}, {"is_control", true}},
                                        {{"rank", 0}, {"token_str", "[THINK]"}, {"is_control", true}}});
  const auto tokenizer = load(json);
  EXPECT_EQ(tokenizer->encode("[THINK]<SPECIAL_1>", kApply), Ids({2, 0, 1}));
}

TEST_F(Tekken, RefusesMalformedFiles) {
  Json json = tekken(pieces_with({}), 4, 257);
  EXPECT_THAT(refusal(json), HasSubstr("default_vocab_size"));
  json = tekken(pieces_with({}), 4, 256);
  json["vocab"][7]["token_bytes"] = "?";
  EXPECT_THAT(refusal(json), HasSubstr("rank 7"));
  json = tekken(pieces_with({}), 4, 256);
  json["vocab"][7]["rank"] = 8;
  EXPECT_THAT(refusal(json), HasSubstr("rank 7"));
  json = tekken(pieces_with({}), 4, 256);
  json["vocab"][7]["token_bytes"] = json["vocab"][8]["token_bytes"];
  EXPECT_THAT(refusal(json), HasSubstr("twice"));
  json.erase("config");
  EXPECT_THAT(refusal(json), HasSubstr("config"));
}

TEST(Kimi, ReadsRanksAndTheConfiguredSpecialTokens) {
  const TempFolder folder;
  const std::vector<std::string> pieces = pieces_with({"ab", " a"});
  write_file(folder / "tiktoken.model", ranks_of(pieces));
  const Json config = {{"tokenizer_class", "TikTokenTokenizer"},
                       {"added_tokens_decoder", {{"258", {{"content", "[BOS]"}, {"special", true}}}}}};
  write_file(folder / "tokenizer_config.json", config.dump());
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->encode("[BOS]ab a<|reserved_token_259|>", kApply), Ids({258, 256, 257, 259}));
  EXPECT_EQ(tokenizer->vocab_size(), 258 + 256);
  write_file(folder / "tokenizer_config.json", "{}");
  EXPECT_THAT(message_of<BadInput>([&] { load_tokenizer(folder.path()); }), HasSubstr("--pattern"));
}

}  // namespace
}  // namespace vitrine::test
