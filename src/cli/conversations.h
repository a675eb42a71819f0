// The options of commands that read conversations.
#pragma once

#include <string>

#include "cli/options.h"
#include "conversation/encoder.h"

namespace vitrine::cli {

struct ConversationKeys {
  std::string chat_template, mask = "auto", learn = "assistant", now;

  /// Throws BadInput for a time that cannot be read.
  ConversationOptions options() const;
};

/// Adds --template, --mask, --learn and --now.
void add_conversation_keys(Command& command, ConversationKeys& keys);

/// Adds `data inspect` to `group`.
void add_inspect(Command& group);

}  // namespace vitrine::cli
