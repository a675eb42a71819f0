// A line of a file to learn from, in any of the formats that such files have.
//
// Each line is one JSON object. Its keys tell the formats apart:
//   messages (+ tools)              a conversation, as chat templates read it
//   prompt, completion              messages; or two texts, the user's and the assistant's
//   instruction (+ input), output   Alpaca
//   conversations (+ system)        ShareGPT: "from" and "value"
//   text                            a text, without a template
//   input_ids, labels               ids; a label of -100 marks an id that is not learned
//   (prompt,) chosen, rejected      a pair to compare: messages, texts, or ids
// Sources: the documentation of TRL and of LLaMA-Factory for the formats.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "template/heap.h"
#include "template/value.h"

namespace vitrine {

/// What one line holds, in one form: messages, a text, or ids.
struct Conversation {
  enum class Form : std::uint8_t { messages, text, ids };

  Form form = Form::messages;
  // messages
  jinja::Value messages, tools;  ///< A list; a list or none. The heap of their line owns them.
  std::size_t n_given = 0;       ///< The first messages, which are a prompt: nothing of them is learned.
  bool is_plain = false;         ///< Two texts, a prompt and an answer: they need no template.
  // text
  std::string_view text;
  // ids
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> learned;  ///< 1 for each id that is learned.
};

/// A line of a file. Move-only: it owns the values of its conversations.
struct ConversationLine {
  std::unique_ptr<jinja::Heap> heap;
  std::vector<Conversation> conversations;  ///< One, or of a pair two: chosen, rejected.

  bool is_pair() const { return conversations.size() == 2; }
};

/// Parses a line; `where` names it in errors. Throws BadInput for a line in none of the formats.
ConversationLine parse_conversation(std::string_view line, const std::string& where);

/// Calls `take(line, where, number)` for each line of a JSON Lines file that is not blank. `number` counts them from 0;
/// `where` names the file and the number of the line, from 1. Throws BadInput if the file cannot be read, or has no
/// such line.
void for_each_line(
    const std::string& path,
    const std::function<void(std::string_view line, const std::string& where, std::int64_t number)>& take);

}  // namespace vitrine
