// Answers in the form of Anthropic's interface (https://docs.claude.com/en/api/messages): a message of blocks, or the
// events of a stream.
#pragma once

#include <optional>
#include <string>

#include "base/ordered_json.h"
#include "serve/doors.h"

namespace vitrine {

/// An error as that interface has it: `{"type": "error", "error": {"type", "message"}}`.
Json messages_error(const RequestError& error);

/// The response to a request of one sequence.
class MessagesReply : public DoorReply {
 public:
  /// `id` is the response's number. Keeps references to `model` and `request`.
  MessagesReply(const ServedModel& model, const CompletionRequest& request, const std::string& id);

  std::string whole(std::span<const GenerateResult> results) override;
  /// The events of the message: the first ones with the first step, the last ones with the result.
  std::string events(SequenceStep step) override;
  std::string error_event(const RequestError& error) override;

 private:
  enum class Block : std::uint8_t { none, thinking, text, call };

  OrderedJson message(OrderedJson content) const;
  OrderedJson usage_json() const;
  OrderedJson call_block(const answer::AnswerDelta::Call& call, OrderedJson input) const;
  void add_reason(const GenerateResult& result, bool has_calls, OrderedJson& json) const;
  // Of a stream.
  std::string begin();
  std::string open(Block kind, OrderedJson block);
  std::string close();
  std::string piece(OrderedJson delta) const;
  std::string piece(Block kind, const std::string& text);
  std::string call_piece(const answer::AnswerDelta::Call& call);
  std::string pieces(const answer::AnswerDelta& delta);
  std::string end(const GenerateResult& result);

  std::string id_;
  bool has_begun_ = false;
  Block block_ = Block::none;  // that is open
  std::size_t n_blocks_ = 0;   // that have been opened
};

}  // namespace vitrine
