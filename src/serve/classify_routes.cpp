// /classify and /v1/classify (vLLM), and /predict (text-embeddings-inference).
#include "serve/foreign_fields.h"
#include "serve/prompts.h"
#include "serve/reading.h"

namespace vitrine {
namespace {

using TextOrPair = std::pair<std::string, std::optional<std::string>>;

/// The texts of a request, and whether it has one that is in no list.
struct TextsToClassify {
  std::vector<TextOrPair> texts;
  bool is_one = false;
};

/// One text as text-embeddings-inference has it: a string, or a list of one or two.
TextOrPair sequence_in(RequestFields& fields, const Json& value, const std::string& where) {
  if (value.is_string()) return {value.get<std::string>(), std::nullopt};
  const bool is_list = value.is_array() && (value.size() == 1 || value.size() == 2) && value.front().is_string() &&
                       value.back().is_string();
  if (!is_list) fields.fail(where, "expected a string, or a list of a text or a pair");
  if (value.size() == 1) return {value[0].get<std::string>(), std::nullopt};
  return {value[0].get<std::string>(), value[1].get<std::string>()};
}

/// The field `inputs`: a text; [TEXT] or [TEXT, PAIR], which is one text; or a list of such lists. If `is_batch`, a
/// list of strings has as many texts.
TextsToClassify read_inputs(RequestFields& fields, bool is_batch) {
  constexpr const char* kName = "inputs";
  const Json* const value = fields.find(kName);
  if (value == nullptr) fields.fail(kName, "expected a string, or a list of texts, got none");
  if (value->is_array() && value->empty()) throw RequestError(kEmpty, kName, "expected at least one text, got none");
  const bool is_one = !value->is_array() || (!is_batch && value->front().is_string());
  if (is_one) return {{sequence_in(fields, *value, kName)}, true};
  if (value->size() > kMaxTexts) {
    throw RequestError(kTooMany, kName, "expected at most {} texts, got {}", kMaxTexts, value->size());
  }
  TextsToClassify inputs;
  for (std::size_t i = 0; i < value->size(); ++i) {
    inputs.texts.push_back(sequence_in(fields, (*value)[i], fmt::format("{}[{}]", kName, i)));
  }
  return inputs;
}

std::shared_ptr<PendingReply> classify_all(
    TextsToRead texts, const RouteRequest& from,
    std::function<Json(const ReadReply::Values& outputs, std::int64_t n_tokens)> write) {
  const std::int64_t n_tokens = texts.n_tokens;
  return std::make_shared<ReadReply>(
      std::move(texts), from, reads_outputs(),
      [=](const ReadReply::Values& outputs, const JobTimes&) { return write(outputs, n_tokens); });
}

/// What a request for labels may choose besides its texts.
struct LabelForm {
  ScoreFunction function;
  std::size_t top;       ///< The number of labels.
  bool is_list = false;  ///< One text is answered as a list, too.
};

/// The fields of text-embeddings-inference, or those of huggingface_hub's client in `parameters`.
LabelForm read_form(const TaskHead& head, RequestFields& fields) {
  LabelForm form{score_function(head), head.labels.size()};
  if (fields.flag("raw_scores").value_or(false)) form.function = ScoreFunction::none;
  const Json* const parameters = fields.find("parameters");
  if (parameters == nullptr) return form;
  form.is_list = true;
  RequestFields own = fields.of(*parameters, "parameters");
  const std::string function = own.text("function_to_apply").value_or("");
  if (function == "none") form.function = ScoreFunction::none;
  if (function == "sigmoid") form.function = ScoreFunction::sigmoid;
  if (function == "softmax") form.function = ScoreFunction::softmax;
  if (!function.empty() && function != "none" && function != "sigmoid" && function != "softmax") {
    own.fail("function_to_apply", fmt::format("expected none, sigmoid or softmax, got \"{}\"", function));
  }
  form.top = std::min(form.top, own.whole<std::size_t>("top_k", 1).value_or(form.top));
  own.finish();
  return form;
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> predict_tags(const ServedModel& model, const RouteRequest& request);

std::shared_ptr<PendingReply> classify(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  ReadChoice choice = read_choice(model, fields);
  const TaskHead& head = classes_of(model);
  const bool activates = fields.flag("use_activation").value_or(fields.flag("activation").value_or(true));
  TextCollector texts(model, read_vllm_cut(fields));
  fields.find("input");
  read_foreign(fields, kOfVectors);
  fields.finish();
  texts.add_inputs(fields, "input");
  const ScoreFunction function = activates ? score_function(head) : ScoreFunction::none;
  const auto write = [=, name = choice.model, labels = head.labels, id = request.id, created = model.created](
                         const ReadReply::Values& outputs, std::int64_t n_tokens) {
    Json data = Json::array();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<float> scores = scores_of(function, outputs[i]);
      data.push_back({{"index", i},
                      {"label", labels[descending(scores).front()]},
                      {"probs", scores},
                      {"num_classes", scores.size()}});
    }
    return Json({{"id", "classify-" + id},
                 {"object", "list"},
                 {"created", created},
                 {"model", name},
                 {"data", data},
                 {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}});
  };
  return classify_all(texts.take(std::move(choice), fields, TextSteps::Source::outputs), request, write);
}

std::shared_ptr<PendingReply> predict(const ServedModel& model, const RouteRequest& request) {
  const auto& task = model.model->config().task;
  if (task && task->task == TaskHead::Task::tag) return predict_tags(model, request);
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  ReadChoice choice = read_choice(model, fields);
  const TaskHead& head = classes_of(model);
  const LabelForm form = read_form(head, fields);
  const TextsToClassify inputs = read_inputs(fields, form.is_list);
  TextCollector texts(model, read_tei_cut(fields));
  fields.finish();
  for (std::size_t i = 0; i < inputs.texts.size(); ++i) {
    const auto& [text, pair] = inputs.texts[i];
    const std::string where = fmt::format("inputs[{}]", i);
    pair ? texts.add_pair(text, *pair, where) : texts.add(text, where);
  }
  const bool is_flat = inputs.is_one && !form.is_list;
  const auto write = [=, labels = head.labels](const ReadReply::Values& outputs, std::int64_t) {
    Json all = Json::array();
    for (const std::vector<float>& own : outputs) {
      const std::vector<float> scores = scores_of(form.function, own);
      std::vector<std::size_t> order = descending(scores);
      order.resize(form.top);
      Json list = Json::array();
      for (const std::size_t i : order) list.push_back({{"score", scores[i]}, {"label", labels[i]}});
      all.push_back(std::move(list));
    }
    return is_flat ? all.front() : all;
  };
  return classify_all(texts.take(std::move(choice), fields, TextSteps::Source::outputs), request, write);
}

}  // namespace routes

}  // namespace vitrine
