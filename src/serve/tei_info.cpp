// What text-embeddings-inference says about its model and tokenizer: /info, /decode, and /tokenize with `inputs`.
// Source: huggingface/text-embeddings-inference, docs/openapi.json.
#include "serve/tei_info.h"

#include "base/version.h"
#include "serve/prompts.h"
#include "serve/reading.h"
#include "serve/round_budget.h"

namespace vitrine {
namespace {

/// The mode of the folder's Pooling; "splade" for weights of words; "" for neither.
std::string pooling_of(const SentenceConfig& folder) {
  if (folder.is_sparse()) return "splade";
  for (const TextStep& step : folder.steps.steps) {
    const auto* const pool = std::get_if<PoolStep>(&step);
    if (pool == nullptr || pool->modes.size() > 1) continue;
    const auto mode = pool->modes.front();
    return mode == PoolStep::Mode::last ? "last_token" : std::string(words(mode)[static_cast<std::size_t>(mode)]);
  }
  return "";
}

/// The kind of the model: what /embed, /rerank or /predict do with it. A model that scores pairs by its next word has
/// no labels.
Json model_type(const ServedModel& model) {
  const auto& head = model.model->config().task;
  if (makes_vectors(model.model->config(), model.sentences)) {
    return {{"embedding", {{"pooling", pooling_of(model.sentences)}}}};
  }
  const std::vector<std::string> labels = head ? head->labels : std::vector<std::string>();
  Json by_id = Json::object(), by_label = Json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    by_id[std::to_string(i)] = labels[i];
    by_label[labels[i]] = i;
  }
  const bool ranks = !head || (head->task == TaskHead::Task::classify && head->n_labels() == 1);
  return {{ranks ? "reranker" : "classifier", {{"id2label", by_id}, {"label2id", by_label}}}};
}

/// The tokens of a text; `special` are those that the tokenizer puts around it. `start` and `stop` are not known.
Json tokens_json(const ServedModel& model, const std::string& text, SpecialTokens policy) {
  const Tokenizer& tokenizer = tokenizer_of(model, "inputs");
  const bool adds = policy == SpecialTokens::apply;
  const std::vector<std::int32_t> ids = tokenizer.encode(text, policy);
  const std::int64_t first = adds ? prefix_of(tokenizer) : 0;
  const std::int64_t end = std::ssize(ids) - (adds ? model.sentences.n_suffix : 0);
  Json tokens = Json::array();
  for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
    const std::int32_t id = ids[static_cast<std::size_t>(i)];
    tokens.push_back({{"id", id},
                      {"text", tokenizer.piece(id)},
                      {"special", i < first || i >= end},
                      {"start", nullptr},
                      {"stop", nullptr}});
  }
  return tokens;
}

std::string decoded(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, bool skips_special) {
  if (skips_special) return tokenizer.decode(ids);
  std::string text;
  std::optional<std::int32_t> previous;
  for (const std::int32_t id : ids) {
    text += tokenizer.spelled_after(previous, id);
    previous = id;
  }
  return text;
}

}  // namespace

Json tei_tokens(const ServedModel& model, RequestFields& fields) {
  const auto inputs = fields.get<std::vector<std::string>>("inputs", "a string or a list of strings");
  SentenceConfig folder = model.sentences;
  read_prompt_name(folder, fields);
  const auto policy = fields.flag("add_special_tokens").value_or(true) ? SpecialTokens::apply : SpecialTokens::none;
  fields.finish();
  if (inputs->empty()) throw RequestError(kEmpty, "inputs", "expected at least one text, got none");
  if (inputs->size() > kMaxTexts) {
    throw RequestError(kTooMany, "inputs", "expected at most {} texts, got {}", kMaxTexts, inputs->size());
  }
  Json all = Json::array();
  for (const std::string& text : *inputs) all.push_back(tokens_json(model, folder.prepared(text), policy));
  return all;
}

namespace routes {

Json tei_decode(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  read_model(model, fields);
  const Json* const ids = fields.find("ids");
  const bool skips = fields.flag("skip_special_tokens").value_or(true);
  fields.finish();
  if (ids == nullptr || !ids->is_array()) fields.fail("ids", "expected a list of ids, or a list of such lists");
  if (ids->size() > kMaxTexts && !ids->empty() && ids->front().is_array()) {
    throw RequestError(kTooMany, "ids", "expected at most {} texts, got {}", kMaxTexts, ids->size());
  }
  const Tokenizer& tokenizer = tokenizer_of(model, "ids");
  Json texts = Json::array();
  const auto add = [&](const Json& list, const std::string& where) {
    texts.push_back(decoded(tokenizer, read_ids(list, where, tokenizer.vocab_size()), skips));
  };
  if (ids->empty() || !ids->front().is_array()) {
    add(*ids, "ids");
  } else {
    for (std::size_t i = 0; i < ids->size(); ++i) add((*ids)[i], fmt::format("ids[{}]", i));
  }
  return texts;
}

Json tei_info(const ServedModel& model, const RouteRequest&) {
  const std::int64_t folder = model.sentences.max_tokens;
  return {{"model_id", model.names.front()},
          {"model_sha", nullptr},
          {"model_dtype", "float32"},
          {"model_type", model_type(model)},
          {"served_model_name", model.names.front()},
          {"max_concurrent_requests", SchedulerConfig().max_queue},
          {"max_input_length", folder > 0 ? std::min(folder, model.max_seq_len) : model.max_seq_len},
          {"max_batch_tokens", RoundBudget::kMax},
          {"max_batch_requests", nullptr},
          {"max_client_batch_size", kMaxTexts},
          {"auto_truncate", true},
          {"tokenization_workers", 1},
          {"version", version()},
          {"sha", nullptr},
          {"docker_label", nullptr}};
}

}  // namespace routes

}  // namespace vitrine
