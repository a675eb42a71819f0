// /api/embed and /api/embeddings.
#include "serve/ollama/reply.h"
#include "serve/ollama/request.h"
#include "serve/ollama/times.h"
#include "serve/routes.h"

namespace vitrine::ollama {
namespace {

/// Reads the texts of `input`, or of the one text `prompt`; an empty text is none.
VectorRequest read_texts(const ServedModel& model, RequestFields& fields, const char* field, OrderedJson body) {
  const ModelName name = read_name(model, fields);
  VectorRequest request{.model = name.asked};
  body["model"] = name.own;
  const Json* const texts = fields.find(field);
  fields.ignore({"keep_alive", "options"});
  fields.finish();
  const bool is_none = texts == nullptr || *texts == "" || (texts->is_array() && texts->empty());
  if (is_none) return request;
  body["input"] = *texts;
  request.vectors = parse_embeddings(model, json_text(body));
  return request;
}

}  // namespace

VectorRequest read_embed(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  RequestFields fields(json, "", model.unknown_fields);
  OrderedJson own = {{"normalize", true}};
  if (fields.flag("truncate").value_or(true)) own["truncate_prompt_tokens"] = -1;
  if (const Json* const n = fields.find("dimensions"); n != nullptr && *n != 0) own["dimensions"] = *n;
  const Json* const input = fields.find("input");
  const auto is_text = [](const Json& value) { return value.is_string(); };
  const bool is_known =
      input == nullptr || is_text(*input) || (input->is_array() && std::all_of(input->begin(), input->end(), is_text));
  if (!is_known) throw wrong_type("input", "a text or a list of texts", *input);
  return read_texts(model, fields, "input", std::move(own));
}

VectorRequest read_embeddings(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  RequestFields fields(json, "", model.unknown_fields);
  fields.text("prompt");
  VectorRequest request = read_texts(model, fields, "prompt", OrderedJson::object());
  request.is_single = true;
  return request;
}

Json vectors_json(const VectorRequest& request, const std::vector<std::vector<float>>& vectors, const Durations& took) {
  if (request.is_single) return {{"embedding", vectors.empty() ? Json::array() : Json(vectors.front())}};
  return {{"model", request.model},
          {"embeddings", vectors},
          {"total_duration", took.total.count()},
          {"load_duration", took.load.count()},
          {"prompt_eval_count", request.vectors.texts.n_tokens}};
}

}  // namespace vitrine::ollama
