// /infill, as of llama-server: the text between two others. The fields of the response are those of llama-server that
// clients read. Source: ggml-org/llama.cpp, tools/server/README.md and server-task.cpp (to_json_non_oaicompat).
#include <algorithm>
#include <random>

#include "serve/completion_request.h"
#include "serve/request_fields.h"
#include "serve/routes.h"

namespace vitrine {
namespace {

class Infill : public JobReply {
 public:
  Infill(const ServedModel& model, CompletionRequest request, const RouteRequest& from)
      : JobReply(std::make_shared<Job>(from.client, std::vector{request.sequence(0, model.defaults)}, request.streams,
                                       from.notify)),
        request_(std::move(request)),
        tokenizer_(model.tokenizer) {
    usage_.prompt_tokens = std::ssize(request_.prompts.front().ids);
  }

  Usage usage() const override { return usage_; }
  HttpReply reply() override {
    count(results_.front());
    usage_.completion_tokens = std::ssize(results_.front().ids);
    return {200, json_text(end(results_.front(), results_.front().text, results_.front().ids))};
  }
  bool streams() const override { return request_.streams; }
  std::optional<std::chrono::seconds> silence() const override { return request_.silence; }
  std::string events() override;

 private:
  Json probabilities(std::span<const TokenReport> tokens) const {
    Logprobs all(true, request_.n_logprobs(), TokenTexts(tokenizer_, std::nullopt), request_.logprobs.are_sampled);
    for (const TokenReport& token : tokens) all.add(token);
    return all.take()["content"];
  }
  void count(const GenerateResult& result) { usage_.cached_tokens = result.cached_tokens; }
  Json part(const std::string& text, const std::vector<std::int32_t>& ids) const;
  Json end(const GenerateResult& result, const std::string& text, const std::vector<std::int32_t>& ids) const;

  CompletionRequest request_;
  const Tokenizer* tokenizer_;
  Usage usage_;
};

Json Infill::part(const std::string& text, const std::vector<std::int32_t>& ids) const {
  return {{"index", 0},
          {"content", text},
          {"tokens", ids},
          {"stop", false},
          {"tokens_predicted", usage_.completion_tokens},
          {"tokens_evaluated", usage_.prompt_tokens}};
}

/// The whole response, and the last event of a stream.
Json Infill::end(const GenerateResult& result, const std::string& text, const std::vector<std::int32_t>& ids) const {
  Json json = part(text, ids);
  json["stop"] = true;
  json["model"] = request_.model;
  json["stop_type"] = result.finish_reason == FinishReason::length ? "limit" : result.stop_token ? "eos" : "word";
  json["tokens_cached"] = usage_.cached_tokens;
  json["truncated"] = false;
  if (request_.reports_logprobs && !request_.streams) json["completion_probabilities"] = probabilities(result.logprobs);
  return json;
}

/// An event for each token; the last one has no text.
std::string Infill::events() {
  std::string events;
  const auto add = [&](const Json& json) { events += "data: " + json_text(json) + "\n\n"; };
  for (SequenceStep& step : steps_) {
    if (step.error) {
      add(request_error_of(step.error).to_json());
      n_ended_ = 1;
      break;
    }
    std::vector<std::int32_t> ids;
    for (const TokenReport& token : step.tokens) ids.push_back(token.id);
    usage_.completion_tokens += std::ssize(ids);
    if (!ids.empty() || !step.text.empty()) {
      Json own = part(step.text, ids);
      if (request_.reports_logprobs) own["completion_probabilities"] = probabilities(step.tokens);
      add(own);
    }
    if (!step.result) continue;
    n_ended_ = 1;
    count(*step.result);
    add(end(*step.result, "", {}));
  }
  steps_.clear();
  return events;
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> infill(const ServedModel& model, const RouteRequest& request) {
  return std::make_shared<Infill>(model, parse_infill(model, request.body, std::random_device{}()), request);
}

}  // namespace routes

}  // namespace vitrine
