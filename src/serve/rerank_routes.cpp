// /v1/rerank (Jina, vLLM), /v2/rerank (Cohere), /rerank (text-embeddings-inference, and the bodies of the former), and
// /v1/score, /score (vLLM).
#include "serve/foreign_fields.h"
#include "serve/prompts.h"
#include "serve/ranking.h"

namespace vitrine {
namespace {

void check_count(std::size_t n, const std::string& name) {
  if (n == 0) throw RequestError(kEmpty, name, "expected at least one text, got none");
  if (n > kMaxTexts) throw RequestError(kTooMany, name, "expected at most {} texts, got {}", kMaxTexts, n);
}

/// A string, or an object {"text"}.
std::string text_in(RequestFields& fields, const Json& value, const std::string& name) {
  if (value.is_string()) return value.get<std::string>();
  const bool is_object = value.is_object() && value.contains("text") && value["text"].is_string();
  if (!is_object) fields.fail(name, "expected a string, or an object with the string \"text\"");
  return value["text"].get<std::string>();
}

std::string read_query(RequestFields& fields) {
  const Json* const query = fields.find("query");
  if (query == nullptr) fields.fail("query", "expected a string, got none");
  return text_in(fields, *query, "query");
}

std::vector<std::string> read_documents(RequestFields& fields, const char* name) {
  const Json* const list = fields.find(name);
  if (list == nullptr || !list->is_array()) fields.fail(name, "expected a list of documents");
  check_count(list->size(), name);
  std::vector<std::string> documents;
  for (std::size_t i = 0; i < list->size(); ++i) {
    documents.push_back(text_in(fields, (*list)[i], fmt::format("{}[{}]", name, i)));
  }
  return documents;
}

/// Fields of Cohere and Jina that would change an answer: other values than those that change nothing are refused.
void refuse_other_cuts(const ServedModel& model, RequestFields& fields) {
  for (const char* const name : {"max_tokens_per_doc", "max_doc_length", "max_query_length"}) {
    const auto most = fields.whole<std::int64_t>(name, 1);
    if (most && *most < model.max_seq_len) {
      fields.fail(name, fmt::format("expected at least {}, what the model reads: shorter cuts are not supported",
                                    model.max_seq_len));
    }
  }
  fields.refuse("rank_fields", "expected [\"text\"]: documents are ranked by their text", {Json::array({"text"})});
  fields.refuse("return_embeddings", "is not supported");
  fields.refuse("max_chunks_per_doc", "is not supported: a document is read in one piece", {1, 10});
}

/// What Jina's and Cohere's interfaces share; they differ in whether documents are returned unless a request says so.
std::shared_ptr<PendingReply> rerank(const ServedModel& model, const RouteRequest& from, RequestFields& fields,
                                     bool returns_documents) {
  ReadChoice choice = read_choice(model, fields);
  RankRequest request{{read_query(fields)}, read_documents(fields, "documents")};
  const auto top = fields.whole<std::size_t>("top_n", 1).value_or(request.documents.size());
  const bool returns = fields.flag("return_documents").value_or(returns_documents);
  request.cut = read_vllm_cut(fields);
  request.cut.cuts = fields.flag("truncation").value_or(fields.flag("truncate").value_or(true));
  request.raw = !fields.flag("use_activation").value_or(fields.flag("activation").value_or(true));
  refuse_other_cuts(model, fields);
  fields.ignore({"user", "priority", "encoding_format", "request_id", "mm_processor_kwargs"});
  fields.finish();
  const auto write = [=, documents = request.documents, name = choice.model, id = from.id](
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
                 {"object", "list"},
                 {"model", name},
                 {"results", results},
                 {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}},
                 {"meta", {{"billed_units", {{"search_units", 1}}}, {"tokens", {{"input_tokens", n_tokens}}}}}});
  };
  return rank(model, request, std::move(choice), fields, from, write);
}

/// text-embeddings-inference: a list of indices and scores, best first.
std::shared_ptr<PendingReply> rank_texts(const ServedModel& model, const RouteRequest& from, RequestFields& fields) {
  ReadChoice choice = read_choice(model, fields);
  RankRequest request{{fields.needed_text("query")}, read_documents(fields, "texts")};
  request.raw = fields.flag("raw_scores").value_or(false);
  request.cut = read_tei_cut(fields);
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
  return rank(model, request, std::move(choice), fields, from, write);
}

/// The texts of a field of vLLM's /v1/score, under one of its names: a string, or a list of them.
std::vector<std::string> read_side(RequestFields& fields, std::initializer_list<const char*> names) {
  const char* name = *names.begin();
  for (const char* const other : names) {
    if (fields.find(other) != nullptr) name = other;
  }
  const auto texts = fields.get<std::vector<std::string>>(name, "a string or a list of strings");
  if (!texts) fields.fail(name, "expected a string or a list of strings, got none");
  check_count(texts->size(), name);
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
  ReadChoice choice = read_choice(model, fields);
  RankRequest pairs{read_side(fields, {"text_1", "queries", "data_1"}),
                    read_side(fields, {"text_2", "documents", "data_2", "items"})};
  if (pairs.queries.size() != 1 && pairs.queries.size() != pairs.documents.size()) {
    fields.fail("text_1", fmt::format("expected one text or as many as text_2 has ({}), got {}", pairs.documents.size(),
                                      pairs.queries.size()));
  }
  pairs.raw = !fields.flag("use_activation").value_or(fields.flag("activation").value_or(true));
  pairs.cut = read_vllm_cut(fields);
  read_foreign(fields, kOfVectors);
  fields.finish();
  const auto write = [name = choice.model, id = request.id, created = model.created](const std::vector<float>& scores,
                                                                                     std::int64_t n_tokens) {
    Json data = Json::array();
    for (std::size_t i = 0; i < scores.size(); ++i) {
      data.push_back({{"index", i}, {"object", "score"}, {"score", scores[i]}});
    }
    return Json({{"id", "score-" + id},
                 {"object", "list"},
                 {"created", created},
                 {"model", name},
                 {"data", data},
                 {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}});
  };
  return rank(model, pairs, std::move(choice), fields, request, write);
}

}  // namespace routes

}  // namespace vitrine
