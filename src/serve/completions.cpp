// /v1/completions and /v1/chat/completions: the work of a request for texts, and its response.
#include <ctime>
#include <random>

#include "serve/completion_reply.h"
#include "serve/completion_request.h"
#include "serve/request_fields.h"
#include "serve/routes.h"
#include "serve/texts.h"

namespace vitrine {
namespace {

std::string event_of(const Json& json) { return "data: " + json_text(json) + "\n\n"; }

/// Responses in OpenAI's form.
class Completions : public TextReply {
 public:
  Completions(const ServedModel& model, const CompletionRequest& request, const std::string& id)
      : request_(request), reply_(model, request, id, std::time(nullptr)) {}

  std::string whole(std::span<const GenerateResult> results) override { return json_text(reply_.whole(results)); }
  std::string events(SequenceStep step) override {
    std::string events;
    for (const Json& chunk : reply_.chunks(std::move(step))) events += event_of(chunk);
    return events;
  }
  std::string error_event(const RequestError& error) override { return event_of(error.to_json()); }
  std::string last_events() override {
    return (request_.streams_usage ? event_of(reply_.usage_chunk()) : "") + "data: [DONE]\n\n";
  }
  const Usage& usage() const override { return reply_.usage(); }

 private:
  const CompletionRequest& request_;
  CompletionReply reply_;
};

class Texts : public JobReply {
 public:
  Texts(const ServedModel& model, std::shared_ptr<const CompletionRequest> request, std::unique_ptr<TextReply> reply,
        const RouteRequest& from)
      : JobReply(job_of(model, *request, from)), request_(std::move(request)), reply_(std::move(reply)) {}

  /// Errors name fields as the interface does.
  void submit(Scheduler& scheduler) override {
    try {
      JobReply::submit(scheduler);
    } catch (const RequestError& e) {
      const std::string_view name = reply_->own_name(e.where());
      if (name.empty()) throw;
      throw e.renamed(std::string(name));
    }
  }
  Usage usage() const override { return reply_->usage(); }
  HttpReply reply() override {
    reply_->set_times(times());
    return {200, reply_->whole(results_)};
  }
  bool streams() const override { return request_->streams; }
  const char* stream_type() const override { return reply_->stream_type(); }
  std::optional<std::chrono::seconds> silence() const override {
    return std::string_view(stream_type()) == kEventStream ? request_->silence : std::nullopt;
  }
  bool has_long_events() const override { return !request_->recorders.empty(); }
  std::string events() override;

 private:
  static std::shared_ptr<Job> job_of(const ServedModel& model, const CompletionRequest& request,
                                     const RouteRequest& from) {
    std::vector<GenerateRequest> sequences;
    for (std::size_t i = 0; i < request.n_sequences(); ++i) sequences.push_back(request.sequence(i, model.defaults));
    return std::make_shared<Job>(from.client, std::move(sequences), request.streams, from.notify);
  }

  std::shared_ptr<const CompletionRequest> request_;
  std::unique_ptr<TextReply> reply_;
};

/// Counts the sequences that have ended, all of them after an error.
std::string Texts::events() {
  std::string events;
  reply_->set_times(times());
  for (SequenceStep& step : steps_) {
    if (step.error) {
      events += reply_->error_event(request_error_of(step.error));
      n_ended_ = request_->n_sequences();
      break;
    }
    if (step.result) ++n_ended_;
    events += reply_->events(std::move(step));
  }
  steps_.clear();
  return has_ended() ? events + reply_->last_events() : events;
}

template <class Parse>
std::shared_ptr<PendingReply> completions_of(Parse parse, const ServedModel& model, const RouteRequest& from) {
  auto request = std::make_shared<const CompletionRequest>(parse(model, from.body, std::random_device{}()));
  auto reply = std::make_unique<Completions>(model, *request, from.id);
  return texts_of(model, std::move(request), std::move(reply), from);
}

}  // namespace

std::shared_ptr<PendingReply> texts_of(const ServedModel& model, std::shared_ptr<const CompletionRequest> request,
                                       std::unique_ptr<TextReply> reply, const RouteRequest& from) {
  return std::make_shared<Texts>(model, std::move(request), std::move(reply), from);
}

namespace routes {

std::shared_ptr<PendingReply> complete(const ServedModel& model, const RouteRequest& request) {
  return completions_of(parse_completion, model, request);
}

std::shared_ptr<PendingReply> complete_chat(const ServedModel& model, const RouteRequest& request) {
  return completions_of(parse_chat, model, request);
}

}  // namespace routes

}  // namespace vitrine
