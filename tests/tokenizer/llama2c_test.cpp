// Compares the llama2.c tokenizer with a naive transcription of run.c; invalid files.
#include "tokenizer/read/llama2c.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <random>

#include "base/error.h"
#include "tokenizer/outside.h"
#include "tokenizer/vocabulary.h"

namespace vitrine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::unique_ptr<const Tokenizer> parse(const std::string& file) { return parse_llama2c_tokenizer(as_bytes(file), "f"); }

/// run.c's encode, in O(n²), on a copy of the entries.
class Naive {
 public:
  explicit Naive(std::vector<Entry> entries) : entries_(std::move(entries)) {
    for (std::size_t i = 0; i < entries_.size(); ++i) ids_.emplace(entries_[i].first, static_cast<std::int32_t>(i));
  }

  Ids encode(const std::string& text, bool bos) const {
    Ids ids;
    if (bos) ids.push_back(1);
    if (!text.empty()) add(" ", ids);
    std::string buffer;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (!continues(text[i])) buffer.clear();
      buffer += text[i];
      if (i + 1 < text.size() && continues(text[i + 1]) && buffer.size() < 4) continue;
      add(buffer, ids);
      buffer.clear();
    }
    while (merge_best(ids)) {
    }
    return ids;
  }

 private:
  static bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

  std::int32_t find(const std::string& piece) const {
    const auto it = ids_.find(piece);
    return it == ids_.end() ? -1 : it->second;
  }

  void add(const std::string& character, Ids& ids) const {
    if (const std::int32_t id = find(character); id != -1) return ids.push_back(id);
    for (char c : character) ids.push_back(static_cast<unsigned char>(c) + 3);
  }

  const Entry& entry(std::int32_t id) const { return entries_[static_cast<std::size_t>(id)]; }

  bool merge_best(Ids& ids) const {
    float best_score = -1e10F;
    std::int32_t best_id = -1;
    std::size_t best_index = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const std::int32_t id = find(entry(ids[i]).first + entry(ids[i + 1]).first);
      if (id == -1 || !(entry(id).second > best_score)) continue;
      best_score = entry(id).second;
      best_id = id;
      best_index = i;
    }
    if (best_id == -1) return false;
    ids[best_index] = best_id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_index) + 1);
    return true;
  }

  std::vector<Entry> entries_;
  std::map<std::string, std::int32_t> ids_;
};

/// A text of up to `max_parts` random elements of `parts`.
std::string random_text(std::mt19937& random, const std::vector<std::string>& parts, std::size_t max_parts) {
  std::string text;
  for (std::size_t n = random() % (max_parts + 1); n > 0; --n) text += parts[random() % parts.size()];
  return text;
}

/// The entries of a valid file.
std::vector<Entry> entries_of(const std::string& file) {
  std::vector<Entry> entries;
  for (std::size_t at = 4; at < file.size();) {
    float score = 0;
    std::int32_t length = 0;
    std::memcpy(&score, &file[at], 4);
    std::memcpy(&length, &file[at + 4], 4);
    entries.emplace_back(file.substr(at + 8, static_cast<std::size_t>(length)), score);
    at += 8 + static_cast<std::size_t>(length);
  }
  return entries;
}

void expect_agrees(const Tokenizer& tokenizer, const Naive& naive, const std::string& text) {
  const Ids ids = tokenizer.encode(text, SpecialTokens::apply);
  ASSERT_EQ(ids, naive.encode(text, true)) << testing::PrintToString(text);
  ASSERT_EQ(tokenizer.encode(text, SpecialTokens::none), naive.encode(text, false)) << testing::PrintToString(text);
  ASSERT_EQ(tokenizer.decode(ids), text);
}

/// tok512.bin of the data outside the repository.
class Stories : public testing::Test {
 protected:
  void SetUp() override {
    OUTSIDE_DATA_OR_SKIP(path, "models/stories260K/tok512.bin");
    file_ = read_all(path);
    tokenizer_ = parse(file_);
  }

  std::string file_;
  std::unique_ptr<const Tokenizer> tokenizer_;
};

TEST_F(Stories, EncodeASentence) {
  EXPECT_EQ(tokenizer_->vocab_size(), 512);
  // "Once upon a time" by run.c.
  EXPECT_THAT(tokenizer_->encode("Once upon a time", SpecialTokens::apply), ElementsAre(1, 403, 407, 261, 378));
  EXPECT_THAT(tokenizer_->encode("Once upon a time", SpecialTokens::none), ElementsAre(403, 407, 261, 378));
}

TEST_F(Stories, AgreeWithNaiveOnStories) {
  const Naive naive(entries_of(file_));
  const std::string text = read_all(test::outside_data("text/tinystories_sample.txt"));
  ASSERT_GT(text.size(), 10000U);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t length = random() % 120;
    expect_agrees(*tokenizer_, naive, text.substr(random() % (text.size() - length), length));
  }
}

