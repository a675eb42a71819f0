// The work of a request for texts, whose response may have any interface's form.
#pragma once

#include <memory>
#include <string>

#include "serve/completion_request.h"
#include "serve/routes.h"

namespace vitrine {

/// Writes a response to a request for texts, whole or as a stream.
class TextReply {
 public:
  TextReply() = default;
  TextReply(const TextReply&) = delete;
  TextReply& operator=(const TextReply&) = delete;
  virtual ~TextReply() = default;

  /// The whole response, from the results of all sequences in their order.
  virtual std::string whole(std::span<const GenerateResult> results) = 0;
  /// The events that follow from a step of the engine, whose id is the number of the sequence.
  virtual std::string events(SequenceStep step) = 0;
  virtual std::string error_event(const RequestError& error) = 0;
  /// After the last step, or after an error.
  virtual std::string last_events() { return ""; }
  virtual const Usage& usage() const = 0;
  /// The content type of a stream. Only server-sent events have comments.
  virtual const char* stream_type() const { return kEventStream; }
  /// What the interface calls a field of a request in OpenAI's form; "": the same.
  virtual std::string_view own_name(std::string_view) const { return ""; }
  /// When what has happened; told before each part of the response.
  virtual void set_times(const JobTimes&) {}
};

/// `reply` may refer to `request`, which lives longer.
std::shared_ptr<PendingReply> texts_of(const ServedModel& model, std::shared_ptr<const CompletionRequest> request,
                                       std::unique_ptr<TextReply> reply, const RouteRequest& from);

}  // namespace vitrine
