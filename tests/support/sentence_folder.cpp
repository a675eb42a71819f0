#include "support/sentence_folder.h"

#include <optional>

#include "chat/pair_prompt.h"
#include "generate/rerank.h"

namespace vitrine::test {

TextIds PreparedTexts::one(std::size_t i) const {
  const auto part = [&](const auto& all) { return all.empty() ? std::span(all) : std::span(all).subspan(i, 1); };
  return {part(ids), part(types), part(marks)};
}

SentenceFolder::SentenceFolder(const std::string& path)
    : path_(path), checkpoint_(load_checkpoint(path)), tokenizer_(load_tokenizer(checkpoint_.tokenizer_path)) {}

SentenceConfig SentenceFolder::config(TextRole role) const {
  const ModelConfig& model = checkpoint_.model->config();
  SentenceConfig config = read_sentence_config(checkpoint_.tokenizer_path, tokenizer_.get(), model.max_seq_len);
  config.use_role(role);
  return config;
}

PreparedTexts SentenceFolder::prepare(const SentenceConfig& config, const Json& texts) const {
  const SpecialTokens policy = config.reading.is_table ? SpecialTokens::written : SpecialTokens::apply;
  PreparedTexts prepared;
  for (const Json& text : texts) {
    prepared.ids.push_back(truncated(tokenizer_->encode(config.prepared(text.get<std::string>()), policy), config));
    prepared.marks.push_back(marked(prepared.ids.back(), config, tokenizer_.get()));
  }
  return prepared;
}

GenerateContext SentenceFolder::context(ThreadPool& pool, const Kernels& kernels) const {
  GenerateContext context{checkpoint_.model.get(), &pool, &kernels};
  context.compute = Compute::f32;
  return context;
}

std::vector<TextVectors> SentenceFolder::vectors(const SentenceConfig& config, const TextIds& texts, int threads,
                                                 const Kernels& kernels) const {
  ThreadPool pool(threads);
  std::vector<TextVectors> all(texts.ids.size());
  read_vectors(context(pool, kernels), config, texts, {},
               [&](std::size_t i, TextVectors own) { all[i] = std::move(own); });
  return all;
}

std::vector<float> SentenceFolder::scores(const Json& texts) const {
  const SentenceConfig folder = config();
  const ModelConfig& model = checkpoint_.model->config();
  std::optional<PairPrompt> chat;
  if (folder.reading.is_chat) chat.emplace(load_chat_templates(path_), *tokenizer_, path_, folder.reading.has_parts);
  PreparedTexts pairs;
  const auto query = texts[0].get<std::string>();
  for (const Json& text : texts) {
    const auto document = text.get<std::string>();
    PairEncoding pair = chat ? chat->encode(folder.prompt, query, document, folder.most_tokens())
                             : tokenizer_->encode_pair(folder.prepared(query), folder.without_prompt(document),
                                                       SpecialTokens::apply, folder.most_tokens());
    pairs.ids.push_back(std::move(pair.ids));
    const bool has_types = model.embedding.n_types > 0 && folder.gives_types && !chat;
    pairs.types.push_back(has_types ? std::move(pair.types) : std::vector<std::int32_t>());
  }
  ThreadPool pool(1);
  const ScoreFunction function = rank_function(model, folder);
  std::vector<float> scores(pairs.ids.size());
  read_scores(context(pool, default_kernels()), folder, pairs.all(), 64,
              [&](std::size_t i, const Tensor& outputs) { scores[i] = scores_of(function, outputs.values()).front(); });
  return scores;
}

}  // namespace vitrine::test
