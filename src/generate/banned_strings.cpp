#include "generate/banned_strings.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

}  // namespace

BannedStrings::BannedStrings(std::vector<std::string> texts, std::shared_ptr<const constrain::Vocabulary> vocabulary)
    : texts_(std::move(texts)), vocabulary_(std::move(vocabulary)) {
  if (texts_.size() > kMost) {
    throw BadInput("banned_strings", "expected at most {} texts, got {}", kMost, texts_.size());
  }
  for (const std::string& text : texts_) {
    if (text.empty()) throw BadInput("banned_strings", "expected texts, got an empty one");
    longest_ = std::max(longest_, text.size());
  }
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(vocabulary_->size()); ++id) {
    const std::string_view own = vocabulary_->bytes(id);
    const auto is_in = [&](const std::string& text) { return own.find(text) != std::string_view::npos; };
    if (std::any_of(texts_.begin(), texts_.end(), is_in)) whole_.push_back(id);
  }
}

std::string_view BannedStrings::bytes(std::int32_t id) const {
  return id < vocabulary_->size() ? vocabulary_->bytes(id) : std::string_view();
}

void BannedStrings::exclude(std::string_view end, std::span<float> scores) const {
  for (const std::int32_t id : whole_) {
    if (static_cast<std::size_t>(id) < scores.size()) scores[static_cast<std::size_t>(id)] = kBanned;
  }
  for (const std::string& text : texts_) {
    for (std::size_t n = std::min(end.size(), text.size() - 1); n > 0; --n) {
      if (end.ends_with(std::string_view(text).substr(0, n))) exclude_below(std::string_view(text).substr(n), scores);
    }
  }
}

/// Excludes the tokens that begin with `prefix`.
void BannedStrings::exclude_below(std::string_view prefix, std::span<float> scores) const {
  const std::int32_t node = vocabulary_->find_node(prefix);
  if (node < 0) return;
  for (std::int32_t i = node; i < vocabulary_->trie()[static_cast<std::size_t>(node)].end; ++i) {
    constrain::for_each_token(*vocabulary_, i, [&](std::int32_t id) {
      if (static_cast<std::size_t>(id) < scores.size()) scores[static_cast<std::size_t>(id)] = kBanned;
    });
  }
}

}  // namespace vitrine
