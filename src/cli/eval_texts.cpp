#include "cli/eval_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/eval_answers.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/retrieval.h"
#include "cli/table.h"
#include "cli/task_texts.h"
#include "cli/vector_output.h"
#include "generate/classify.h"
#include "metrics/class_scores.h"
#include "metrics/ranking_scores.h"
#include "train/text_examples.h"
#include "train/text_options.h"

namespace vitrine::cli {
namespace {

/// The examples of a file, and the scores of any of them.
struct Evaluated {
  std::size_t n = 0;
  ScoreExamples score;
};

const TaskHead& head_of(const Session& session, TaskHead::Task task, const std::string& name) {
  const auto& head = session.checkpoint.model->config().task;
  if (head && head->task == task) return *head;
  throw Unsupported("--task " + name, "the model has no head for it");
}

Evaluated eval_classify(TaskTexts& texts, const std::string& path) {
  const TaskHead& head = head_of(texts.session(), TaskHead::Task::classify, "classify");
  TextObjective objective{LearnedTask::classify, loss_of_problem(head)};
  const auto found = std::make_shared<ClassPredictions>();
  for_each_text_line(objective.task, path, [&](const TextLine& line, const std::string& where) {
    found->truths.push_back(labels_of(objective, head.labels, line, where));
    texts.add(line.texts[0], line.texts.size() > 1 ? std::optional(line.texts[1]) : std::nullopt);
  });
  found->has_several = objective.loss == TextLoss::bce_with_logits;
  for (const std::vector<float>& outputs : texts.outputs()) {
    const std::vector<float> scores = scores_of(score_function(head), outputs);
    found->scores.emplace_back(scores.begin(), scores.end());
  }
  const std::size_t n = found->truths.size();
  if (objective.loss != TextLoss::mse) {
    return {n, [found](std::span<const std::size_t> numbers) { return class_scores(*found, numbers); }};
  }
  std::vector<double> predicted, truths;  // of all labels, one after another
  for (std::size_t i = 0; i < n; ++i) {
    predicted.insert(predicted.end(), found->scores[i].begin(), found->scores[i].end());
    truths.insert(truths.end(), found->truths[i].begin(), found->truths[i].end());
  }
  const auto width = head.labels.size();
  return {n, [=](std::span<const std::size_t> numbers) {
            std::vector<std::size_t> places;
            for (const std::size_t i : numbers) {
              for (std::size_t k = 0; k < width; ++k) places.push_back(i * width + k);
            }
            return number_scores(predicted, truths, places);
          }};
}

Evaluated eval_tags(TaskTexts& texts, const std::string& path) {
  const TaskHead& head = head_of(texts.session(), TaskHead::Task::tag, "tag");
  const TextObjective objective{LearnedTask::tag, TextLoss::cross_entropy};
  std::vector<std::vector<std::int64_t>> rows;  // of the first id of each word
  std::vector<std::vector<double>> tags;
  for_each_text_line(objective.task, path, [&](const TextLine& line, const std::string& where) {
    tags.push_back(labels_of(objective, head.labels, line, where));
    rows.push_back(texts.add_words(line.texts));
  });
  const std::vector<std::vector<float>> outputs = texts.outputs();
  const std::size_t width = head.labels.size();
  std::vector<TagCounts> counts;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    std::vector<std::string> predicted, truths;
    for (std::size_t word = 0; word < tags[i].size(); ++word) {
      if (tags[i][word] < 0 || rows[i][word] < 0) continue;
      const auto own = outputs[i].begin() + rows[i][word] * static_cast<std::ptrdiff_t>(width);
      const auto best = std::max_element(own, own + static_cast<std::ptrdiff_t>(width)) - own;
      predicted.push_back(head.labels[static_cast<std::size_t>(best)]);
      truths.push_back(head.labels[static_cast<std::size_t>(tags[i][word])]);
    }
    counts.push_back(count_tags(predicted, truths));
  }
  return {counts.size(), [counts](std::span<const std::size_t> numbers) { return tag_scores(counts, numbers); }};
}

/// The similarity of two texts, by a cross-encoder or by vectors, compared with what it should be.
Evaluated eval_similarity(TaskTexts& texts, const std::string& path) {
  const TextObjective objective{LearnedTask::embed, TextLoss::cosine_similarity};
  std::vector<std::pair<std::string, std::string>> pairs;
  std::vector<double> truths;
  for_each_text_line(objective.task, path, [&](const TextLine& line, const std::string& where) {
    truths.push_back(labels_of(objective, {}, line, where)[0]);
    pairs.emplace_back(line.texts[0], line.texts[1]);
  });
  const std::vector<double> scores = texts.pair_scores(pairs, true);
  return {truths.size(), [=](std::span<const std::size_t> numbers) {
            std::vector<NamedScore> found = number_scores(scores, truths, numbers);
            found.erase(found.begin());  // no mean square: similarities have another scale
            return found;
          }};
}

Evaluated mean_of(std::vector<std::vector<NamedScore>> queries) {
  const std::size_t n = queries.size();
  return {n, [queries = std::move(queries)](std::span<const std::size_t> numbers) {
            return mean_scores(queries, numbers);
          }};
}

/// Whether documents are relevant: those with a label above 0, or those that are named positive.
std::vector<bool> relevance_of(const TextLine& line, const std::string& where) {
  const std::size_t n = line.texts.size() - 1;
  std::vector<bool> is_relevant;
  if (line.label.is_null()) {
    for (std::size_t i = 0; i < n; ++i) is_relevant.push_back(i < line.n_positive);
    return is_relevant;
  }
  const TextObjective objective{LearnedTask::rerank, TextLoss::list_net};
  for (const double label : labels_of(objective, {}, line, where)) is_relevant.push_back(label > 0);
  return is_relevant;
}

Evaluated eval_rerank(TaskTexts& texts, const std::string& path) {
  std::vector<std::vector<NamedScore>> queries;
  std::vector<std::pair<std::string, std::string>> pairs;
  std::vector<std::vector<bool>> relevance;
  for_each_text_line(LearnedTask::rerank, path, [&](const TextLine& line, const std::string& where) {
    relevance.push_back(relevance_of(line, where));
    for (std::size_t i = 1; i < line.texts.size(); ++i) pairs.emplace_back(line.texts[0], line.texts[i]);
  });
  const std::vector<double> scores = texts.pair_scores(pairs, false);
  std::size_t first = 0;
  for (const std::vector<bool>& own : relevance) {
    queries.push_back(rerank_scores(std::span(scores).subspan(first, own.size()), own));
    first += own.size();
  }
  return mean_of(std::move(queries));
}

Evaluated eval_retrieval(TaskTexts& texts, const TaskKeys& keys, const std::string& path) {
  std::vector<std::vector<NamedScore>> queries;
  for (const RankedQuery& query : retrieve(texts, read_retrieval(path, keys.qrels)))
    queries.push_back(query_scores(query));
  return mean_of(std::move(queries));
}

Evaluated evaluate(const Options& o, const TaskKeys& keys, const Session& session, const std::string& path) {
  if (keys.task == "answer") return mean_of(scores_of_answers(session, input_options(o, keys.batch), path));
  TaskTexts texts(session, o, keys.batch, {keys.dimensions, precision_named(keys.precision)});
  Evaluated result = keys.task == "classify"    ? eval_classify(texts, path)
                     : keys.task == "tag"       ? eval_tags(texts, path)
                     : keys.task == "sts"       ? eval_similarity(texts, path)
                     : keys.task == "retrieval" ? eval_retrieval(texts, keys, path)
                                                : eval_rerank(texts, path);
  texts.report_cut();
  return result;
}

Json json_of(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void show(const Options& o, const TaskKeys& keys, const Evaluated& own, const std::optional<Evaluated>& other) {
  const std::vector<NamedScore> scores = own.score(all_numbers(own.n));
  std::vector<PairedDifference> differences;
  if (other) differences = paired_differences(own.n, own.score, other->score);
  if (o.json) {
    Json object = {{"task", keys.task}, {"examples", own.n}};
    for (const NamedScore& score : scores) object[score.name] = json_of(score.value);
    for (const PairedDifference& d : differences) {
      object["against"][d.name] = {{"value", json_of(d.other)},
                                   {"difference", json_of(d.difference)},
                                   {"interval", {json_of(d.low), json_of(d.high)}}};
    }
    return print_json(object);
  }
  std::vector<Table::Column> columns = {{"score"}, {"value", Table::Align::right}};
  if (other) {
    columns.push_back({"against", Table::Align::right});
    columns.push_back({"difference", Table::Align::right});
    columns.push_back({"95 %", Table::Align::right});
  }
  Table table(columns);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    std::vector<std::string> cells = {scores[i].name, fmt::format("{:.4f}", scores[i].value)};
    if (other) {
      const PairedDifference& d = differences[i];
      cells.push_back(fmt::format("{:.4f}", d.other));
      cells.push_back(fmt::format("{:+.4f}", d.difference));
      cells.push_back(fmt::format("{:+.4f} to {:+.4f}", d.low, d.high));
    }
    table.add(cells);
  }
  print(table.text() + fmt::format("over {} {}\n", grouped(static_cast<std::int64_t>(own.n)),
                                   keys.task == "retrieval" || keys.task == "rerank" ? "queries" : "examples"));
}

}  // namespace

