// Compares the ids of every tokenizer of the data with those of its reference implementation on 10,000 lines of mixed
// text. tools/goldens data_tokenizers makes goldens and text; tools/compare_tokenizers.py shows differences.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tokenizer/outside.h"
#include "tokenizer/split.h"

namespace vitrine {
namespace {

using nlohmann::json;

constexpr std::size_t kBlock = 100;  // lines under one hash

std::string folder() { return test::goldens() + "/tokenizers/"; }

/// FNV-1a of little-endian int32 ids, with -1 after each line, or of texts, with a byte 0xFF after each.
class Hash {
 public:
  void add(const Ids& ids) {
    for (std::int32_t id : ids) add(id);
    add(-1);
  }
  void add(const std::string& bytes) {
    for (const char byte : bytes) add_byte(static_cast<unsigned char>(byte));
    add_byte(0xFF);
  }
  std::string hex() const { return fmt::format("{:016x}", state_); }

 private:
  void add(std::int32_t id) {
    for (int shift = 0; shift < 32; shift += 8) add_byte(static_cast<std::uint32_t>(id) >> shift & 0xFF);
  }
  void add_byte(std::uint32_t byte) { state_ = (state_ ^ byte) * 0x100000001B3ULL; }
  std::uint64_t state_ = 0xCBF29CE484222325ULL;
};

const std::vector<std::string>& text() {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> read;
    std::ifstream file(folder() + "text.jsonl");
    for (std::string line; std::getline(file, line);) read.push_back(json::parse(line).get<std::string>());
    return read;
  }();
  return lines;
}

/// The names of files in a subfolder, without their ending.
std::vector<std::string> names(const std::string& subfolder, const std::string& ending) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder() + subfolder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending)) found.push_back(name.substr(0, name.size() - ending.size()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

void compare(const Tokenizer& tokenizer, const json& golden, std::size_t n_lines) {
  ASSERT_GE(text().size(), n_lines);
  const auto left_out = golden.at("left_out").get<std::set<std::size_t>>();
  ASSERT_LT(left_out.size(), n_lines / 20);
  ASSERT_FALSE(golden.at("policies").empty());
  for (const auto& [policy, known] : golden.at("policies").items()) {
    const json& blocks = known.at("blocks");
    ASSERT_EQ(blocks.size(), n_lines / kBlock);
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      Hash hash;
      for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
        const SpecialTokens special = policy == "none" ? SpecialTokens::none : SpecialTokens::apply;
        const Ids ids = left_out.contains(i) ? Ids() : tokenizer.encode(text()[i], special);
        hash.add(ids);
        const auto full = known.at("lines").find(std::to_string(i));
        if (full == known.at("lines").end()) continue;
        ASSERT_EQ(ids, full->get<Ids>()) << policy << ", line " << i;
      }
      ASSERT_EQ(hash.hex(), blocks[block].get<std::string>())
          << policy << ": some line from " << block * kBlock << " to " << (block + 1) * kBlock - 1
          << " differs; tools/compare_tokenizers.py names it";
    }
  }
}

/// Replaces each run of invalid UTF-8 by one U+FFFD.
std::string readable(std::string_view bytes) {
  const std::string unknown = "\uFFFD";
  std::string out;
  for_each_valid_run(
      bytes, [&](std::string_view run) { out += run; }, [&](char) { out += unknown; });
  for (std::size_t i = 0; (i = out.find(unknown + unknown, i)) != out.npos;) out.erase(i, unknown.size());
  return out;
}

/// Compares the text of the ids, without special tokens.
void compare_decoded(const Tokenizer& tokenizer, const json& blocks) {
  ASSERT_FALSE(blocks.empty());
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    Hash hash;
    for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      hash.add(readable(tokenizer.decode(tokenizer.encode(text()[i], SpecialTokens::none))));
    }
    ASSERT_EQ(hash.hex(), blocks[block].get<std::string>()) << "decoded, block " << block;
  }
}

std::string plain(const testing::TestParamInfo<std::string>& name) {
  std::string out = name.param;
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

class TokenizerGoldens : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerGoldens, AgreeOnMixedText) {
  const json golden = json::parse(read_all(folder() + GetParam() + ".json"));
  OUTSIDE_DATA_OR_SKIP(path, golden.at("file").get<std::string>());
  const auto tokenizer = load_tokenizer(path);
  compare(*tokenizer, golden, 10'000);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGoldens, testing::ValuesIn(names("", ".json")), plain);

/// Tokenizers with features that the data lacks, trained by tools/goldens small_tokenizers,
/// tools/goldens marian_tokenizers and tools/goldens bert_tokenizers.
class SmallTokenizerGoldens : public testing::TestWithParam<std::string> {};

TEST_P(SmallTokenizerGoldens, AgreeOnMixedText) {
  const json golden = json::parse(read_all(folder() + "made/" + GetParam() + ".golden.json"));
  const auto loaded = load_tokenizer(folder() + "made/" + golden.at("file").get<std::string>());
  const Tokenizer& tokenizer = golden.contains("target") ? loaded->target() : *loaded;
  compare(tokenizer, golden, 2'000);
  if (golden.contains("decoded")) compare_decoded(tokenizer, golden.at("decoded"));
}

INSTANTIATE_TEST_SUITE_P(All, SmallTokenizerGoldens, testing::ValuesIn(names("made", ".golden.json")), plain);

/// Pairs of consecutive lines, made by tools/goldens bert_tokenizers.
TEST(PairGoldens, AgreeOnMixedText) {
  const json goldens = json::parse(read_all(folder() + "made/pairs.json"));
  ASSERT_FALSE(goldens.empty());
  for (const json& golden : goldens) {
    const auto tokenizer = load_tokenizer(folder() + golden.at("file").get<std::string>());
    for (const auto& [policy, blocks] : golden.at("policies").items()) {
      const SpecialTokens special = policy == "none" ? SpecialTokens::none : SpecialTokens::apply;
      for (std::size_t block = 0; block < blocks.size(); ++block) {
        Hash ids, types;
        for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
          const PairEncoding pair = tokenizer->encode_pair(text()[i], text()[i + 1], special);
          ids.add(pair.ids);
          types.add(pair.types);
        }
        ASSERT_EQ(ids.hex(), blocks[block][0].get<std::string>()) << golden.at("file") << policy << block;
        ASSERT_EQ(types.hex(), blocks[block][1].get<std::string>()) << golden.at("file") << policy << block;
      }
    }
  }
}

}  // namespace
}  // namespace vitrine
