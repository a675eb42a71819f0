// What the routes share that read texts: rerankers, classifiers, vectors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/pair_prompt.h"
#include "generate/rerank.h"
#include "generate/text_vectors.h"
#include "generate/text_windows.h"
#include "serve/modifier_fields.h"
#include "serve/read_reply.h"
#include "serve/text_attribution.h"

namespace vitrine {

/// What a request chooses: the model, what changes it, and the values that it reads.
struct ReadChoice {
  std::string model;  ///< As the client named it.
  ChosenModifiers modifiers{};
  std::optional<SiteFields> sites{};
  std::optional<AttributeFields> attribute{};
};
/// The fields `model` and `vitrine`. Throws RequestError.
ReadChoice read_choice(const ServedModel& model, RequestFields& fields);

/// What becomes of a text that is longer than the model reads.
struct TextCut {
  bool cuts = true;                    ///< Otherwise it is refused.
  bool keeps_end = false;              ///< It loses its first tokens instead of its last ones.
  std::optional<std::int64_t> most{};  ///< Fewer tokens than the model reads.
};
/// text-embeddings-inference: `truncate` (default: true) and `truncation_direction`, Left or Right.
TextCut read_tei_cut(RequestFields& fields);
/// vLLM: `truncate_prompt_tokens` (-1: what the model reads) and `truncation_side`.
TextCut read_vllm_cut(RequestFields& fields);

/// The number of tokens that a tokenizer puts before every text.
std::int64_t prefix_of(const Tokenizer& tokenizer);

/// Reads texts with the folder's prompt that the field names, if there is one. Throws RequestError with the names that
/// the folder has.
void read_prompt_name(SentenceConfig& folder, RequestFields& fields);
/// The same for a kind of text: query or document, as Cohere and others spell them, or the name of a prompt.
void read_input_type(SentenceConfig& folder, RequestFields& fields);

/// What a request reads of its texts; null if it reads and changes no values. `fields` has the field `vitrine`.
std::shared_ptr<TextSites> sites_of(const ServedModel& model, ReadChoice choice, RequestFields& fields,
                                    std::span<const std::vector<std::int32_t>> texts, TextSteps::Source source);

/// The texts of a request while they are collected.
class TextCollector {
 public:
  TextCollector(const ServedModel& model, const TextCut& cut);

  /// How the next texts are read: as the model's folder says, with another prompt or role.
  SentenceConfig& folder() { return folder_; }
  /// A text. Throws RequestError for one that has no tokens or is too long, and what the tokenizer throws; so do the
  /// next ones.
  void add(const std::string& text, const std::string& where);
  void add_ids(std::vector<std::int32_t> ids, const std::string& where);
  /// A pair, as one text.
  void add_pair(const std::string& a, const std::string& b, const std::string& where);
  /// A text or a window of one as it is, with the types of its tokens if the model has types.
  void add_placed(const PlacedTexts& text, const std::string& where);
  /// A field that is a text, a list of ids, or a list of these.
  void add_inputs(RequestFields& fields, const char* name);

  /// All of them, of which `source` is read. `fields` has the field `vitrine`.
  TextsToRead take(ReadChoice choice, RequestFields& fields, TextSteps::Source source);

 private:
  /// A text, or a pair, as the tokenizer is to read it.
  struct Source {
    std::string text;
    std::optional<std::string> pair{};
  };
  LabelText label_text(const AttributeFields& wishes) const;
  std::shared_ptr<TextAttribution> explain(ReadChoice& choice, TextSteps::Source source) const;
  std::int64_t most() const;
  void check_length(std::int64_t n, const std::string& where) const;
  void put(std::vector<std::int32_t> ids, std::vector<std::int32_t> types, TextMarks marks, const std::string& where,
           std::optional<Source> source = {});
  PairEncoding chat_pair(const std::string& a, const std::string& b, const std::string& where);
  PairEncoding cut_pair(const std::string& a, const std::string& b, const std::string& where) const;

  const ServedModel& model_;
  TextCut cut_;
  SentenceConfig folder_;
  std::optional<PairPrompt> chat_;  // of a model that reads pairs in a chat template
  TextsToRead texts_;
  std::vector<std::optional<Source>> sources_;  // of each text; none: it is ids
  bool has_places_ = true;                      // of the words of its texts
};

/// Makes the outputs of the model's head of each text.
TextReading reads_outputs();
/// Makes what the folder's steps make of each text: a vector, or those of its tokens one after the other.
TextReading reads_vectors(const SentenceConfig& folder, const VectorOptions& options);
/// The vectors of all tokens of a text, one after the other: those that the folder's steps make, if they end with
/// vectors of tokens, else the rows of the stack.
struct TokenReading {
  TextReading reading;
  std::int64_t width;  ///< Of a vector.
};
TokenReading token_vectors(const ServedModel& model);
/// The vectors of a text that reads_vectors() has delivered, of `width` elements each.
TextVectors vectors_in(const std::vector<float>& values, std::int64_t width);
/// The elements of a vector of the model, before a request cuts it.
std::int64_t width_of(const ServedModel& model);

/// The head of a model that gives texts labels, or tokens. Throws RequestError for any other model.
const TaskHead& classes_of(const ServedModel& model);
const TaskHead& tags_of(const ServedModel& model);
/// Throws RequestError for a model that has no vectors of texts.
void require_vectors(const ServedModel& model);
/// The same, and for a model that has a vector for each token.
void require_one_vector(const ServedModel& model);

}  // namespace vitrine
