#include "serve/reading.h"

#include "generate/encode.h"
#include "serve/prompts.h"

namespace vitrine {
namespace {

/// The folder's prompt of the first of these names that it has; else the one that is put before every text.
std::string prompt_of(const SentenceConfig& folder, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (const auto found = folder.prompts.find(name); found != folder.prompts.end()) return found->second;
  }
  return folder.prompt;
}

TextTask::Read reads_vectors(const SentenceConfig& folder) {
  EncodeOptions options;
  options.pooling = pooling_named(folder.pooling);
  options.normalize = folder.normalize;
  return [options](const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
    encode(context, texts.ids, options, receive);
  };
}

}  // namespace

TextTask::Read reads_outputs() {
  return [](const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
    read_outputs(context, texts, EncodeOptions().max_rows, [&](std::size_t i, const Tensor& outputs) {
      receive(i, {outputs.data, static_cast<std::size_t>(outputs.count())});
    });
  };
}

void TextCollector::put(std::vector<std::int32_t> ids, std::vector<std::int32_t> types, const std::string& where) {
  check_prompt(model_, ids, where);
  texts_.n_tokens += std::ssize(ids);
  texts_.ids.push_back(std::move(ids));
  texts_.types.push_back(std::move(types));
}

void TextCollector::add(const std::string& text, const std::string& prompt, const std::string& where) {
  SentenceConfig folder = model_.sentences;
  folder.prompt = prompt;
  std::vector<std::int32_t> ids = tokenizer_of(model_, where).encode(folder.prepared(text), SpecialTokens::apply);
  put(truncates_ ? truncated(std::move(ids), folder) : std::move(ids), {}, where);
}

void TextCollector::add_pair(const std::string& a, const std::string& b, const std::string& where) {
  const SentenceConfig& folder = model_.sentences;
  const auto most = truncates_ && folder.max_tokens > 0 ? std::optional(folder.max_tokens) : std::nullopt;
  PairEncoding pair =
      tokenizer_of(model_, where).encode_pair(folder.prepared(a), folder.without_prompt(b), SpecialTokens::apply, most);
  const bool has_types = model_.model->config().embedding.n_types > 0;
  put(std::move(pair.ids), has_types ? std::move(pair.types) : std::vector<std::int32_t>(), where);
}

TextsToRead TextCollector::take(std::optional<ModifierList> modifiers) {
  texts_.modifiers = std::move(modifiers);
  return std::move(texts_);
}

const TaskHead& classes_of(const ServedModel& model) {
  const auto& head = model.model->config().task;
  if (head && head->task == TaskHead::Task::classify) return *head;
  throw RequestError(kInvalid, "model", "the model has no labels of texts: it is no classifier");
}

std::shared_ptr<PendingReply> rank(const ServedModel& model, const RankRequest& request,
                                   std::optional<ModifierList> modifiers, const RouteRequest& from,
                                   std::function<Json(const std::vector<float>& scores, std::int64_t n_tokens)> write) {
  TextCollector texts(model, request.truncates);
  const auto place = [](std::size_t i) { return fmt::format("documents[{}]", i); };
  const std::vector<std::string>& documents = request.documents;
  if (model.model->config().task) {
    const ScoreFunction function =
        request.raw ? ScoreFunction::none : rank_function(classes_of(model), model.sentences);
    for (std::size_t i = 0; i < documents.size(); ++i) texts.add_pair(request.query, documents[i], place(i));
    TextsToRead all = texts.take(std::move(modifiers));
    const std::int64_t n_tokens = all.n_tokens;
    return std::make_shared<ReadReply>(std::move(all), from, reads_outputs(),
                                       [=](const ReadReply::Values& outputs, const JobTimes&) {
                                         std::vector<float> scores;
                                         for (const auto& own : outputs) scores.push_back(scores_of(function, own)[0]);
                                         return write(scores, n_tokens);
                                       });
  }
  if (model.can_generate && model.model->config().has_head) {
    throw RequestError(kInvalid, "model", "the model continues texts: it has neither labels nor vectors for a ranking");
  }
  texts.add(request.query, prompt_of(model.sentences, {"query"}), "query");
  const std::string prompt = prompt_of(model.sentences, {"document", "passage", "corpus"});
  for (std::size_t i = 0; i < documents.size(); ++i) texts.add(documents[i], prompt, place(i));
  TextsToRead all = texts.take(std::move(modifiers));
  const std::int64_t n_tokens = all.n_tokens;
  return std::make_shared<ReadReply>(
      std::move(all), from, reads_vectors(model.sentences),
      [=, similarity = model.sentences.similarity](const ReadReply::Values& vectors, const JobTimes&) {
        std::vector<float> scores;
        for (std::size_t i = 1; i < vectors.size(); ++i) {
          scores.push_back(static_cast<float>(similarity_of(similarity, vectors.front(), vectors[i])));
        }
        return write(scores, n_tokens);
      });
}

}  // namespace vitrine