void add_task_keys(Command& command, TaskKeys& keys) {
  add_choice(command, "--task", keys.task, {"classify", "tag", "answer", "sts", "retrieval", "rerank"},
             "Score a model that reads whole texts: classify, tag, answer, sts, retrieval or rerank; FILE has "
             "examples, or is a "
             "folder as BEIR has them");
  add_file(command, "--qrels", keys.qrels,
           "With --task retrieval: the file of relevant documents (default: qrels/test.tsv, or the only one)");
  add_number<std::int64_t>(command, "--dimensions", keys.dimensions, "With --task: use the first N elements of vectors",
                           1);
  add_choice(command, "--precision", keys.precision, {"float32", "int8", "uint8", "binary", "ubinary"},
             "With --task: round vectors as encode --precision does: float32, int8, uint8, binary or ubinary");
  add_number<std::int64_t>(command, "--batch", keys.batch, "With --task: texts to read at once (default: 32)", 1, 4096);
}

void eval_task(const Options& o, const TaskKeys& keys, const std::string& model, const std::string& path,
               const std::string& against) {
  const Session session = open_model(o, model, true);
  stop_cleanly();
  const Evaluated own = evaluate(o, keys, session, path);
  std::optional<Evaluated> other;
  if (!against.empty()) {
    Options other_options = o;
    other_options.adapters.clear();
    other_options.controls.clear();
    const Session session_of_other = open_model(other_options, against, true);
    other = evaluate(other_options, keys, session_of_other, path);
  }
  show(o, keys, own, other);
}

}  // namespace vitrine::cli
