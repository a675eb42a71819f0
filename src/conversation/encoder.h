// Turns conversations into samples: ids, and which of them are learned.
//
// There are two ways to find what the assistant says:
//   marks       the ids of `{% generation %}`, exactly as transformers 5.23 masks them
//   difference  of assistant message i, the ids of render(messages up to i) from their first difference to
//               render(messages before i, with a prompt) up to the first id that ends a turn
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conversation/conversation.h"
#include "template/chat_template.h"
#include "tokenizer/read/chat_templates.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

struct ConversationOptions {
  enum class Mask : std::uint8_t { automatic, marks, difference };  ///< automatic: marks if the template has them.
  enum class Learn : std::uint8_t { assistant, last, all };

  Mask mask = Mask::automatic;
  Learn learn = Learn::assistant;  ///< last: only the assistant's last message. all: every id.
  TemplateClock now;               ///< What templates read as the date and time.
};

struct Sample {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> learned;  ///< 1 for each id that is learned.

  /// The number of ids that are learned and follow another id, which predicts them.
  std::int64_t n_learned() const;
};

/// What a model needs to read conversations.
struct ConversationModel {
  ChatTemplates templates;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::int32_t> stop_ids;  ///< Of the model's config, in addition to the tokenizer's own.
  std::string where;                   ///< The model's name in messages.
};

/// The files that a ConversationModel is read from.
struct ConversationFiles {
  std::string model;          ///< A folder or a GGUF file; "": only a tokenizer.
  std::string tokenizer;      ///< For load_tokenizer(); "": the model's.
  std::string chat_template;  ///< A file with a template to use in place of the model's; "": the model's own.
  TokenizerOptions options;
};

/// Reads templates, tokenizer and special ids, but no weights. A model without a template is not an error: text and ids
/// need none. Throws what load_tokenizer() and load_chat_templates() throw.
ConversationModel open_conversation_model(const ConversationFiles& files);

/// Encodes conversations for one model. Thread-safe.
class ConversationEncoder {
 public:
  /// Throws TemplateError for a template that cannot be parsed, and BadInput for
  /// Mask::marks with a template that has none.
  ConversationEncoder(ConversationModel model, const ConversationOptions& options);

  /// The samples of a conversation: one, or one for each turn if the template renders a turn in another way once
  /// others follow. Throws BadInput, at `where`, for a conversation that cannot be encoded.
  std::vector<Sample> encode(const Conversation& conversation, const std::string& where) const;

  /// The ids that end a turn, in ascending order: the model's, the tokenizer's, eos_token, and the special token that
  /// the template writes after an answer.
  const std::vector<std::int32_t>& end_ids() const { return end_ids_; }
  bool learns_end(const Sample& sample) const;

 private:
  struct Template {
    ChatTemplate parsed;
    bool has_marks;
  };
  class Turns;

  std::vector<Sample> encode_messages(const Conversation& conversation) const;
  std::vector<Sample> encode_difference(Turns& turns) const;
  std::vector<Sample> encode_marks(Turns& turns) const;
  Sample encode_plain(std::string_view prompt, std::string_view text) const;
  Sample encode_ids(const Conversation& conversation) const;
  std::optional<Template> parse(const char* name) const;
  const Template& template_for(bool has_tools) const;
  void find_ends();
  bool is_end(std::int32_t id) const;

  ConversationModel model_;
  ConversationOptions options_;
  std::optional<Template> default_, tool_use_;
  std::optional<std::int32_t> eos_;  ///< What ends a text that no template has made.
  std::vector<std::int32_t> end_ids_;
};

}  // namespace vitrine
