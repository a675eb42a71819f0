// /v1/rerank and /v2/rerank (Jina, Cohere, vLLM), /rerank (text-embeddings-inference, and those of the former), and
// /v1/score (vLLM).
#include "serve/foreign_fields.h"
#include "serve/prompts.h"
#include "serve/reading.h"

namespace vitrine {
namespace {

/// The model and its modifiers, which all of these requests may name.
struct Chosen {
  std::string name;
  std::optional<ModifierList> modifiers;
};
Chosen read_chosen(const ServedModel& model, RequestFields& fields) {
  ChosenModel chosen = read_model(model, fields);
  std::optional<ModifierList> modifiers = chosen.modifiers(model);
  if (const Json* const own = fields.find("vitrine")) {
    RequestFields wishes = fields.of(*own, "vitrine");
    read_modifiers(model, wishes, modifiers);
    wishes.finish();
  }
  return {std::move(chosen.name), std::move(modifiers)};
}

std::string required_text(RequestFields& fields, const char* name) {
  const std::optional<std::string> text = fields.text(name);
  if (!text) fields.fail(name, "expected a string, got nothing");
  return *text;
}

/// A list of strings, or of objects {"text"}.
std::vector<std::string> read_documents(RequestFields& fields, const char* name) {
  const Json* const list = fields.find(name);
  if (list == nullptr || !list->is_array()) fields.fail(name, "expected a list of documents");
  if (list->empty() || list->size() > kMaxTexts) {
    fields.fail(name, fmt::format("expected 1 to {} documents, got {}", kMaxTexts, list->size()));
  }
  std::vector<std::string> documents;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& one = (*list)[i];
    const bool is_object = one.is_object() && one.contains("text") && one["text"].is_string();
    if (!one.is_string() && !is_object) {
      fields.fail(fmt::format("{}[{}]", name, i), "expected a string, or an object with the string \"text\"");
    }
    documents.push_back(is_object ? one["text"].get<std::string>() : one.get<std::string>());
  }
  return documents;
}

/// What Jina's and Cohere's interfaces share; they differ in whether documents are returned without being asked for.
std::shared_ptr<PendingReply> rerank(const ServedModel& model, const RouteRequest& from, RequestFields& fields,
                                     bool returns_documents) {
  Chosen chosen = read_chosen(model, fields);
  RankRequest request{required_text(fields, "query"), read_documents(fields, "documents")};
  const auto top = fields.whole<std::size_t>("top_n", 1).value_or(request.documents.size());
  const bool returns = fields.flag("return_documents").value_or(returns_documents);
  fields.ignore({"max_chunks_per_doc", "rank_fields", "user", "priority", "truncation", "encoding_format"});
  if (fields.whole<std::int64_t>("max_tokens_per_doc", 1)) fields.fail("max_tokens_per_doc", "is not supported");
  fields.finish();
  const auto write = [=, documents = request.documents, name = chosen.name, id = from.id](
                         const std::vector<float>& scores, std::int64_t n_tokens) {
    std::vector<std::size_t> order = descending(scores);
    order.resize(std::min(top, order.size()));
    Json results = Json::array();
    for (const std::size_t i : order) {
      Json result = {{"index", i}, {"relevance_score", scores[i]}};
      if (returns) result["document"] = {{"text", documents[i]}};
      results.push_back(std::move(result));
    }
    return Json({{"id", "rerank-" + id},
                 {"model", name},
                 {"results", results},
                 {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}},
                 {"meta", {{"billed_units", {{"search_units", 1}}}, {"tokens", {{"input_tokens", n_tokens}}}}}});
  };
  return rank(model, request, std::move(chosen.modifiers), from, write);
}

/// text-embeddings-inference: a list of indices and scores, best first.
std::shared_ptr<PendingReply> rank_texts(const ServedModel& model, const RouteRequest& from, RequestFields& fields) {
  Chosen chosen = read_chosen(model, fields);
  RankRequest request{required_text(fields, "query"), read_documents(fields, "texts")};
  request.raw = fields.flag("raw_scores").value_or(false);
  request.truncates = fields.flag("truncate").value_or(true);
  if (fields.text("truncation_direction").value_or("Right") != "Right") {
    fields.fail("truncation_direction", "expected Right: texts lose their last tokens");
  }
  const bool returns = fields.flag("return_text").value_or(false);
  fields.finish();
  const auto write = [returns, texts = request.documents](const std::vector<float>& scores, std::int64_t) {
    Json list = Json::array();
    for (const std::size_t i : descending(scores)) {
      list.push_back({{"index", i}, {"score", scores[i]}});
      if (returns) list.back()["text"] = texts[i];
    }
    return list;
  };
  return rank(model, request, std::move(chosen.modifiers), from, write);
}

/// The texts of a field of vLLM's /v1/score: a string, or a list of them.
std::vector<std::string> read_texts(RequestFields& fields, const char* name) {
  const auto texts = fields.get<std::vector<std::string>>(name, "a string or a list of strings");
  if (!texts || texts->empty()) fields.fail(name, "expected a string or a list of strings");
  return *texts;
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> rerank_v1(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  return rerank(model, request, fields, true);
}

std::shared_ptr<PendingReply> rerank_v2(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  return rerank(model, request, fields, false);
}

std::shared_ptr<PendingReply> rerank_texts(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  return json.contains("documents") ? rerank(model, request, fields, true) : rank_texts(model, request, fields);
}

std::shared_ptr<PendingReply> score_pairs(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  Chosen chosen = read_chosen(model, fields);
  const std::vector<std::string> first = read_texts(fields, "text_1"), second = read_texts(fields, "text_2");
  if (first.size() != 1 || second.size() > kMaxTexts) {
    fields.fail("text_1", fmt::format("expected one text, and at most {} texts in text_2", kMaxTexts));
  }
  read_foreign(fields, kOfVectors);
  fields.finish();
  const auto write = [name = chosen.name, id = request.id](const std::vector<float>& scores, std::int64_t n_tokens) {
    Json data = Json::array();
    for (std::size_t i = 0; i < scores.size(); ++i) {
      data.push_back({{"index", i}, {"object", "score"}, {"score", scores[i]}});
    }
    return Json({{"id", "score-" + id},
                 {"object", "list"},
                 {"model", name},
                 {"data", data},
                 {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}});
  };
  return rank(model, {first.front(), second}, std::move(chosen.modifiers), request, write);
}

}  // namespace routes

}  // namespace vitrine
