#include "constrain/cache.h"

#include <algorithm>

namespace vitrine::constrain {
namespace {

/// Sources with equal keys are equal.
std::string key_of(const Source& source) {
  std::string key{static_cast<char>('0' + static_cast<int>(source.kind)), source.has_white_space ? ' ' : '-'};
  key += source.text;
  for (const std::string& choice : source.choices) key += std::to_string(choice.size()) + ':' + choice;
  return key;
}

}  // namespace

std::shared_ptr<const Constraint> ConstraintCache::get(const Source& source) {
  const std::string key = key_of(source);
  if (std::shared_ptr<const Constraint> known = find(key)) return known;
  auto made = std::make_shared<const Constraint>(source, vocabulary());
  const std::lock_guard lock(mutex_);
  entries_.push_front({key, made});
  forget_oldest();
  return made;
}

std::shared_ptr<const Vocabulary> ConstraintCache::vocabulary() {
  std::call_once(has_vocabulary_, [&] {
    vocabulary_ = std::make_shared<const Vocabulary>(tokenizer_.target());
    tokens_ = std::make_shared<const StableTokens>(tokenizer_.target(), *vocabulary_);
  });
  return vocabulary_;
}

std::shared_ptr<const StableTokens> ConstraintCache::tokens() {
  vocabulary();
  return tokens_;
}

std::shared_ptr<const Constraint> ConstraintCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  if (at == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, at);
  forget_oldest();  // constraints grow while they are used
  return at->constraint;
}

void ConstraintCache::limit(std::size_t max_bytes) {
  const std::lock_guard lock(mutex_);
  max_bytes_ = max_bytes;
  forget_oldest();
}

void ConstraintCache::forget_oldest() {
  std::size_t bytes = 0;
  for (auto at = entries_.begin(); at != entries_.end();) {
    bytes += at->key.size() + at->constraint->memory_bytes();
    at = bytes > max_bytes_ && at != entries_.begin() ? entries_.erase(at) : std::next(at);
  }
}

}  // namespace vitrine::constrain
