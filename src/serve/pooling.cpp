// /pooling (vLLM): vectors, classes or scores of texts or of their tokens, by `task`. Source: vLLM, docs/serving/
// openai_compatible_server.md, entrypoints/pooling.
#include "serve/embeddings.h"
#include "serve/foreign_fields.h"
#include "serve/reading.h"

namespace vitrine {
namespace {

enum class Task { embed, token_embed, classify, token_classify, score };

Task read_task(const ServedModel& model, RequestFields& fields) {
  constexpr std::pair<std::string_view, Task> kTasks[] = {{"embed", Task::embed},
                                                          {"token_embed", Task::token_embed},
                                                          {"classify", Task::classify},
                                                          {"token_classify", Task::token_classify},
                                                          {"score", Task::score}};
  const auto name = fields.text("task");
  if (!name) {
    const auto& head = model.model->config().task;
    if (!head || makes_vectors(model.model->config(), model.sentences)) return Task::token_embed;
    return head->task == TaskHead::Task::tag ? Task::token_classify : Task::classify;
  }
  for (const auto& [known, task] : kTasks) {
    if (*name == known) return task;
  }
  fields.fail("task", fmt::format("expected embed, token_embed, classify, token_classify or score, got \"{}\"", *name));
}

/// Divides each row by its length, unless it is 0.
void normalize_rows(std::vector<float>& rows, std::int64_t d) {
  for (auto row = rows.begin(); row != rows.end(); row += d) {
    double squares = 0;
    for (auto x = row; x != row + d; ++x) squares += static_cast<double>(*x) * static_cast<double>(*x);
    const double length = std::sqrt(squares);
    for (auto x = row; x != row + d && length > 0; ++x) *x = static_cast<float>(static_cast<double>(*x) / length);
  }
}

/// The values of a text as the member `data` of the response.
using DataOf = std::function<Json(std::vector<float> values)>;

/// What a request for pooling chooses besides its texts.
struct PoolingForm {
  Task task;
  bool activates = true;  ///< Vectors have length 1; outputs become scores.
  bool is_base64 = false;
  std::optional<std::int64_t> dimensions{};
};

PoolingForm read_form(const ServedModel& model, RequestFields& fields) {
  PoolingForm form{read_task(model, fields)};
  for (const char* const name : {"use_activation", "activation", "softmax", "normalize"}) {
    form.activates = fields.flag(name).value_or(form.activates);
  }
  form.is_base64 = read_is_base64(fields);
  form.dimensions = read_dimensions(model, fields);
  if (form.dimensions && form.task != Task::embed) fields.fail("dimensions", "expected the task embed with it");
  return form;
}

/// The values of rows of `d` elements as lists, or as one text of base64.
Json rows_of(const std::vector<float>& rows, std::int64_t d, bool is_base64) {
  return is_base64 ? vector_json(rows, true) : rows_json(rows, d);
}

DataOf data_of(const ServedModel& model, const PoolingForm& form) {
  if (form.task == Task::embed) {
    return [form](const std::vector<float>& vector) { return vector_json(vector, form.is_base64); };
  }
  if (form.task == Task::token_embed) {
    return [form, d = token_vectors(model).width](std::vector<float> rows) {
      if (form.activates) normalize_rows(rows, d);
      return rows_of(rows, d, form.is_base64);
    };
  }
  const bool is_of_tokens = form.task == Task::token_classify;
  const TaskHead& head = is_of_tokens ? tags_of(model) : classes_of(model);
  const bool is_score = form.task == Task::score;
  const ScoreFunction own = is_score ? rank_function(model.model->config(), model.sentences) : score_function(head);
  const ScoreFunction function = form.activates ? own : ScoreFunction::none;
  return [=, n = head.n_labels()](const std::vector<float>& outputs) {
    std::vector<float> scores;
    for (auto row = outputs.begin(); row != outputs.end(); row += n) {
      const std::vector<float> some = scores_of(function, std::span(row, row + n));
      scores.insert(scores.end(), some.begin(), some.end());
    }
    return is_of_tokens ? rows_of(scores, n, form.is_base64) : vector_json(scores, form.is_base64);
  };
}

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> pool(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  ReadChoice choice = read_choice(model, fields);
  const PoolingForm form = read_form(model, fields);
  TextCollector collected(model, read_vllm_cut(fields));
  fields.find("input");
  read_foreign(fields, kOfVectors);
  fields.finish();
  const bool is_vector = form.task == Task::embed || form.task == Task::token_embed;
  if (form.task == Task::embed) require_one_vector(model);
  if (form.task == Task::token_embed) require_vectors(model);
  const DataOf data = data_of(model, form);
  collected.add_inputs(fields, "input");
  const std::string name = choice.model;
  const bool reads_steps = form.task == Task::embed || model.sentences.result() == TextValue::tokens;
  const auto source = !is_vector    ? TextSteps::Source::outputs
                      : reads_steps ? model.sentences.steps.source
                                    : TextSteps::Source::rows;
  TextsToRead texts = collected.take(std::move(choice), fields, source);
  const auto write = [=, id = request.id, created = model.created, n_tokens = texts.n_tokens](
                         const ReadReply::Values& values, const JobTimes&) {
    Json list = Json::array();
    for (std::size_t i = 0; i < values.size(); ++i) {
      list.push_back({{"index", i}, {"object", "pooling"}, {"data", data(values[i])}});
    }
    return Json({{"id", "pool-" + id},
                 {"object", "list"},
                 {"created", created},
                 {"model", name},
                 {"data", std::move(list)},
                 {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}});
  };
  if (form.task == Task::embed) {
    VectorOptions options{.dimensions = form.dimensions};
    if (!model.sentences.is_sparse()) options.normalize = form.activates;
    return vectors_of(model, std::move(texts), options, request, write);
  }
  const TextReading reading = is_vector ? token_vectors(model).reading : reads_outputs();
  return std::make_shared<ReadReply>(std::move(texts), request, reading, write);
}

}  // namespace routes

}  // namespace vitrine
