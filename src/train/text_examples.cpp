#include "train/text_examples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "conversation/conversation.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMostTexts = 1 << 16;  // of a line

/// The columns of a task that mean the same.
struct Column {
  std::vector<const char*> names;  ///< The first is the usual one.
  bool is_list = false;            ///< It may hold a list of texts.
  bool is_required = true;
};

/// Further columns may be numbered: negative_1, negative_2, …
const std::vector<Column>& columns_of(LearnedTask task) {
  static const std::vector<Column> classify = {{{"text", "sentence", "sentence1", "premise", "query", "question"}},
                                               {{"text_pair", "sentence2", "hypothesis", "document"}, false, false}};
  static const std::vector<Column> tag = {{{"tokens", "words"}, true}};
  static const std::vector<Column> rerank = {
      {{"query", "anchor", "question", "sentence1"}},
      {{"document", "documents", "positive", "passage", "passages", "docs", "answer", "response", "sentence2"}, true},
      {{"negative", "negatives"}, true, false}};
  static const std::vector<Column> embed = {
      {{"anchor", "query", "question", "sentence1", "premise"}},
      {{"positive", "document", "passage", "answer", "response", "sentence2", "hypothesis"}},
      {{"negative", "negatives"}, true, false}};
  switch (task) {
    case LearnedTask::classify:
      return classify;
    case LearnedTask::tag:
      return tag;
    case LearnedTask::rerank:
      return rerank;
    case LearnedTask::embed:
      return embed;
  }
  throw InternalError("text_line", "unknown task");
}

const std::vector<const char*>& label_names(LearnedTask task) {
  static const std::vector<const char*> of_texts = {"label", "labels", "score", "scores"};
  static const std::vector<const char*> of_tokens = {"tags", "ner_tags", "labels"};
  return task == LearnedTask::tag ? of_tokens : of_texts;
}

/// Takes the text, or the list of texts, of a column.
void take_texts(const Json& value, bool is_list, const std::string& name, const std::string& where, TextLine& line) {
  const auto take = [&](const Json& text) {
    if (!text.is_string()) throw BadInput(where, "{}: expected a text, got {}", name, text.type_name());
    line.texts.push_back(text.get<std::string>());
  };
  if (!value.is_array()) return take(value);
  if (!is_list) throw BadInput(where, "{}: expected a text, got a list", name);
  for (const Json& text : value) take(text);
}

/// The name of a column that an object has, "" if it has none. Throws if it has two.
std::string present(const Json& object, const std::vector<const char*>& names, const std::string& where) {
  std::string found;
  for (const char* const name : names) {
    if (!object.contains(name)) continue;
    if (!found.empty()) throw BadInput(where, "expected one of the columns {} and {}, got both", found, name);
    found = name;
  }
  return found;
}

double number_of(const Json& json, const std::string& where) {
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  if (!json.is_number() || !std::isfinite(json.get<double>())) {
    throw BadInput(where, "label: expected a number, got {}", json.dump());
  }
  return json.get<double>();
}

std::vector<double> numbers_of(const Json& json, const std::string& where) {
  if (!json.is_array()) return {number_of(json, where)};
  std::vector<double> numbers;
  for (const Json& item : json) numbers.push_back(number_of(item, where));
  return numbers;
}

/// The number of a label, given by its name or its number.
std::size_t label_number(const Json& json, const std::vector<std::string>& names, const std::string& where) {
  if (json.is_string()) {
    const auto at = std::find(names.begin(), names.end(), json.get<std::string>());
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
    throw BadInput(where, "label: the model has no label {}", json.dump());
  }
  const bool fits = json.is_number_integer() && json >= 0 && json < static_cast<std::int64_t>(names.size());
  if (!fits) {
    throw BadInput(where, "label: expected the name of a label or its number from 0 to {}, got {}", names.size() - 1,
                   json.dump());
  }
  return json.get<std::size_t>();
}

/// 1 for each label that a text has: a list of names, or a number for each label.
std::vector<double> several_labels(const Json& json, const std::vector<std::string>& names, const std::string& where) {
  const auto is_text = [](const Json& item) { return item.is_string(); };
  if (json.is_array() && !json.empty() && !std::all_of(json.begin(), json.end(), is_text)) {
    std::vector<double> numbers = numbers_of(json, where);
    if (numbers.size() == names.size()) return numbers;
    throw BadInput(where, "label: expected {} numbers, one for each label, got {}", names.size(), numbers.size());
  }
  if (!json.is_array() && !json.is_string()) {
    if (names.size() == 1) return {number_of(json, where)};
    throw BadInput(where, "label: expected a list of labels, got {}", json.dump());
  }
  std::vector<double> numbers(names.size(), 0.0);
  for (const Json& name : json.is_array() ? json : Json::array({json})) numbers[label_number(name, names, where)] = 1;
  return numbers;
}

