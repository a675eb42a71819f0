#include "checkpoint/hugging_face/task_parts.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

using Task = TaskHead::Task;
using Pool = TaskHead::Pool;

constexpr std::int64_t kMaxLabels = 1 << 20;

/// The name of a class without the task: Bert of BertForMaskedLM.
std::string_view stem_of(const Family& family) {
  return family.architecture.substr(0, family.architecture.rfind("For"));
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

/// The names of id2label, which has the numbers from 0 as keys; LABEL_0 and so on if there is none, as many as
/// num_labels says, else two.
std::vector<std::string> read_labels(ConfigReader& c) {
  std::vector<std::string> labels;
  if (!c.has("id2label")) {
    const std::int64_t n = c.size_or("num_labels", c.size_or("_num_labels", 2));
    if (n > kMaxLabels) throw BadCheckpoint(c.where(), "num_labels: expected at most {}, got {}", kMaxLabels, n);
    for (std::int64_t i = 0; i < n; ++i) labels.push_back("LABEL_" + std::to_string(i));
    return labels;
  }
  const std::map<std::string, std::string> names = c.texts_by_key("id2label");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto name = names.find(std::to_string(i));
    if (name == names.end()) {
      throw BadCheckpoint(c.where(), "id2label: expected the keys 0 to {}, {} is missing", names.size() - 1, i);
    }
    labels.push_back(name->second);
  }
  return labels;
}

std::optional<TaskHead::Problem> read_problem(ConfigReader& c) {
  const std::string type = c.text_or("problem_type", "");
  if (type.empty()) return {};
  if (type == "single_label_classification") return TaskHead::Problem::one_label;
  if (type == "multi_label_classification") return TaskHead::Problem::several_labels;
  if (type == "regression") return TaskHead::Problem::regression;
  throw Unsupported(c.where(),
                    "problem_type: expected single_label_classification, multi_label_classification or regression, got "
                    "\"{}\"",
                    type);
}

/// Whether a parameter of ours belongs to a head or a pooler.
bool is_of_head(std::string_view ours) {
  return ours.starts_with("unembed") || ours.starts_with("head.") || ours.starts_with("pooler.") || ours == "nsp_head";
}

}  // namespace

std::vector<TaskClass> row_classes() {
  return {{"ForTokenClassification", {.task = Task::tag, .pool = Pool::none}, {{"classifier", {"head.out"}}}},
          {"ForQuestionAnswering", {.task = Task::answer, .pool = Pool::none}, {{"qa_outputs", {"head.out"}}}}};
}

std::vector<TaskClass> pooled_classes(std::string_view dense, Activation activation, std::string_view out,
                                      std::string_view choice) {
  std::vector<TaskClass> classes = row_classes();
  const TaskHead classifies{.pool = Pool::first, .activation = activation};
  TaskHead chooses = classifies;
  chooses.task = Task::choose;
  classes.push_back({"ForSequenceClassification", classifies, {{dense, {"head.dense"}}, {out, {"head.out"}}}, true});
  classes.push_back({"ForMultipleChoice", chooses, {{choice, {"head.dense"}}, {"classifier", {"head.out"}}}, true});
  return classes;
}

std::vector<TaskClass> decoder_classes(std::optional<std::int32_t> pad_id) {
  return {{"ForSequenceClassification",
           {.pool = Pool::last, .pad_id = pad_id, .out_bias = false},
           {{"score", {"head.out"}}}},
          {"ForTokenClassification", {.task = Task::tag, .pool = Pool::none}, {{"score", {"head.out"}}}},
          {"ForQuestionAnswering", {.task = Task::answer, .pool = Pool::none}, {{"qa_outputs", {"head.out"}}}}};
}

const TaskClass* task_class_of(const Family& family, const Json& config) {
  const auto it = config.find("architectures");
  if (it == config.end() || !it->is_array()) return nullptr;
  const std::string stem = lower(stem_of(family));
  for (const Json& name : *it) {
    if (!name.is_string()) continue;
    const std::string own = lower(name.get<std::string>());
    for (const TaskClass& task : family.tasks) {
      const std::string ending = lower(task.ending);
      if (own == stem + ending || own == stem + "text" + ending) return &task;
    }
  }
  return nullptr;
}

void leave_out_heads(Family& family) {
  const auto leave_out = [&](const TensorRule& rule) {
    if (is_of_head(rule.ours.front())) family.unused.push_back(rule.stored);
  };
  for (const TensorRule& rule : family.tensors) leave_out(rule);
  for (const TaskClass& task : family.tasks) {
    for (const TensorRule& rule : task.tensors) leave_out(rule);
  }
}

Family with_task(const Family& family, const TaskClass& task) {
  Family result = family;
  result.task = task;
  std::erase_if(result.tensors, [](const TensorRule& rule) { return is_of_head(rule.ours.front()); });
  std::erase_if(result.ignored, [](std::string_view name) { return name.find("pooler") != name.npos; });
  const auto leave_out = [&](const TensorRule& rule) {
    const auto has_name = [&](const TensorRule& own) { return own.stored == rule.stored; };
    if (std::any_of(task.tensors.begin(), task.tensors.end(), has_name)) return;
    if (is_of_head(rule.ours.front())) result.unused.push_back(rule.stored);
  };
  for (const TensorRule& rule : family.tensors) leave_out(rule);
  for (const TaskClass& other : family.tasks) {
    for (const TensorRule& rule : other.tensors) leave_out(rule);
  }
  result.tensors.insert(result.tensors.end(), task.tensors.begin(), task.tensors.end());
  return result;
}

void read_task(ConfigReader& c, const TaskClass& task, ModelConfig& model) {
  TaskHead head = task.head;
  if (task.has_dense) head.dense = model.d_model;
  if (head.pool == Pool::last) {
    head.pad_id = read_id(c, "pad_token_id", head.pad_id.value_or(-1), model.vocab_size);
  }
  head.labels = read_labels(c);
  if (head.task == Task::choose) head.labels = {"choice"};
  if (head.task == Task::answer) head.labels = {"start", "end"};
  if (head.task == Task::classify) head.problem = read_problem(c);
  for (const char* key : {"sentence_transformers", "sbert_ce_default_activation_function"}) c.ignore(key);  // of rerank
  if (task.read) task.read(c, model, head);
  model.task = head;
  model.has_head = false;
  model.head = {};
  model.pooler.reset();
}

}  // namespace vitrine
