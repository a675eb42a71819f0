// What doors share: routes whose requests and answers have another interface's form, and are those of a chat.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "serve/texts.h"

namespace vitrine {

/// An event of a stream, named as its `type` is.
std::string named_event(const OrderedJson& json);

/// Adds a text to another one, with the separator between them if neither is empty.
void append_text(std::string& text, std::string_view separator, std::string_view more);

/// A response to a request of one sequence: its usage, and its answer, taken apart if it is.
class DoorReply : public TextReply {
 public:
  const Usage& usage() const override { return usage_; }

 protected:
  /// Keeps references.
  DoorReply(const ServedModel& model, const CompletionRequest& request);

  /// Counts the tokens of a text that has ended.
  void count(const GenerateResult& result);
  /// What a piece of the text adds to the answer, and what was held back at its end.
  answer::AnswerDelta append(std::string_view text);
  answer::AnswerDelta finish();
  answer::AnswerDelta whole_answer(std::string_view text);
  /// Whether the answer so far has calls.
  bool has_calls() const { return reader_ && !reader_->answer().calls.empty(); }
  std::string call_id(const answer::AnswerDelta::Call& call) const;

  const ServedModel& model_;
  const CompletionRequest& request_;
  Usage usage_;

 private:
  std::optional<answer::AnswerReader> reader_;  // none: the text is nothing but content
};

}  // namespace vitrine