std::vector<double> tags_of(const Json& json, const std::vector<std::string>& names, std::size_t n,
                            const std::string& where) {
  if (!json.is_array() || json.size() != n) {
    throw BadInput(where, "tags: expected a list of {}, one for each token, got {}", n,
                   json.is_array() ? std::to_string(json.size()) : json.type_name());
  }
  std::vector<double> tags;
  for (const Json& tag : json) {
    const bool counts = tag != Json(-100);  // as in transformers
    tags.push_back(counts ? static_cast<double>(label_number(tag, names, where)) : -100);
  }
  return tags;
}

/// The margins of the positive document over the others, from margins or scores.
std::vector<double> margins_of(std::vector<double> labels, std::size_t n_documents, const std::string& where) {
  if (n_documents < 2) throw BadInput(where, "MarginMSELoss compares a positive document with negative ones");
  if (labels.size() + 1 == n_documents) return labels;
  if (labels.size() != n_documents) {
    throw BadInput(where, "label: expected {} margins or {} scores, got {} numbers", n_documents - 1, n_documents,
                   labels.size());
  }
  for (std::size_t i = 1; i < n_documents; ++i) labels[i] = labels[0] - labels[i];
  labels.erase(labels.begin());
  return labels;
}

/// Throws unless there are so many numbers.
std::vector<double> exactly(std::size_t n, std::vector<double> labels, const std::string& where) {
  if (labels.size() == n) return labels;
  throw BadInput(where, "label: expected {} {}, got {}", n, n == 1 ? "number" : "numbers", labels.size());
}

std::vector<std::int32_t> word_ids(const Tokenizer& tokenizer, const std::string& word) {
  const std::vector<std::int32_t> ids = tokenizer.encode(word, SpecialTokens::none);
  const std::vector<std::int32_t> spaced = tokenizer.encode(" " + word, SpecialTokens::none);
  // A byte-level vocabulary has words with the space before them.
  const bool has_space = !spaced.empty() && spaced != ids && tokenizer.piece(spaced[0]).starts_with("\u0120");
  return has_space ? spaced : ids;
}

}  // namespace

TextLine parse_text_line(LearnedTask task, std::string_view text, const std::string& where) {
  const Json object = parse_json(text, where);
  if (!object.is_object()) throw BadInput(where, "expected an object, got {}", object.type_name());
  TextLine line;
  std::vector<std::string> read;
  for (const Column& column : columns_of(task)) {
    const std::string name = present(object, column.names, where);
    if (name.empty() && column.is_required) throw BadInput(where, "the column {} is missing", column.names.front());
    if (name.empty()) continue;
    take_texts(object[name], column.is_list, name, where, line);
    read.push_back(name);
    if (read.size() == 2) line.n_positive = line.texts.size() - 1;
  }
  for (std::int64_t i = 1; task == LearnedTask::rerank || task == LearnedTask::embed; ++i) {
    const std::string name = "negative_" + std::to_string(i);
    if (!object.contains(name)) break;
    take_texts(object[name], false, name, where, line);
    read.push_back(name);
  }
  const std::string label = present(object, label_names(task), where);
  if (!label.empty()) line.label = object[label];
  for (const auto& [name, value] : object.items()) {
    if (name == label || std::find(read.begin(), read.end(), name) != read.end()) continue;
    read.emplace_back(label_names(task).front());
    throw BadInput(where, "column {} has no meaning next to {}", name, fmt::join(read, ", "));
  }
  if (line.texts.empty() || std::ssize(line.texts) > kMostTexts) {
    throw BadInput(where, "expected 1 to {} texts, got {}", kMostTexts, line.texts.size());
  }
  return line;
}

void for_each_text_line(LearnedTask task, const std::string& path,
                        const std::function<void(TextLine line, const std::string& where)>& take) {
  for_each_line(path, [&](std::string_view text, const std::string& where, std::int64_t) {
    take(parse_text_line(task, text, where), where);
  });
}

