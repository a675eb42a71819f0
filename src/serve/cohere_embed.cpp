// /v1/embed and /v2/embed: vectors with Cohere's interface. Source: docs.cohere.com/reference/embed.
#include "serve/embeddings.h"
#include "serve/prompts.h"
#include "serve/reading.h"

namespace vitrine {
namespace {

/// The types of a response; empty: the first version's plain list.
std::vector<std::string> read_types(RequestFields& fields, bool has_default) {
  const auto types = fields.get<std::vector<std::string>>("embedding_types", "a list of types");
  if (!types || types->empty()) return has_default ? std::vector<std::string>{"float"} : std::vector<std::string>{};
  for (const std::string& type : *types) {
    if (type != "float" && type != "base64") {
      fields.fail("embedding_types", fmt::format("expected float or base64, got \"{}\"", type));
    }
  }
  return *types;
}

TextCut read_cut(RequestFields& fields) {
  TextCut cut;
  const std::string side = fields.text("truncate").value_or("END");
  if (side != "NONE" && side != "START" && side != "END") {
    fields.fail("truncate", fmt::format("expected NONE, START or END, got \"{}\"", side));
  }
  cut.cuts = side != "NONE";
  cut.keeps_end = side == "START";
  cut.most = fields.whole<std::int64_t>("max_tokens", 1);
  return cut;
}

/// The texts of `texts`, or those of `inputs`: `[{"content": [{"type": "text", "text"}]}]`.
std::vector<std::string> read_texts(RequestFields& fields) {
  const auto texts = fields.get<std::vector<std::string>>("texts", "a list of strings");
  const Json* const inputs = fields.find("inputs");
  fields.refuse("images", "is not supported: the model reads text only");
  if (texts && !texts->empty()) return *texts;
  if (inputs == nullptr || !inputs->is_array() || inputs->empty()) {
    throw RequestError(kEmpty, "texts", "expected a list of at least one string");
  }
  std::vector<std::string> all;
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    RequestFields input = fields.of((*inputs)[i], fmt::format("inputs[{}]", i));
    const Json* const content = input.find("content");
    if (content == nullptr || !content->is_array()) input.fail("content", "expected a list of parts");
    std::string& text = all.emplace_back();
    for (std::size_t part = 0; part < content->size(); ++part) {
      text += text_of_part((*content)[part], input, fmt::format("content[{}]", part));
    }
    input.finish();
  }
  return all;
}

std::shared_ptr<PendingReply> embed(const ServedModel& model, const RouteRequest& request, bool is_second) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  ReadChoice choice = read_choice(model, fields);
  require_one_vector(model);
  const std::vector<std::string> given = read_texts(fields), types = read_types(fields, is_second);
  TextCollector texts(model, read_cut(fields));
  read_input_type(texts.folder(), fields);
  const VectorOptions options{.dimensions = read_dimensions(model, fields, "output_dimension")};
  fields.ignore({"priority"});
  fields.finish();
  if (given.size() > kMaxTexts) {
    throw RequestError(kTooMany, "texts", "expected at most {} texts, got {}", kMaxTexts, given.size());
  }
  for (std::size_t i = 0; i < given.size(); ++i) texts.add(given[i], fmt::format("texts[{}]", i));
  TextsToRead all = texts.take(std::move(choice), fields, model.sentences.steps.source);
  const auto write = [=, id = "embed-" + request.id, n_tokens = all.n_tokens](const ReadReply::Values& vectors,
                                                                              const JobTimes&) {
    Json reply = {
        {"id", id},
        {"texts", given},
        {"response_type", types.empty() ? "embeddings_floats" : "embeddings_by_type"},
        {"meta",
         {{"api_version", {{"version", is_second ? "2" : "1"}}}, {"billed_units", {{"input_tokens", n_tokens}}}}}};
    if (types.empty()) reply["embeddings"] = vectors;
    for (const std::string& type : types) {
      Json& list = reply["embeddings"][type] = Json::array();
      for (const std::vector<float>& vector : vectors) list.push_back(vector_json(vector, type == "base64"));
    }
    return reply;
  };
  return vectors_of(model, std::move(all), options, request, write);
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> cohere_embed_v1(const ServedModel& model, const RouteRequest& request) {
  return embed(model, request, false);
}

std::shared_ptr<PendingReply> cohere_embed_v2(const ServedModel& model, const RouteRequest& request) {
  return embed(model, request, true);
}

}  // namespace routes

}  // namespace vitrine
