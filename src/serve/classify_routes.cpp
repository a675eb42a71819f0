// /classify and /v1/classify (vLLM), and /predict (text-embeddings-inference).
#include "serve/foreign_fields.h"
#include "serve/prompts.h"
#include "serve/reading.h"

namespace vitrine {
namespace {

/// The texts of a request, and whether it has one text that is no list.
struct TextsToClassify {
  std::vector<std::pair<std::string, std::optional<std::string>>> texts;
  bool is_one = false;
};

/// A string, or a list of strings; with `may_pair` also a pair [a, b] within the list.
TextsToClassify read_inputs(RequestFields& fields, const char* name, bool may_pair) {
  TextsToClassify inputs;
  const Json* const value = fields.find(name);
  if (value != nullptr && value->is_string()) {
    inputs.texts.emplace_back(value->get<std::string>(), std::nullopt);
    inputs.is_one = true;
    return inputs;
  }
  if (value == nullptr || !value->is_array() || value->empty() || value->size() > kMaxTexts) {
    fields.fail(name, fmt::format("expected a string, or a list of 1 to {} texts", kMaxTexts));
  }
  for (std::size_t i = 0; i < value->size(); ++i) {
    const Json& one = (*value)[i];
    const bool is_pair = may_pair && one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string();
    const bool is_text = one.is_string() || (may_pair && one.is_array() && one.size() == 1 && one[0].is_string());
    if (!is_pair && !is_text) fields.fail(fmt::format("{}[{}]", name, i), "expected a string");
    if (is_pair) inputs.texts.emplace_back(one[0].get<std::string>(), one[1].get<std::string>());
    if (!is_pair)
      inputs.texts.emplace_back(one.is_string() ? one.get<std::string>() : one[0].get<std::string>(), std::nullopt);
  }
  return inputs;
}

std::shared_ptr<PendingReply> classify_all(
    const ServedModel& model, const TextsToClassify& inputs, bool truncates, std::optional<ModifierList> modifiers,
    const RouteRequest& from, std::function<Json(const ReadReply::Values& outputs, std::int64_t n_tokens)> write) {
  TextCollector texts(model, truncates);
  for (std::size_t i = 0; i < inputs.texts.size(); ++i) {
    const auto& [text, pair] = inputs.texts[i];
    const std::string where = fmt::format("text {}", i);
    pair ? texts.add_pair(text, *pair, where) : texts.add(text, model.sentences, where);
  }
  TextsToRead all = texts.take(std::move(modifiers));
  const std::int64_t n_tokens = all.n_tokens;
  return std::make_shared<ReadReply>(
      std::move(all), from, reads_outputs(),
      [=](const ReadReply::Values& outputs, const JobTimes&) { return write(outputs, n_tokens); });
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> classify(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  ChosenModel chosen = read_model(model, fields);
  const TaskHead& head = classes_of(model);
  const TextsToClassify inputs = read_inputs(fields, "input", false);
  const bool activates = fields.flag("use_activation").value_or(fields.flag("activation").value_or(true));
  read_foreign(fields, kOfVectors);
  fields.finish();
  const ScoreFunction function = activates ? score_function(head) : ScoreFunction::none;
  const auto write = [=, name = chosen.name, labels = head.labels, id = request.id, created = model.created](
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
  return classify_all(model, inputs, true, chosen.modifiers(model), request, write);
}

std::shared_ptr<PendingReply> predict(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  const ChosenModel chosen = read_model(model, fields);
  const TaskHead& head = classes_of(model);
  const TextsToClassify inputs = read_inputs(fields, "inputs", true);
  const ScoreFunction function = fields.flag("raw_scores").value_or(false) ? ScoreFunction::none : score_function(head);
  const bool truncates = fields.flag("truncate").value_or(true);
  if (fields.text("truncation_direction").value_or("Right") != "Right") {
    fields.fail("truncation_direction", "expected Right: texts lose their last tokens");
  }
  fields.finish();
  const auto write = [=, is_one = inputs.is_one, labels = head.labels](const ReadReply::Values& outputs, std::int64_t) {
    Json all = Json::array();
    for (const std::vector<float>& own : outputs) {
      const std::vector<float> scores = scores_of(function, own);
      Json list = Json::array();
      for (const std::size_t i : descending(scores)) list.push_back({{"score", scores[i]}, {"label", labels[i]}});
      all.push_back(std::move(list));
    }
    return is_one ? all.front() : all;
  };
  return classify_all(model, inputs, truncates, chosen.modifiers(model), request, write);
}

}  // namespace routes

}  // namespace vitrine
