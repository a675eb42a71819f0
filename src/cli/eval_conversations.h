// vitrine eval on conversations and on pairs of answers.
#pragma once

#include <string>

#include "cli/conversations.h"
#include "cli/options.h"
#include "train/preference.h"

namespace vitrine::cli {

struct PreferenceKeys {
  std::string path, objective = "dpo";
  double beta = 0.1, label_smoothing = 0, gamma = 0;

  PreferenceOptions options() const;
};

/// Adds --pairs, --objective, --beta, --label-smoothing and --gamma.
void add_preference_keys(Command& command, PreferenceKeys& keys);

/// Prints the loss of what is learned in a file of conversations. `model` is the session's path.
void eval_conversations(const Options& options, const ConversationKeys& keys, const Session& session,
                        const std::string& model, const std::string& path);

/// Prints the loss, accuracy and margin of a file of pairs. The reference is the model without its adapters.
void eval_preferences(const Options& options, const ConversationKeys& keys, const PreferenceKeys& preference,
                      const Session& session, const std::string& model, const std::string& path);

}  // namespace vitrine::cli
