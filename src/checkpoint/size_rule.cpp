#include "checkpoint/size_rule.h"

#include <charconv>
#include <optional>
#include <string>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;

/// Reads a rule from left to right, ignoring spaces.
class RuleReader {
 public:
  explicit RuleReader(std::string_view rule) : rule_(rule) {
    for (const char c : rule) {
      if (c != ' ') rest_ += c;
    }
  }

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.erase(0, word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail();
  }
  std::int64_t number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 1 || value > kMost) fail();
    rest_.erase(0, static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  bool at_end() const { return rest_.empty(); }
  [[noreturn]] void fail() const {
    throw BadInput("d_ff", "expected a number, or a rule as in \"8/3 d, round up to 64\", got \"{}\"", rule_);
  }

 private:
  std::string_view rule_;
  std::string rest_;
};

}  // namespace

std::int64_t size_by_rule(std::string_view rule, std::int64_t d_model) {
  if (d_model < 1 || d_model > kMost) throw BadInput("d_model", "expected 1 to {}, got {}", kMost, d_model);
  RuleReader reader(rule);
  const std::int64_t above = reader.number();
  const std::int64_t below = reader.take("/") ? reader.number() : 1;
  reader.take("*");
  reader.expect("d");
  std::int64_t step = 1;
  const bool rounds = reader.take(",");
  if (rounds) {
    reader.expect("roundupto");
    step = reader.number();
  }
  if (!reader.at_end()) reader.fail();
  const std::int64_t size = above * d_model;  // below 2^62
  if (!rounds && size % below != 0) {
    throw BadInput("d_ff", "\"{}\" of d_model {} is not a whole number: add \", round up to 64\"", rule, d_model);
  }
  __extension__ using Wide = __int128;
  const Wide unit = static_cast<Wide>(below) * step;
  const Wide rounded = (static_cast<Wide>(size) + unit - 1) / unit * step;
  if (rounded > kMost) throw BadInput("d_ff", "\"{}\" of d_model {} exceeds {}", rule, d_model, kMost);
  return static_cast<std::int64_t>(rounded);
}

}  // namespace vitrine
