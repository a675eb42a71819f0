// /v1/completions and /v1/chat/completions: the work of a request for texts, and its response.
#include <ctime>
#include <random>

#include "serve/completion_reply.h"
#include "serve/completion_request.h"
#include "serve/request_fields.h"
#include "serve/routes.h"

namespace vitrine {
namespace {

std::string event_of(const Json& json) { return "data: " + json_text(json) + "\n\n"; }

class Texts : public JobReply {
 public:
  Texts(const ServedModel& model, std::shared_ptr<const CompletionRequest> request, const RouteRequest& from)
      : JobReply(job_of(model, *request, from)),
        request_(std::move(request)),
        reply_(model, *request_, from.id, std::time(nullptr)) {}

  Usage usage() const override { return reply_.usage(); }
  HttpReply reply() override { return {200, json_text(reply_.whole(results_))}; }
  bool streams() const override { return request_->streams; }
  std::optional<std::chrono::seconds> silence() const override { return request_->silence; }
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
  CompletionReply reply_;
};

/// Counts the sequences that have ended, all of them after an error.
std::string Texts::events() {
  std::string events;
  for (SequenceStep& step : steps_) {
    if (step.error) {
      events += event_of(request_error_of(step.error).to_json());
      n_ended_ = request_->n_sequences();
      break;
    }
    if (step.result) ++n_ended_;
    for (const Json& chunk : reply_.chunks(std::move(step))) events += event_of(chunk);
  }
  steps_.clear();
  if (!has_ended()) return events;
  if (request_->streams_usage) events += event_of(reply_.usage_chunk());
  return events + "data: [DONE]\n\n";
}

template <class Parse>
std::shared_ptr<PendingReply> texts_of(Parse parse, const ServedModel& model, const RouteRequest& request) {
  auto parsed = std::make_shared<const CompletionRequest>(parse(model, request.body, std::random_device{}()));
  return std::make_shared<Texts>(model, std::move(parsed), request);
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> complete(const ServedModel& model, const RouteRequest& request) {
  return texts_of(parse_completion, model, request);
}

std::shared_ptr<PendingReply> complete_chat(const ServedModel& model, const RouteRequest& request) {
  return texts_of(parse_chat, model, request);
}

}  // namespace routes

}  // namespace vitrine
