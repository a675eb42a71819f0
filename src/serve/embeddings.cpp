#include "serve/embeddings.h"

#include <bit>
#include <cstring>

#include "serve/foreign_fields.h"
#include "serve/modifier_fields.h"
#include "serve/prompts.h"
#include "serve/reading.h"
#include "tokenizer/read/base64.h"

namespace vitrine {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors are sent as they are in memory");

Json vector_json(const std::vector<float>& vector, bool is_base64) {
  if (!is_base64) return vector;
  return encode_base64({reinterpret_cast<const unsigned char*>(vector.data()), vector.size() * sizeof(float)});
}

/// Of a model that continues texts: its sequences take part in rounds.
class VectorsOfRounds : public JobReply {
 public:
  VectorsOfRounds(EmbeddingRequest request, EmbeddingSequences sequences, const RouteRequest& from, WriteVectors write)
      : JobReply(std::make_shared<Job>(from.client, std::move(sequences.requests), false, from.notify)),
        request_(std::move(request)),
        sequences_(std::move(sequences)),
        write_(std::move(write)) {}

  Usage usage() const override { return {request_.n_tokens, 0, 0}; }
  HttpReply reply() override { return {200, json_text(write_(request_, sequences_.vectors(), times()))}; }

 private:
  EmbeddingRequest request_;
  EmbeddingSequences sequences_;
  WriteVectors write_;
};

/// Whether the client wants vectors of length 1: vLLM's name, and llama-server's, whose norms are numbers.
std::optional<bool> read_normalize(RequestFields& fields) {
  const auto norm = fields.whole<int>("embd_normalize", -1);
  if (norm && *norm != -1 && *norm != 2) {
    throw RequestError(kInvalid, "embd_normalize", "expected 2 (Euclidean) or -1 (none), got {}", *norm);
  }
  const auto normalize = fields.flag("use_activation"), old_name = fields.flag("normalize");
  return norm ? *norm == 2 : normalize ? normalize : old_name;
}

}  // namespace

std::shared_ptr<PendingReply> vectors_of(const ServedModel& model, EmbeddingRequest request, const RouteRequest& from,
                                         WriteVectors write) {
  if (model.can_generate && !model.sentences.pooling.empty()) {
    EmbeddingSequences sequences(model, request);
    return std::make_shared<VectorsOfRounds>(std::move(request), std::move(sequences), from, std::move(write));
  }
  const TextTask::Read read = reads_vectors(model.sentences, {.normalize = request.normalize});
  TextsToRead texts{
      .ids = request.texts, .marks = request.marks, .n_tokens = request.n_tokens, .modifiers = request.modifiers};
  return std::make_shared<ReadReply>(
      std::move(texts), from, read,
      [request = std::move(request), write = std::move(write)](const auto& vectors, const JobTimes& times) {
        return write(request, vectors, times);
      });
}

namespace routes {

std::shared_ptr<PendingReply> embed(const ServedModel& model, const RouteRequest& request) {
  const auto write = [](const EmbeddingRequest& parsed, const std::vector<std::vector<float>>& vectors,
                        const JobTimes&) { return embeddings_reply(parsed, vectors); };
  return vectors_of(model, parse_embeddings(model, request.body), request, write);
}

}  // namespace routes

EmbeddingRequest parse_embeddings(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  RequestFields fields(json, "", model.unknown_fields);
  EmbeddingRequest request;
  ChosenModel chosen = read_model(model, fields);
  request.modifiers = chosen.modifiers(model);
  request.model = std::move(chosen.name);
  if (const Json* const own = fields.find("vitrine")) {
    RequestFields wishes = fields.of(*own, "vitrine");
    read_modifiers(model, wishes, request.modifiers);
    wishes.finish();
  }
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    throw RequestError(kInvalid, "encoding_format", "expected float or base64, got \"{}\"", format);
  }
  request.is_base64 = format == "base64";
  const auto n = fields.whole<std::int64_t>("dimensions", 1, std::numeric_limits<std::int64_t>::max());
  if (n && *n != model.d_model) {
    throw RequestError(kInvalid, "dimensions", "the vectors have {} elements, got {}", model.d_model, *n);
  }
  const auto language = fields.text("source_lang");
  request.normalize = read_normalize(fields);
  const auto policy = fields.flag("add_special_tokens").value_or(true) ? SpecialTokens::apply : SpecialTokens::written;
  SentenceConfig sentences = model.sentences;
  if (sentences.max_tokens >= model.max_seq_len) sentences.max_tokens = 0;  // not by the folder's choice
  Truncation of_ids{.keeps_end = false};
  if (const auto most = fields.whole<std::int64_t>("truncate_prompt_tokens", -1)) {
    const std::int64_t own = sentences.max_tokens > 0 ? sentences.max_tokens : model.max_seq_len;
    of_ids.most = sentences.max_tokens = *most == -1 ? own : std::min(own, *most);
  }
  fields.find("input");
  read_foreign(fields, kOfVectors);
  fields.finish();
  for (Prompt& text : read_prompts(model, fields, "input", policy, of_ids, &sentences)) {
    request.n_tokens += std::ssize(text.ids);
    if (language && text.text) set_source_language(*model.tokenizer, *language, text.ids);
    request.marks.push_back(text.text ? marked(text.ids, sentences, model.tokenizer) : TextMarks());
    request.texts.push_back(std::move(text.ids));
  }
  return request;
}

EmbeddingSequences::EmbeddingSequences(const ServedModel& model, const EmbeddingRequest& request) {
  const Pooling pooling = pooling_named(model.sentences.pooling);
  const bool normalize = request.normalize.value_or(model.sentences.normalize);
  for (const std::vector<std::int32_t>& text : request.texts) {
    poolers.push_back(std::make_shared<RowPooler>(pooling, normalize));
    GenerateRequest& sequence = requests.emplace_back();
    sequence.prompt = text;
    sequence.max_tokens = 0;
    sequence.modifiers = request.modifiers;
    sequence.receive_hidden = [pooler = poolers.back()](std::int64_t, const Tensor& rows) { pooler->add(rows); };
  }
}

std::vector<std::vector<float>> EmbeddingSequences::vectors() const {
  std::vector<std::vector<float>> all;
  for (const auto& pooler : poolers) all.push_back(pooler->vector());
  return all;
}

Json embeddings_reply(const EmbeddingRequest& request, const std::vector<std::vector<float>>& vectors) {
  Json data = Json::array();
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", vector_json(vectors[i], request.is_base64)}});
  }
  return {{"object", "list"},
          {"model", request.model},
          {"data", std::move(data)},
          {"usage", {{"prompt_tokens", request.n_tokens}, {"total_tokens", request.n_tokens}}}};
}

}  // namespace vitrine
