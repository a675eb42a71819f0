// The options of speculative decoding, which the commands share that decode.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/options.h"
#include "generate/speculation.h"

namespace vitrine::cli {

struct SpeculationOptions {
  std::string speculate{};  ///< lookup, draft or none; "": not given.
  std::string draft{};      ///< A model; "": none.
};
/// Adds --speculate and --draft to the command of `options`. `otherwise`: what is done without them.
void add_speculation(Command& command, Options& options, SpeculationOptions& own, const char* otherwise);

/// How the sequences of a session are decoded, with the draft model, if there is one.
class OpenedSpeculation {
 public:
  /// `otherwise` as in add_speculation(). The draft's passes use `pool`, or the session's if that is null. Throws
  /// BadInput for a draft with another vocabulary, UsageError for options that contradict each other, and what opening
  /// a model throws.
  OpenedSpeculation(const Options& options, const SpeculationOptions& own, const Session& session,
                    const char* otherwise, ThreadPool* pool = nullptr);
  Speculation* get() { return speculation_ ? &*speculation_ : nullptr; }  ///< Null: token by token.

 private:
  std::optional<Session> draft_;
  std::unique_ptr<const Tokenizer> own_tokenizer_, draft_tokenizer_;  // if the sessions have none
  std::optional<Speculation> speculation_;
};

}  // namespace vitrine::cli
