#include "serve/embeddings.h"

#include <bit>
#include <limits>

#include "base/divide_by_length.h"
#include "serve/foreign_fields.h"
#include "serve/modifier_fields.h"
#include "serve/prompts.h"
#include "serve/reading.h"
#include "tokenizer/read/base64.h"

namespace vitrine {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors are sent as they are in memory");

/// Of a model that continues texts: its sequences take part in rounds.
class VectorsOfRounds : public JobReply {
 public:
  VectorsOfRounds(std::int64_t n_tokens, EmbeddingSequences sequences, const RouteRequest& from, ReadReply::Write write)
      : JobReply(std::make_shared<Job>(from.client, std::move(sequences.requests), false, from.notify)),
        n_tokens_(n_tokens),
        sequences_(std::move(sequences)),
        write_(std::move(write)) {}

  Usage usage() const override { return {n_tokens_, 0, 0}; }
  HttpReply reply() override { return {200, json_text(write_(sequences_.vectors(), times()))}; }

 private:
  std::int64_t n_tokens_;
  EmbeddingSequences sequences_;
  ReadReply::Write write_;
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

Json vector_json(const std::vector<float>& vector, bool is_base64) {
  if (!is_base64) return vector;
  return encode_base64({reinterpret_cast<const unsigned char*>(vector.data()), vector.size() * sizeof(float)});
}

Json rows_json(const std::vector<float>& rows, std::int64_t d) {
  Json list = Json::array();
  for (auto row = rows.begin(); row != rows.end(); row += d) list.push_back(std::vector<float>(row, row + d));
  return list;
}

std::optional<std::int64_t> read_dimensions(const ServedModel& model, RequestFields& fields, const char* name) {
  const auto n = fields.whole<std::int64_t>(name, 1, width_of(model));
  if (n && model.sentences.is_sparse()) fields.fail(name, "the model makes weights of words, which are not cut");
  return n;
}

bool read_is_base64(RequestFields& fields) {
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    fields.fail("encoding_format", fmt::format("expected float or base64, got \"{}\"", format));
  }
  return format == "base64";
}

std::shared_ptr<PendingReply> vectors_of(const ServedModel& model, TextsToRead texts, const VectorOptions& options,
                                         const RouteRequest& from, ReadReply::Write write) {
  if (model.can_generate && model.sentences.plain_mode() && texts.sites == nullptr) {
    return std::make_shared<VectorsOfRounds>(texts.n_tokens, EmbeddingSequences(model, texts, options), from,
                                             std::move(write));
  }
  return std::make_shared<ReadReply>(std::move(texts), from, reads_vectors(model.sentences, options), std::move(write));
}

std::shared_ptr<PendingReply> vectors_of(const ServedModel& model, EmbeddingRequest request, const RouteRequest& from,
                                         WriteVectors write) {
  require_one_vector(model);
  TextsToRead texts = std::move(request.texts);
  request.texts = {};
  request.texts.n_tokens = texts.n_tokens;
  const VectorOptions options = request.options;
  return vectors_of(model, std::move(texts), options, from,
                    [request = std::move(request), write = std::move(write)](
                        const auto& vectors, const JobTimes& times) { return write(request, vectors, times); });
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
  ReadChoice choice = read_choice(model, fields);
  request.model = choice.model;
  request.is_base64 = read_is_base64(fields);
  request.options.dimensions = read_dimensions(model, fields);
  const auto language = fields.text("source_lang");
  request.options.normalize = read_normalize(fields);
  SentenceConfig sentences = model.sentences;
  const auto adds = sentences.reading.is_table ? SpecialTokens::written : SpecialTokens::apply;
  const auto policy = fields.flag("add_special_tokens").value_or(true) ? adds : SpecialTokens::written;
  read_prompt_name(sentences, fields);
  read_input_type(sentences, fields);
  if (sentences.max_tokens >= model.max_seq_len) sentences.max_tokens = 0;  // not by the folder's choice
  Truncation of_ids{.keeps_end = false};
  if (const auto most = fields.whole<std::int64_t>("truncate_prompt_tokens", -1)) {
    const std::int64_t own = sentences.max_tokens > 0 ? sentences.max_tokens : model.max_seq_len;
    of_ids.most = sentences.max_tokens = *most == -1 ? own : std::min(own, *most);
  }
  fields.refuse("truncation_side", "is not supported", {"right"});
  fields.find("input");
  read_foreign(fields, kOfVectors);
  fields.finish();
  TextsToRead& texts = request.texts;
  for (Prompt& text : read_prompts(model, fields, "input", policy, of_ids, &sentences)) {
    if (language && text.text) set_source_language(*model.tokenizer, *language, text.ids);
    texts.marks.push_back(marked(text.ids, sentences, text.text ? model.tokenizer : nullptr));
    texts.n_tokens += std::ssize(text.ids);
    texts.ids.push_back(std::move(text.ids));
  }
  texts.modifiers = choice.modifiers;
  texts.sites = sites_of(model, std::move(choice), fields, texts.ids, model.sentences.steps.source);
  return request;
}

EmbeddingSequences::EmbeddingSequences(const ServedModel& model, const TextsToRead& texts, const VectorOptions& as)
    : options(as) {
  const PoolStep::Mode mode = model.sentences.plain_mode().value();
  if (!options.normalize) options.normalize = model.sentences.normalize;
  for (const std::vector<std::int32_t>& text : texts.ids) {
    poolers.push_back(std::make_shared<RowPooler>(mode));
    GenerateRequest& sequence = requests.emplace_back();
    sequence.prompt = text;
    sequence.max_tokens = 0;
    sequence.modifiers = texts.modifiers.list;
    sequence.receive_hidden = [pooler = poolers.back()](std::int64_t, const Tensor& rows) {
      for (std::int64_t t = 0; t < rows.rows(); ++t) pooler->add(rows.row_range(t, 1).values());
    };
  }
}

std::vector<std::vector<float>> EmbeddingSequences::vectors() const {
  std::vector<std::vector<float>> all;
  for (const auto& pooler : poolers) {
    pooler->finish(all.emplace_back(pooler->width()));
    if (*options.normalize) divide_by_length(all.back());
    if (options.dimensions) cut_vector(all.back(), *options.dimensions, *options.normalize);
  }
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
          {"usage", {{"prompt_tokens", request.texts.n_tokens}, {"total_tokens", request.texts.n_tokens}}}};
}

}  // namespace vitrine
