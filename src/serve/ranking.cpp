#include "serve/ranking.h"

#include "serve/embeddings.h"

namespace vitrine {
namespace {

/// Makes the outputs of each pair.
TextReading reads_scores(const SentenceConfig& folder) {
  return {"scores", [=](const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
            read_scores(context, folder, texts, EncodeOptions().max_rows, [&](std::size_t i, const Tensor& outputs) {
              receive(i, {outputs.data, static_cast<std::size_t>(outputs.count())});
            });
          }};
}

/// What the model ranks by. Throws RequestError.
RankMethod method_of(const ServedModel& model) {
  try {
    return rank_method(model.model->config(), model.sentences);
  } catch (const Unsupported& e) {
    const std::string_view message = e.what();
    throw RequestError(kLacksAbility, "model", "{}", message.substr(message.find(' ') + 1));
  }
}

}  // namespace

std::shared_ptr<PendingReply> rank(const ServedModel& model, const RankRequest& request, ReadChoice choice,
                                   RequestFields& fields, const RouteRequest& from, WriteScores write) {
  if (method_of(model) == RankMethod::vectors) {
    return compare(model, request, std::move(choice), fields, from, std::move(write));
  }
  const SentenceConfig& folder = model.sentences;
  const ScoreFunction function = request.raw ? ScoreFunction::none : rank_function(model.model->config(), folder);
  TextCollector texts(model, request.cut);
  for (std::size_t i = 0; i < request.documents.size(); ++i) {
    const std::string& query = request.queries[request.queries.size() > 1 ? i : 0];
    texts.add_pair(query, request.documents[i], fmt::format("documents[{}]", i));
  }
  const auto source = folder.has_modules ? folder.steps.source : TextSteps::Source::outputs;
  TextsToRead all = texts.take(std::move(choice), fields, source);
  const std::int64_t n_tokens = all.n_tokens;
  return std::make_shared<ReadReply>(std::move(all), from, reads_scores(folder),
                                     [=](const ReadReply::Values& outputs, const JobTimes&) {
                                       std::vector<float> scores;
                                       for (const auto& own : outputs) scores.push_back(scores_of(function, own)[0]);
                                       return write(scores, n_tokens);
                                     });
}

std::shared_ptr<PendingReply> compare(const ServedModel& model, const RankRequest& request, ReadChoice choice,
                                      RequestFields& fields, const RouteRequest& from, WriteScores write) {
  require_vectors(model);
  TextCollector texts(model, request.cut);
  if (request.prompt) texts.folder().prompt = *request.prompt;
  if (!request.prompt) texts.folder().use_role(TextRole::query);
  const std::size_t n_queries = request.queries.size();
  for (const std::string& query : request.queries) texts.add(query, "query");
  if (!request.prompt) texts.folder().use_role(TextRole::document);
  for (std::size_t i = 0; i < request.documents.size(); ++i) {
    texts.add(request.documents[i], fmt::format("documents[{}]", i));
  }
  TextsToRead all = texts.take(std::move(choice), fields, model.sentences.steps.source);
  const std::int64_t n_tokens = all.n_tokens;
  const std::int64_t width =
      std::min(width_of(model), model.sentences.dimensions.value_or(std::numeric_limits<std::int64_t>::max()));
  return vectors_of(model, std::move(all), {}, from,
                    [=, similarity = model.sentences.similarity](const ReadReply::Values& values, const JobTimes&) {
                      std::vector<TextVectors> vectors;
                      for (const std::vector<float>& own : values) vectors.push_back(vectors_in(own, width));
                      std::vector<float> scores;
                      for (std::size_t i = n_queries; i < vectors.size(); ++i) {
                        const TextVectors& query = vectors[n_queries > 1 ? i - n_queries : 0];
                        scores.push_back(static_cast<float>(similarity_of(similarity, query, vectors[i])));
                      }
                      return write(scores, n_tokens);
                    });
}

}  // namespace vitrine