TEST_F(Stories, AgreeWithNaiveOnRandomText) {
  const Naive naive(entries_of(file_));
  std::vector<std::string> parts = {" ",  "  ",  "\n",      "é",    "😀",     "👩‍👩‍👧", "™", "\u200a",
                                    "漢", "the", "\n<s>\n", "</s>", "<0x41>"};
  for (int byte = 0; byte < 256; ++byte) parts.emplace_back(1, static_cast<char>(byte));
  for (const auto& [piece, score] : entries_of(file_)) parts.push_back(piece);
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) expect_agrees(*tokenizer_, naive, random_text(random, parts, 40));
}

// Quadratic time would take hours, so the limit for slow builds detects it, too.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr double kSecondsPerMegabyte = 1;
#else
constexpr double kSecondsPerMegabyte = 20;
#endif

TEST_F(Stories, EncodeAMegabyteWithoutSpacesQuickly) {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < (1U << 20)) text += static_cast<char>('a' + random() % 26);
  for (const std::string& line : {text, std::string(1U << 20, 'a')}) {
    const std::clock_t start = std::clock();  // CPU time: other programs do not count
    const Ids ids = tokenizer_->encode(line, SpecialTokens::apply);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kSecondsPerMegabyte);
    EXPECT_EQ(tokenizer_->decode(ids), line);
  }
}

/// A few letters and many of their combinations, with only three scores, so that ties are frequent.
std::vector<Entry> tied_entries(std::mt19937& random) {
  std::vector<Entry> pieces = {{" ", -9}, {"a", -9}, {"b", -9}, {"c", -9}, {"é", -9}, {"😀", -9}};
  const std::vector<std::string> letters = {" ", "a", "b", "c", "é"};
  for (int i = 0; i < 60; ++i) {
    std::string piece;
    for (std::size_t n = 2 + random() % 4; n > 0; --n) piece += letters[random() % letters.size()];
    pieces.emplace_back(piece, -static_cast<float>(random() % 3));
  }
  pieces.emplace_back("ab", -std::numeric_limits<float>::infinity());
  // As in run.c, unknown bytes and BOS merge by the text of their pieces.
  pieces.emplace_back("<0x64><0x65>", 1.0F);
  pieces.emplace_back("\n<s>\n ", -1.0F);
  return with_bytes(pieces);
}

TEST(Llama2c, MergesTheLeftmostOfTiedPairs) {
  std::mt19937 random(4);
  const std::vector<std::string> parts = {" ", "a", "b", "c", "é", "d", "e", "\x80", "\xC3", "😀"};
  for (int vocabulary = 0; vocabulary < 50; ++vocabulary) {
    const std::vector<Entry> entries = tied_entries(random);
    const auto tokenizer = parse(llama2c_file(entries));
    const Naive naive(entries);
    for (int i = 0; i < 60; ++i) {
      const std::string text = random_text(random, parts, 40);
      ASSERT_EQ(tokenizer->encode(text, SpecialTokens::apply), naive.encode(text, true)) << text;
      ASSERT_EQ(tokenizer->encode(text, SpecialTokens::none), naive.encode(text, false)) << text;
    }
  }
}

TEST(Llama2c, MergesTheLeftmostOfTwoTiedPairs) {
  // "aa" and "ab" have the same score.
  const auto tokenizer = parse(llama2c_file(with_bytes({{" ", -5}, {"a", -5}, {"b", -5}, {"aa", 0}, {"ab", 0}})));
  EXPECT_THAT(tokenizer->encode("aab", SpecialTokens::apply), ElementsAre(1, 259, 262, 261));
}

TEST(Llama2c, UsesTheLowestIdOfARepeatedPiece) {
  const auto tokenizer = parse(llama2c_file(with_bytes({{" ", -5}, {"a", -5}, {"a", 0}, {" a", -1}, {" a", 0}})));
  EXPECT_THAT(tokenizer->encode("aa", SpecialTokens::none), ElementsAre(262, 260));
}

TEST(Llama2c, EncodesAnEmptyTextNulAndAMissingSpace) {
  const auto tokenizer = parse(llama2c_file(with_bytes({{"a", 0}})));
  EXPECT_THAT(tokenizer->encode("", SpecialTokens::apply), ElementsAre(1));
  EXPECT_THAT(tokenizer->encode("", SpecialTokens::none), ElementsAre());
  EXPECT_THAT(tokenizer->encode(std::string("a\0a", 3), SpecialTokens::none), ElementsAre(0x20 + 3, 259, 3, 259));
}

