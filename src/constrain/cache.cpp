#include "constrain/cache.h"

#include <algorithm>

#include "constrain/sources.h"

namespace vitrine::constrain {

std::string Source::key() const {
  std::string all{static_cast<char>('0' + static_cast<int>(kind)), has_white_space ? ' ' : '-'};
  all += text;
  for (const std::string& choice : choices) all += std::to_string(choice.size()) + ':' + choice;
  return all;
}

std::shared_ptr<const Constraint> ConstraintCache::get(const Source& source) {
  return get(name(source.kind), source.key(), [&] { return parse_source(source, *vocabulary()); });
}

std::shared_ptr<const Constraint> ConstraintCache::get(std::string_view name, const std::string& key,
                                                       const std::function<Grammar()>& make) {
  if (std::shared_ptr<const Constraint> known = find(key)) return known;
  auto made = std::make_shared<const Constraint>(make(), name, vocabulary());
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
