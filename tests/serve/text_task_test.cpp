// Texts of several requests in one pass.
#include "serve/text_task.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace vitrine::test {
namespace {

using Texts = std::vector<std::vector<std::int32_t>>;

/// A reading whose value of a text is the sum of its ids, and the passes that it had: the number of texts of each.
struct Sums {
  std::vector<std::size_t> passes;

  TextReading reading(const std::string& kind = "sums") {
    return {kind, [this](const GenerateContext&, const TextIds& texts, const ReceiveVector& receive) {
              passes.push_back(texts.ids.size());
              for (std::size_t i = 0; i < texts.ids.size(); ++i) {
                float sum = 0;
                for (const std::int32_t id : texts.ids[i]) sum += static_cast<float>(id);
                if (sum < 0) throw BadInput("text", "negative");
                receive(i, {&sum, 1});
              }
            }};
  }
  std::shared_ptr<TextTask> task(Texts texts, const std::string& kind = "sums",
                                 std::optional<ModifierList> modifiers = {}) {
    return std::make_shared<TextTask>(0, std::move(texts), Texts{}, std::move(modifiers), reading(kind), [] {});
  }
};

TextRound run(const std::list<std::shared_ptr<TextTask>>& tasks, std::int64_t n_rows) {
  TextRound round = next_text_round(tasks, n_rows);
  read_text_round({}, round);
  return round;
}

std::vector<float> values_of(TextTask& task) {
  std::vector<float> values;
  const auto taken = task.take();
  for (const auto& value : taken.value()) values.push_back(value.at(0));
  return values;
}

TEST(TextRounds, TextsOfSeveralTasksShareAPass) {
  Sums sums;
  const auto a = sums.task({{1, 2}, {3}}), b = sums.task({{4, 5, 6}}), c = sums.task({{7}});
  const TextRound round = run({a, b, c}, 7);
  EXPECT_EQ(sums.passes, (std::vector<std::size_t>{4}));
  EXPECT_EQ(round.n_texts, 4);
  EXPECT_EQ(round.n_tokens, 7);
  EXPECT_EQ(round.parts.size(), 3U);
  EXPECT_EQ(values_of(*a), (std::vector<float>{3, 3}));
  EXPECT_EQ(values_of(*b), std::vector<float>{15});
  EXPECT_EQ(values_of(*c), std::vector<float>{7});
}

TEST(TextRounds, APassIsBoundedByTokens) {
  Sums sums;
  const auto a = sums.task({{1, 2, 3}, {4, 5}}), b = sums.task({{6, 7}, {8}}), c = sums.task({{9}});
  TextRound round = run({a, b, c}, 4);
  EXPECT_EQ(round.n_tokens, 4) << "three tokens of a, none of b's two, and one of c";
  EXPECT_FALSE(a->has_ended());
  EXPECT_TRUE(c->has_ended());
  round = run({b, a}, 1);
  EXPECT_EQ(round.n_tokens, 2) << "at least one text";
  round = run({a, b}, 3);
  EXPECT_EQ(values_of(*a), (std::vector<float>{6, 9}));
  EXPECT_EQ(values_of(*b), (std::vector<float>{13, 8}));
}

TEST(TextRounds, OnlyEqualReadingsShareAPass) {
  Sums sums;
  const ModifierList changed{.controls = {AppliedControl{std::make_shared<const ControlVector>()}}};
  const auto a = sums.task({{1}}), other = sums.task({{2}}, "other"), modified = sums.task({{3}}, "sums", changed);
  const auto again = sums.task({{4}}, "sums", changed), alone = sums.task({{5}}, ""), last = sums.task({{6}}, "");
  std::list<std::shared_ptr<TextTask>> tasks = {a, other, modified, again, alone, last};
  while (!tasks.empty()) {
    run(tasks, 100);
    tasks.remove_if([](const auto& task) { return task->has_ended(); });
  }
  EXPECT_EQ(sums.passes, (std::vector<std::size_t>{1, 1, 2, 1, 1}));
}

TEST(TextRounds, AnErrorEndsItsTaskAlone) {
  Sums sums;
  const auto good = sums.task({{1}, {2}}), bad = sums.task({{3}, {-4}}), other = sums.task({{5}});
  run({good, bad, other}, 100);
  EXPECT_EQ(values_of(*good), (std::vector<float>{1, 2}));
  EXPECT_EQ(values_of(*other), std::vector<float>{5});
  EXPECT_THROW(bad->take(), BadInput);
}

}  // namespace
}  // namespace vitrine::test
