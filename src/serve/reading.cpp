#include "serve/reading.h"

#include "serve/prompts.h"

namespace vitrine {
namespace {

/// Reads pairs for scores.
TextTask::Read reads_scores(const SentenceConfig& folder) {
  return [folder](const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
    read_scores(context, folder, texts, EncodeOptions().max_rows, [&](std::size_t i, const Tensor& outputs) {
      receive(i, {outputs.data, static_cast<std::size_t>(outputs.count())});
    });
  };
}

}  // namespace

TextTask::Read reads_vectors(const SentenceConfig& folder, const VectorOptions& options,
                             std::shared_ptr<std::int64_t> width) {
  return [=](const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
    read_vectors(context, folder, texts, options, [&](std::size_t i, TextVectors vectors) {
      if (width != nullptr) *width = vectors.d;
      receive(i, vectors.values);
    });
  };
}

TextTask::Read reads_outputs() {
  return [](const GenerateContext& context, const TextIds& texts, const ReceiveVector& receive) {
    read_outputs(context, texts, EncodeOptions().max_rows, [&](std::size_t i, const Tensor& outputs) {
      receive(i, {outputs.data, static_cast<std::size_t>(outputs.count())});
    });
  };
}

void TextCollector::put(std::vector<std::int32_t> ids, std::vector<std::int32_t> types, TextMarks marks,
                        const std::string& where) {
  check_prompt(model_, ids, where);
  texts_.n_tokens += std::ssize(ids);
  texts_.ids.push_back(std::move(ids));
  texts_.types.push_back(std::move(types));
  texts_.marks.push_back(marks);
}

void TextCollector::add(const std::string& text, const SentenceConfig& folder, const std::string& where) {
  const Tokenizer& tokenizer = tokenizer_of(model_, where);
  const SpecialTokens policy = folder.reading.is_table ? SpecialTokens::written : SpecialTokens::apply;
  std::vector<std::int32_t> ids = tokenizer.encode(folder.prepared(text), policy);
  if (truncates_) ids = truncated(std::move(ids), folder);
  const TextMarks marks = marked(ids, folder, &tokenizer);
  put(std::move(ids), {}, marks, where);
}

void TextCollector::add_pair(const std::string& a, const std::string& b, const std::string& where) {
  const SentenceConfig& folder = model_.sentences;
  if (!folder.pair_template.empty()) {
    const std::int64_t context = model_.model->config().max_seq_len;
    return put(templated_pair(tokenizer_of(model_, where), folder, folder.prepared(a), b, context), {}, {}, where);
  }
  const auto most = truncates_ && folder.max_tokens > 0 ? std::optional(folder.max_tokens) : std::nullopt;
  const Tokenizer& tokenizer = tokenizer_of(model_, where);
  if (folder.reading.is_chat && !chat_) chat_.emplace(model_.templates, tokenizer, model_.names.front());
  PairEncoding pair =
      chat_ ? chat_->encode(folder.prompt, a, b, most)
            : tokenizer.encode_pair(folder.prepared(a), folder.without_prompt(b), SpecialTokens::apply, most);
  const bool has_types = model_.model->config().embedding.n_types > 0 && !chat_;
  const TextMarks marks = marked(pair.ids, folder, &tokenizer);
  put(std::move(pair.ids), has_types ? std::move(pair.types) : std::vector<std::int32_t>(), marks, where);
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
  if (reads_pairs(model.model->config(), model.sentences)) {
    const ScoreFunction of_folder = rank_function(model.model->config(), model.sentences);
    const ScoreFunction function = request.raw ? ScoreFunction::none : of_folder;
    for (std::size_t i = 0; i < documents.size(); ++i) texts.add_pair(request.query, documents[i], place(i));
    TextsToRead all = texts.take(std::move(modifiers));
    const std::int64_t n_tokens = all.n_tokens;
    return std::make_shared<ReadReply>(std::move(all), from, reads_scores(model.sentences),
                                       [=](const ReadReply::Values& outputs, const JobTimes&) {
                                         std::vector<float> scores;
                                         for (const auto& own : outputs) scores.push_back(scores_of(function, own)[0]);
                                         return write(scores, n_tokens);
                                       });
  }
  if (model.can_generate && model.model->config().has_head && !model.sentences.has_modules) {
    throw RequestError(kInvalid, "model", "the model continues texts: it has neither labels nor vectors for a ranking");
  }
  SentenceConfig folder = model.sentences;
  folder.use_role(TextRole::query);
  texts.add(request.query, folder, "query");
  folder.use_role(TextRole::document);
  for (std::size_t i = 0; i < documents.size(); ++i) texts.add(documents[i], folder, place(i));
  TextsToRead all = texts.take(std::move(modifiers));
  const std::int64_t n_tokens = all.n_tokens;
  const auto width = std::make_shared<std::int64_t>(1);
  return std::make_shared<ReadReply>(
      std::move(all), from, reads_vectors(folder, {}, width),
      [=, similarity = folder.similarity](const ReadReply::Values& all_values, const JobTimes&) {
        std::vector<TextVectors> vectors;
        for (const std::vector<float>& values : all_values) vectors.push_back(vectors_in(values, *width));
        std::vector<float> scores;
        for (std::size_t i = 1; i < vectors.size(); ++i) {
          scores.push_back(static_cast<float>(similarity_of(similarity, vectors.front(), vectors[i])));
        }
        return write(scores, n_tokens);
      });
}

TextVectors vectors_in(const std::vector<float>& values, std::int64_t width) {
  return {std::ssize(values) / width, width, values};
}

}  // namespace vitrine
