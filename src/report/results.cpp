#include "report/results.h"

namespace vitrine {
namespace {

Json sampling_json(const SamplingConfig& config, const std::vector<std::string>& from_checkpoint) {
  Json object = {{"from_generation_config", from_checkpoint}};
  for_each_sampling_value(config, [&](const char* name, auto value) { object[name] = value; });
  return object;
}

Json logprobs_json(const GenerateResult& result, const Tokenizer* tokenizer) {
  Json list = Json::array();
  const auto entry = [&](std::int32_t id, double logprob) {
    return Json{{"id", id}, {"piece", piece_of(tokenizer, id)}, {"logprob", logprob}};
  };
  for (const TokenReport& token : result.logprobs) {
    Json top = Json::array();
    for (const TokenLogprob& t : token.top) top.push_back(entry(t.id, t.logprob));
    Json object = entry(token.id, token.logprob);
    object["top"] = top;
    if (token.removed) object["removed"] = *token.removed;
    list.push_back(object);
  }
  return list;
}

}  // namespace

std::string json_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string piece_of(const Tokenizer* tokenizer, std::int32_t id) {
  return tokenizer != nullptr && id < tokenizer->target().vocab_size() ? tokenizer->target().piece(id) : "";
}

Json generate_json(const GenerateRequest& request, const std::vector<std::string>& from_checkpoint,
                   const GenerateResult& result, const GenerateTimings& timings, const Tokenizer* tokenizer) {
  Json object = {{"text", result.text},
                 {"ids", result.ids},
                 {"prompt_ids", request.prompt},
                 {"finish_reason", name_of(result.finish_reason)},
                 {"seed", request.seed},
                 {"sampling", sampling_json(request.sampling, from_checkpoint)},
                 {"speculation", Json()},
                 {"timings",
                  {{"prefill_tokens_per_s", timings.prefill_tokens_per_s},
                   {"decode_tokens_per_s", timings.decode_tokens_per_s},
                   {"cached_tokens", result.cached_tokens}}}};
  if (request.wants_score) add_hypotheses(result, object);
  if (!request.source.empty()) object["source_ids"] = request.source;
  if (request.n_logprobs > 0) object["logprobs"] = logprobs_json(result, tokenizer);
  return object;
}

Json speculation_json(const Speculation* speculation, const GenerateResult& result) {
  if (speculation == nullptr || !result.speculation) return Json();
  const SpeculationCounts& counts = *result.speculation;
  return {{"method", speculation->method},
          {"drafted", counts.drafted},
          {"accepted", counts.accepted},
          {"rounds", counts.rounds}};
}

Json train_json(const TrainResult& r) {
  Json json = {{"step", r.step},
               {"loss", r.loss},
               {"val_loss", r.val_loss ? Json(*r.val_loss) : Json()},
               {"checkpoint", r.checkpoint}};
  if (!r.cluster.empty()) json["cluster"] = Json::parse(r.cluster);
  return json;
}

Json progress_json(const TrainProgress& p) {
  return {{"step", p.step},
          {"steps", p.steps},
          {"loss", p.loss},
          {"lr", p.lr},
          {"grad_norm", p.grad_norm},
          {"tokens_per_s", p.tokens_per_s},
          {"val_loss", p.val_loss ? Json(*p.val_loss) : Json()}};
}

void add_hypotheses(const GenerateResult& result, Json& object) {
  Json hypotheses = Json::array();
  for (const TextHypothesis& h : result.hypotheses) {
    hypotheses.push_back({{"text", h.text}, {"ids", h.ids}, {"score", h.score}});
  }
  object["score"] = result.score;
  object["hypotheses"] = std::move(hypotheses);
}

}  // namespace vitrine
