// Vectors with text-embeddings-inference's interface: /embed, /embed_all, /embed_sparse, /similarity, and /, which does
// what the model is for. Source: huggingface/text-embeddings-inference, docs/openapi.json.
#include "serve/embeddings.h"
#include "serve/prompts.h"
#include "serve/ranking.h"

namespace vitrine {
namespace {

/// What a route makes of the texts of the field `inputs`.
enum class Kind : std::uint8_t { vectors, rows, words };

struct TeiRequest {
  TextsToRead texts;
  VectorOptions options{};
  bool is_base64 = false;
};

void require(const ServedModel& model, Kind kind) {
  if (kind == Kind::rows) return require_vectors(model);
  require_one_vector(model);
  if (kind == Kind::words && !model.sentences.is_sparse()) {
    throw RequestError(kLacksAbility, "model", "the model has no SpladePooling: it makes no sparse vectors");
  }
}

TeiRequest read_request(const ServedModel& model, std::string_view body, Kind kind) {
  const Json json = parse_body(body);
  RequestFields fields(json, "", model.unknown_fields);
  TeiRequest request;
  ReadChoice choice = read_choice(model, fields);
  require(model, kind);
  TextCollector texts(model, read_tei_cut(fields));
  read_prompt_name(texts.folder(), fields);
  if (kind == Kind::vectors) {
    request.options = {.dimensions = read_dimensions(model, fields)};
    const auto normalizes = fields.flag("normalize");
    // The weights of words are as the folder makes them.
    request.options.normalize = model.sentences.is_sparse() ? normalizes : normalizes.value_or(true);
    request.is_base64 = read_is_base64(fields);
  }
  fields.refuse("parameters", "expected no parameters: the fields of vectors are those of the request");
  fields.find("inputs");
  fields.finish();
  texts.add_inputs(fields, "inputs");
  const bool reads_steps = kind != Kind::rows || model.sentences.result() == TextValue::tokens;
  const auto source = reads_steps ? model.sentences.steps.source : TextSteps::Source::rows;
  request.texts = texts.take(std::move(choice), fields, source);
  return request;
}

/// The sentences of /similarity.
RankRequest read_sentences(RequestFields inputs) {
  RankRequest request{{inputs.needed_text("source_sentence")}, {}};
  const Json* const sentences = inputs.find("sentences");
  if (sentences == nullptr || !sentences->is_array()) inputs.fail("sentences", "expected a list of strings");
  if (sentences->empty()) {
    throw RequestError(kEmpty, inputs.name_of("sentences"), "expected at least one text, got none");
  }
  if (sentences->size() > kMaxTexts) {
    throw RequestError(kTooMany, inputs.name_of("sentences"), "expected at most {} texts, got {}", kMaxTexts,
                       sentences->size());
  }
  for (const Json& sentence : *sentences) {
    if (!sentence.is_string()) throw wrong_type(inputs.name_of("sentences"), "strings", sentence);
    request.documents.push_back(sentence.get<std::string>());
  }
  inputs.finish();
  return request;
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> predict(const ServedModel& model, const RouteRequest& request);
std::shared_ptr<PendingReply> rerank_texts(const ServedModel& model, const RouteRequest& request);

std::shared_ptr<PendingReply> tei_embed(const ServedModel& model, const RouteRequest& request) {
  TeiRequest parsed = read_request(model, request.body, Kind::vectors);
  return vectors_of(model, std::move(parsed.texts), parsed.options, request,
                    [is_base64 = parsed.is_base64](const ReadReply::Values& vectors, const JobTimes&) {
                      Json all = Json::array();
                      for (const std::vector<float>& vector : vectors) all.push_back(vector_json(vector, is_base64));
                      return all;
                    });
}

std::shared_ptr<PendingReply> tei_embed_all(const ServedModel& model, const RouteRequest& request) {
  TeiRequest parsed = read_request(model, request.body, Kind::rows);
  const TokenReading vectors = token_vectors(model);
  return std::make_shared<ReadReply>(std::move(parsed.texts), request, vectors.reading,
                                     [d = vectors.width](const ReadReply::Values& texts, const JobTimes&) {
                                       Json all = Json::array();
                                       for (const std::vector<float>& rows : texts) all.push_back(rows_json(rows, d));
                                       return all;
                                     });
}

std::shared_ptr<PendingReply> tei_embed_sparse(const ServedModel& model, const RouteRequest& request) {
  TeiRequest parsed = read_request(model, request.body, Kind::words);
  return vectors_of(model, std::move(parsed.texts), {}, request, [](const ReadReply::Values& vectors, const JobTimes&) {
    Json all = Json::array();
    for (const std::vector<float>& vector : vectors) {
      Json& words = all.emplace_back(Json::array());
      for (const auto& [id, weight] : sparse_of(vector)) {
        words.push_back({{"index", id}, {"value", weight}});
      }
    }
    return all;
  });
}

std::shared_ptr<PendingReply> tei_similarity(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  ReadChoice choice = read_choice(model, fields);
  require_vectors(model);
  const Json* const inputs = fields.find("inputs");
  if (inputs == nullptr) fields.fail("inputs", "expected an object with source_sentence and sentences, got none");
  RankRequest sentences = read_sentences(fields.of(*inputs, "inputs"));
  SentenceConfig folder = model.sentences;
  if (const Json* const parameters = fields.find("parameters")) {
    RequestFields own = fields.of(*parameters, "parameters");
    sentences.cut = read_tei_cut(own);
    read_prompt_name(folder, own);
    own.finish();
  }
  sentences.prompt = folder.prompt;
  fields.finish();
  return compare(model, sentences, std::move(choice), fields, request,
                 [](const std::vector<float>& scores, std::int64_t) { return Json(scores); });
}

std::shared_ptr<PendingReply> tei_root(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  const bool is_similarity = json.contains("inputs") && json["inputs"].is_object();
  if (is_similarity) return tei_similarity(model, request);
  if (json.contains("texts")) return rerank_texts(model, request);
  const ModelConfig& config = model.model->config();
  const bool has_labels =
      config.task && (config.task->task == TaskHead::Task::classify || config.task->task == TaskHead::Task::tag);
  if (has_labels && !makes_vectors(config, model.sentences)) return predict(model, request);
  return tei_embed(model, request);
}

}  // namespace routes

}  // namespace vitrine