std::vector<double> labels_of(const TextObjective& o, const std::vector<std::string>& names, const TextLine& line,
                              const std::string& where) {
  const bool wants_label = o.loss != TextLoss::multiple_negatives;
  if (wants_label && line.label.is_null()) throw BadInput(where, "the column label is missing");
  if (!wants_label && !line.label.is_null()) throw BadInput(where, "MultipleNegativesRankingLoss reads no label");
  const std::size_t n_documents = line.texts.size() - 1;
  switch (o.loss) {
    case TextLoss::cross_entropy:
      if (o.task == LearnedTask::tag) return tags_of(line.label, names, line.texts.size(), where);
      return {static_cast<double>(label_number(line.label, names, where))};
    case TextLoss::bce_with_logits:
      return several_labels(line.label, names, where);
    case TextLoss::mse:
      if (o.task == LearnedTask::rerank && n_documents != 1) {
        throw BadInput(where, "MSELoss reads one document, got {}", n_documents);
      }
      return exactly(names.size(), numbers_of(line.label, where), where);
    case TextLoss::binary_cross_entropy:
      if (n_documents != 1) throw BadInput(where, "BinaryCrossEntropyLoss reads one document, got {}", n_documents);
      return exactly(1, numbers_of(line.label, where), where);
    case TextLoss::rank_net:
    case TextLoss::list_net:
      return exactly(n_documents, numbers_of(line.label, where), where);
    case TextLoss::margin_mse:
      return margins_of(numbers_of(line.label, where), n_documents, where);
    case TextLoss::multiple_negatives:
      if (n_documents == 0) throw BadInput(where, "the column positive is missing");
      return {};
    case TextLoss::cosent:
    case TextLoss::cosine_similarity:
      if (n_documents != 1) throw BadInput(where, "expected two texts and a score, got {} texts", line.texts.size());
      return exactly(1, numbers_of(line.label, where), where);
  }
  throw InternalError("labels_of", "unknown loss");
}

TextLoss loss_of_problem(const TaskHead& head) {
  using Problem = TaskHead::Problem;
  if (head.task == TaskHead::Task::tag) return TextLoss::cross_entropy;
  const Problem problem = head.problem.value_or(head.n_labels() == 1 ? Problem::regression : Problem::one_label);
  return problem == Problem::regression       ? TextLoss::mse
         : problem == Problem::several_labels ? TextLoss::bce_with_logits
                                              : TextLoss::cross_entropy;
}

EncodedText TextEncoder::text(const std::string& text) const {
  EncodedText result{tokenizer_.encode(config_.without_prompt(text), SpecialTokens::apply)};
  result.is_cut = config_.max_tokens > 0 && std::ssize(result.ids) > config_.max_tokens;
  result.ids = truncated(std::move(result.ids), config_);
  return result;
}

EncodedText TextEncoder::pair(const std::string& a, const std::string& b) const {
  PairEncoding encoded = tokenizer_.encode_pair(config_.without_prompt(a), config_.without_prompt(b),
                                                SpecialTokens::apply, config_.max_tokens);
  if (!has_types_) encoded.types.clear();
  return {std::move(encoded.ids), std::move(encoded.types), encoded.is_cut};
}

EncodedText TextEncoder::words(const std::vector<std::string>& words, std::vector<std::int64_t>& first_rows) const {
  const std::vector<std::int32_t> around = tokenizer_.encode("", SpecialTokens::apply);
  const auto n_suffix = static_cast<std::size_t>(std::min<std::int64_t>(config_.n_suffix, std::ssize(around)));
  const std::size_t n_prefix = around.size() - n_suffix;
  const auto most = static_cast<std::size_t>(config_.max_tokens) -
                    std::min(around.size(), static_cast<std::size_t>(config_.max_tokens));
  EncodedText result{{around.begin(), around.begin() + static_cast<std::ptrdiff_t>(n_prefix)}};
  first_rows.assign(words.size(), -1);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::vector<std::int32_t> ids = word_ids(tokenizer_, config_.without_prompt(words[i]));
    const std::size_t room = most - (result.ids.size() - n_prefix);
    result.is_cut |= ids.size() > room;
    ids.resize(std::min(ids.size(), room));
    if (!ids.empty()) first_rows[i] = std::ssize(result.ids);
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
  }
  result.ids.insert(result.ids.end(), around.end() - static_cast<std::ptrdiff_t>(n_suffix), around.end());
  return result;
}

}  // namespace vitrine