TEST(Llama2c, HasPiecesBytesAndSpecialTokens) {
  const auto tokenizer = parse(llama2c_file(with_bytes({{" ", 0}, {" a", 0}})));
  EXPECT_EQ(tokenizer->vocab_size(), 261);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_THAT(tokenizer->stop_ids(), ElementsAre(1, 2));
  EXPECT_EQ(tokenizer->piece(1), "\n<s>\n");
  EXPECT_EQ(tokenizer->piece(3 + 0x41), "<0x41>");
  EXPECT_EQ(tokenizer->bytes(0) + tokenizer->bytes(1) + tokenizer->bytes(2), "");
  EXPECT_EQ(tokenizer->bytes(3), std::string(1, '\0'));
  EXPECT_EQ(tokenizer->bytes(258), "\xFF");
  EXPECT_EQ(tokenizer->bytes(260), " a");
  for (std::int32_t id : {-1, 261, std::numeric_limits<std::int32_t>::min()}) {
    EXPECT_THROW(tokenizer->piece(id), BadInput);
    EXPECT_THROW(tokenizer->bytes(id), BadInput);
    EXPECT_THROW(tokenizer->decode(Ids{id}), BadInput);
  }
}

TEST(Llama2c, DropsOneSpaceAfterBos) {
  const auto tokenizer = parse(llama2c_file(with_bytes({{" ", 0}, {" a", 0}, {"  a", 0}})));
  EXPECT_EQ(tokenizer->decode(Ids{1, 260}), "a");
  EXPECT_EQ(tokenizer->decode(Ids{1, 261}), " a");
  EXPECT_EQ(tokenizer->decode(Ids{260}), " a");
  EXPECT_EQ(tokenizer->decode(Ids{260, 260}), " a a");
  EXPECT_EQ(tokenizer->decode(Ids{1, 0x20 + 3, 260}), "  a");  // the byte <0x20> is not the dummy prefix
  EXPECT_EQ(tokenizer->decode(Ids{260, 1, 260}), " aa");
  EXPECT_EQ(Detokenizer(*tokenizer, 1).push(260), "a");
  EXPECT_EQ(Detokenizer(*tokenizer, 259).push(260), " a");
  EXPECT_EQ(Detokenizer(*tokenizer).push(260), " a");
}

TEST(Llama2c, RefusesInvalidFiles) {
  const std::vector<Entry> entries = with_bytes({{"a", 0}});
  const auto expect = [](const std::string& file, const char* message) {
    EXPECT_THAT([&] { parse(file); }, ThrowsMessage<BadCheckpoint>(HasSubstr(message))) << message;
  };
  const auto entry = [](float score, std::int32_t length) {
    std::string bytes;
    append_number(bytes, score);
    append_number(bytes, length);
    return bytes;
  };
  const std::string good = llama2c_file(entries);
  EXPECT_EQ(parse(good)->vocab_size(), 260);
  expect("", "[f] expected 4 bytes of max_token_length, got 0");
  expect(llama2c_file({}), "expected at least 259 tokens");
  expect(llama2c_file({entries.begin(), entries.begin() + 258}), "got 258");
  for (std::int32_t length : {0, -1, 65536, std::numeric_limits<std::int32_t>::max()}) {
    expect(llama2c_file(entries, length), "expected a max_token_length");
  }
  expect(llama2c_file(entries, 5), "expected a length from 0 to max_token_length 5");
  expect(good + entry(NAN, 0), "expected a score for token 260, got nan");
  expect(good + entry(0, -1), "got -1");
  expect(good + entry(0, std::numeric_limits<std::int32_t>::min()), "expected a length");
  expect(good + entry(0, std::numeric_limits<std::int32_t>::max()), "expected a length");
  expect(good + entry(0, 9) + "12345678", "expected 9 bytes of piece, got 8");
  std::vector<Entry> swapped = entries;
  std::swap(swapped[10], swapped[11]);
  expect(llama2c_file(swapped), "expected the byte <0x07> as token 10");
}

TEST(Llama2c, RefusesTruncatedFiles) {
  const std::string good = llama2c_file(with_bytes({{"a", 0}, {"bc", 0}}));
  for (std::size_t size = 0; size < good.size(); ++size) {
    // A file that ends between two tokens after the bytes is a smaller, valid vocabulary.
    const bool valid = size == good.size() - 10 || size == good.size() - 19;
    if (valid) {
      EXPECT_NO_THROW(parse(good.substr(0, size)));
    } else {
      EXPECT_THROW(parse(good.substr(0, size)), BadCheckpoint) << size;
    }
  }
}

TEST(Llama2c, SurvivesFlippedBits) {
  const std::string good = llama2c_file(with_bytes({{" ", -1}, {"a", 0}, {"b", 0}, {"ab", 0}, {" ab", 1}}));
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string file = good;
    for (int flips = 0; flips < 3; ++flips) {
      // Half of the flips are in the pieces after the bytes, because nearly all others make the file invalid.
      const std::size_t from = random() % 2 == 0 ? file.size() - 60 : 0;
      char& byte = file[from + random() % (file.size() - from)];
      byte = static_cast<char>(byte ^ (1 << random() % 8));
    }
    try {
      const auto tokenizer = parse(file);
      tokenizer->decode(tokenizer->encode("ab abé\x80", SpecialTokens::apply));
    } catch (const BadCheckpoint&) {
    }
  }
}

}  // namespace
}  // namespace vitrine
