// Compiled constraints by their source, for the requests of one model.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "constrain/constraint.h"
#include "constrain/stable_tokens.h"

namespace vitrine::constrain {

/// Thread-safe. Constraints in use outlive the cache and what it forgets.
class ConstraintCache {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{64} << 20;

  /// `tokenizer` outlives the cache.
  explicit ConstraintCache(const Tokenizer& tokenizer, std::size_t max_bytes = kDefaultBytes)
      : tokenizer_(tokenizer), max_bytes_(max_bytes) {}

  /// The constraint of a source, compiled on the calling thread unless it is known. Throws what Constraint throws.
  std::shared_ptr<const Constraint> get(const Source& source);
  /// The same of a grammar, which is made unless `key` is known. `name` is what messages call it; keys of different
  /// grammars differ.
  std::shared_ptr<const Constraint> get(std::string_view name, const std::string& key,
                                        const std::function<Grammar()>& make);
  std::shared_ptr<const Vocabulary> vocabulary();
  std::shared_ptr<const StableTokens> tokens();
  const Tokenizer& tokenizer() const { return tokenizer_.target(); }
  /// Forgets constraints beyond so many bytes; the one used last stays.
  void limit(std::size_t max_bytes);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Constraint> constraint;
  };
  std::shared_ptr<const Constraint> find(const std::string& key);
  void forget_oldest();

  const Tokenizer& tokenizer_;
  std::once_flag has_vocabulary_;
  std::shared_ptr<const Vocabulary> vocabulary_;  // made by the first constraint
  std::shared_ptr<const StableTokens> tokens_;
  std::mutex mutex_;
  std::size_t max_bytes_;
  std::list<Entry> entries_;  // the one used last first
};

}  // namespace vitrine::constrain
