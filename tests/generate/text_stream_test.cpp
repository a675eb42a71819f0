// The text stream: any division into tokens gives the same text, characters are never split, stop strings are never
// output.
#include "generate/text_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

struct Outcome {
  std::string text;
  bool stopped;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << testing::PrintToString(outcome.text) << (outcome.stopped ? " stopped" : "");
}

/// The expected text: all before the earliest stop string.
Outcome expected(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops) end = std::min(end, text.find(stop));
  return {text.substr(0, end), end != std::string::npos};
}

Outcome stream(const std::vector<std::string>& tokens, const std::vector<std::string>& stops, bool cleans_up = false) {
  TextStream stream(stops, false, cleans_up);
  std::string text;
  for (const std::string& token : tokens) text += stream.push(token);
  text += stream.flush();
  return {text, stream.stopped()};
}

TEST(TextStream, StopsInTheTextThatIsShown) {
  EXPECT_EQ(stream({"he", " ", "'s", " here", " ", "?"}, {}, true), (Outcome{"he's here?", false}));
  EXPECT_EQ(stream({"he", " ", "'s", " here", " ", "?"}, {"re?"}, true), (Outcome{"he's he", true}));
  EXPECT_EQ(stream({"he", " ", "'s", " here", " "}, {}, true), (Outcome{"he's here ", false}));
  EXPECT_EQ(stream({"he ", "'"}, {"'"}, true), (Outcome{"he ", true}));
}

std::vector<std::string> split(const std::string& text, std::mt19937& random, std::size_t max_length) {
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < text.size(); at += tokens.back().size()) {
    tokens.push_back(text.substr(at, 1 + random() % max_length));
  }
  return tokens;
}

TEST(TextStream, RandomSplitsOfRandomTexts) {
  std::mt19937 random(1);
  const std::vector<std::string> parts = {"a",        "b",    "ab",   "é",    "😀",    "👩‍👩‍👧",
                                          "漢",       "\xC3", "\xA9", "\xF0", "\x9F", "\xFF",
                                          "\xED\xA0", "\n",   "</s>", "<"};
  const auto random_text = [&](std::size_t max_parts) {
    std::string text = parts[random() % parts.size()];
    for (std::size_t n = random() % max_parts; n > 0; --n) text += parts[random() % parts.size()];
    return text;
  };
  int stopped = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random_text(30);
    std::vector<std::string> stops;
    for (std::size_t n = random() % 4; n > 0; --n) stops.push_back(random_text(4));
    const Outcome outcome = expected(text, stops);
    stopped += outcome.stopped;
    ASSERT_EQ(stream({text}, stops), outcome) << testing::PrintToString(stops);
    ASSERT_EQ(stream(split(text, random, 1), stops), outcome) << testing::PrintToString(stops);
    ASSERT_EQ(stream(split(text, random, 6), stops), outcome) << testing::PrintToString(stops);
  }
  EXPECT_GT(stopped, 1000);
}

TEST(TextStream, CharactersAreNeverShownInParts) {
  const std::string text = "a👩‍👩‍👧é漢😀b";
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    TextStream stream({"😀c", "b!"});
    std::string shown;
    for (const std::string& token : split(text, random, 3)) {
      shown += stream.push(token);
      EXPECT_EQ(whole_prefix(shown), shown.size());
    }
    EXPECT_EQ(shown, text.substr(0, text.size() - 1));
    EXPECT_EQ(stream.flush(), "b");
  }
}

TEST(TextStream, WhatIsHeldBack) {
  TextStream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80"
                        "b"),
            "😀b");
  EXPECT_EQ(stream.push("\xFF\x80"), "\xFF\x80");  // never a character
  EXPECT_EQ(stream.push("\xE2"), "");
  EXPECT_EQ(stream.push("\xE2\x82x"), "\xE2\xE2\x82x");  // the first E2 is broken by the second, that one by the x
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.flush(), "\xE2\x82");
  EXPECT_EQ(stream.flush(), "");
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStream, StopThatOverlapsItself) {
  TextStream stream({"aab"});
  EXPECT_EQ(stream.push("a"), "");
  EXPECT_EQ(stream.push("a"), "");
  EXPECT_EQ(stream.push("a"), "a");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(stream.push("bc"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.push("more"), "");
  EXPECT_EQ(stream.flush(), "");
}

TEST(TextStream, TheEarliestOfSeveralStops) {
  EXPECT_EQ(stream({"xabcd"}, {"bc", "abcd"}), (Outcome{"x", true}));
  EXPECT_EQ(stream({"x", "a", "b", "c", "d"}, {"bc", "abcd"}), (Outcome{"x", true}));
  EXPECT_EQ(stream({"x", "a", "b", "c", "e"}, {"bc", "abcd"}), (Outcome{"xa", true}));
  EXPECT_EQ(stream({"x", "a", "b", "c"}, {"bc", "abcd"}), (Outcome{"xa", true}));
}

TEST(TextStream, StopInsideACharacter) {
  TextStream stream({"\xA9"});  // the second byte of é
  EXPECT_EQ(stream.push("a\xC3"), "a");
  EXPECT_EQ(stream.push("\xA9"), "\xC3");
  EXPECT_TRUE(stream.stopped());

  TextStream partial({"\x9F\x98\x81"});
  EXPECT_EQ(partial.push("\xF0"), "");
  EXPECT_EQ(partial.push("\x9F\x98"), "");
  EXPECT_EQ(partial.push("\x80"), "😀");
}

TEST(TextStream, TheStopCanBePartOfTheText) {
  TextStream stream({"abc", "bd"}, true);
  EXPECT_EQ(stream.push("xa"), "x");
  EXPECT_EQ(stream.stop(), std::nullopt);
  EXPECT_EQ(stream.push("bd"), "abd");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.stop(), "bd");
  EXPECT_EQ(stream.push("y"), "");
  TextStream late({"bc", "bcd"}, true);
  EXPECT_EQ(late.push("ab"), "a");
  EXPECT_EQ(late.push("cde"), "bc") << "the first one of the list that is complete";
}

TEST(TextStream, EmptyStopIsRefused) { EXPECT_THROW(TextStream({"a", ""}), BadInput); }

}  // namespace
}  // namespace vitrine
