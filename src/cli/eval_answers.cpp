#include "cli/eval_answers.h"

#include <algorithm>

#include "base/error.h"
#include "cli/windowed_texts.h"
#include "conversation/conversation.h"
#include "generate/answer.h"
#include "metrics/answer_scores.h"
#include "train/text_examples.h"

namespace vitrine::cli {
namespace {

constexpr std::size_t kTextsAtOnce = 256;

struct Question {
  std::string question, context;
  std::vector<std::string> answers{};
};

std::string text_in(const Json& line, const char* column, const std::string& where) {
  if (!line.contains(column) || !line[column].is_string()) throw BadInput(where, "expected a text in {}", column);
  std::string text = line[column].get<std::string>();
  if (text.empty()) throw BadInput(where, "expected a text in {}, got an empty one", column);
  return text;
}

Question question_in(std::string_view text, const std::string& where) {
  const Json line = parse_json(text, where);
  if (!line.is_object()) throw BadInput(where, "expected an object with question, context and answers");
  Question result{text_in(line, "question", where), text_in(line, "context", where)};
  const Json answers = line.value("answers", Json());
  const Json list = answers.is_object() ? answers.value("text", Json()) : answers;
  const bool is_list =
      list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& answer) { return answer.is_string(); });
  if (!is_list) throw BadInput(where, "answers: expected a list of texts, or {{\"text\": [TEXT, …]}}");
  result.answers = list.get<std::vector<std::string>>();
  return result;
}

}  // namespace

std::vector<std::vector<NamedScore>> scores_of_answers(const Session& session, const TextInputOptions& options,
                                                       const std::string& path) {
  head_for(session, TaskHead::Task::answer, "eval", "outputs for where an answer begins and ends");
  std::vector<Question> questions;
  vitrine::for_each_line(path, [&](std::string_view line, const std::string& where, std::int64_t) {
    questions.push_back(question_in(line, where));
  });
  AnswerOptions answers = answer_options(session.checkpoint.model->config());
  answers.may_have_none =
      std::any_of(questions.begin(), questions.end(), [](const Question& q) { return q.answers.empty(); });
  WindowedTexts texts(session, options);
  const WindowOptions windows = answers.windows(texts.most());
  std::vector<std::vector<NamedScore>> scores;
  const auto read = [&] {
    texts.read(
        [&](const std::string& context, std::span<const PlacedTexts> own, std::span<const std::vector<float>> outputs) {
          const std::vector<TextAnswer> best = answers_of(context, own, outputs, answers);
          scores.push_back(answer_scores(best.empty() ? "" : best.front().answer, questions[scores.size()].answers));
        });
  };
  for (const Question& q : questions) {
    texts.add(q.context, q.question, windows);
    if (texts.size() == kTextsAtOnce) read();
  }
  read();
  return scores;
}

}  // namespace vitrine::cli
