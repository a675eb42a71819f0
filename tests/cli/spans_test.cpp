// tag and answer: the spans that transformers' pipelines find with the models and tokenizers of tests/goldens/spans.
#include <gmock/gmock.h>

#include "cli/head_models.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

std::string spans_model(const std::string& name) { return goldens() + "/spans/" + name; }

/// The same spans in the same order, with scores that differ by little.
void expect_spans(const Json& got, const Json& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what << "\n" << got << "\n" << want;
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i]["score"].get<double>(), want[i]["score"].get<double>(), 3e-6) << what;
    Json own = got[i], other = want[i];
    own.erase("score");
    other.erase("score");
    EXPECT_EQ(own, other) << what;
  }
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    lines.push_back(Json::parse(text.substr(at, text.find('\n', at) - at)));
  }
  return lines;
}

class Spans : public testing::TestWithParam<const char*> {
 protected:
  Json golden_ = Json::parse(read_file(spans_model(GetParam() + std::string(".json"))));
  std::string text(const Json& number) const { return golden_["texts"][number.get<std::size_t>()]; }
};

TEST_P(Spans, TagsAreThoseOfThePipeline) {
  const std::string folder = spans_model(GetParam() + std::string("_tags"));
  std::map<std::pair<std::string, Json>, std::vector<Json>> by_options;
  for (const Json& one : golden_["tags"]) by_options[{one["aggregate"], one["stride"]}].push_back(one);
  ASSERT_EQ(by_options.size(), 7U);
  for (const auto& [options, cases] : by_options) {
    Arguments arguments = {"tag", folder, "--aggregate", options.first, "--lines", "--json", "--compute", "f32"};
    if (!options.second.is_null()) arguments.insert(arguments.end(), {"--stride", options.second.dump()});
    std::string input;
    for (const Json& one : cases) input += Json(text(one["text"])).dump() + "\n";
    Arguments in_twos = arguments;
    in_twos.insert(in_twos.end(), {"--batch", "2"});
    const std::string out = run_program(arguments, {.input = input}).out;
    EXPECT_EQ(run_program(in_twos, {.input = input}).out, out);
    const std::vector<Json> found = lines_of(out);
    ASSERT_EQ(found.size(), cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      expect_spans(found[i]["spans"], cases[i]["spans"],
                   options.first + options.second.dump() + text(cases[i]["text"]));
    }
    EXPECT_EQ(json_of({"tag", folder, "--aggregate", options.first, text(1), "--compute", "f32"}), found[1]);
  }
}

TEST_P(Spans, AnswersAreThoseOfThePipeline) {
  const std::string folder = spans_model(GetParam() + std::string("_answers"));
  ASSERT_EQ(golden_["answers"].size(), 8U);
  for (const Json& one : golden_["answers"]) {
    const Json& o = one["options"];
    Arguments arguments = {"answer", folder, text(one["text"]), "--question", one["question"], "--compute", "f32"};
    const std::map<std::string, std::string> names = {{"top_k", "--top"},
                                                      {"max_answer_len", "--max-answer"},
                                                      {"max_seq_len", "--window"},
                                                      {"doc_stride", "--stride"}};
    for (const auto& [key, option] : names) {
      if (o.contains(key)) arguments.insert(arguments.end(), {option, o[key].dump()});
    }
    if (o.contains("handle_impossible_answer")) arguments.push_back("--may-have-none");
    const Json found = json_of(arguments);
    const Json answers = o.contains("top_k") ? found["answers"] : Json::array({found});
    expect_spans(answers, one["answers"], one.dump());
    EXPECT_EQ(found["answer"], one["answers"][0]["answer"]);
    EXPECT_EQ(found["start"], one["answers"][0]["start"]);
    const Json line = {{"question", one["question"]}, {"context", text(one["text"])}};
    arguments.erase(arguments.begin() + 2, arguments.begin() + 5);
    arguments.insert(arguments.end(), {"--lines", "--json"});
    EXPECT_EQ(lines_of(run_program(arguments, {.input = line.dump() + "\n" + line.dump() + "\n"}).out),
              (std::vector<Json>{found, found}));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Spans, testing::Values("word_piece", "byte_level", "metaspace"));

TEST(SpansOf, LongTextsAreCutOrRefused) {
  const std::string folder = spans_model("word_piece_tags");
  std::string text;
  for (int i = 0; i < 90; ++i) text += "word ";
  const Outcome cut = run_program({"tag", folder, text, "--json"});
  EXPECT_EQ(cut.err, "vitrine: 1 of the texts were cut to 64 tokens\n");
  EXPECT_EQ(Json::parse(cut.out), json_of({"tag", folder, text.substr(0, std::size_t{5} * 62)}));
  expect_error({"tag", folder, text, "--no-truncate"}, {"64 tokens"});
  EXPECT_EQ(run_program({"tag", folder, text, "--json", "--stride", "4", "--no-truncate"}).err, "");
  expect_error({"tag", folder, text, "--stride", "62"}, {"--stride", "62"});
}

TEST(SpansOf, OtherRequestsAreRefused) {
  const std::string tags = spans_model("word_piece_tags"), answers = spans_model("word_piece_answers");
  expect_error({"tag", answers, "a"}, {"labels of tokens"});
  expect_error({"answer", tags, "a", "--question", "b"}, {"answer begins"});
  expect_error({"answer", answers, "", "--question", "b"}, {"TEXT", "empty"});
  expect_error({"answer", answers, "a", "--question", ""}, {"question", "empty"});
  expect_error({"answer", answers, "a b c", "--question", "b", "--window", "5", "--stride", "1"},
               {"--question", "5 tokens"});
  expect_error({"tag", tags, "--lines"}, {"line 1", "JSON string"}, {.input = "7\n"});
  expect_error({"answer", answers, "--lines"}, {"line 1", "context"}, {.input = "{\"question\":\"a\"}\n"});
  expect_usage_error({"answer", answers, "a"}, {"--question"});
  expect_usage_error({"tag", tags, "a", "--lines"}, {"TEXT"});
  expect_usage_error({"tag", tags, "a", "--aggregate", "none", "--stride", "2"}, {"--stride"});
}

TEST(EvalAnswers, ExactMatchAndF1AreThoseOfTheAnswers) {
  const std::string folder = spans_model("word_piece_answers"), question = "what is it ?";
  const std::string context = "the cat sat on the mat and looked at the moon";
  const std::string answer = json_of({"answer", folder, context, "--question", question, "--compute", "f32"})["answer"];
  ASSERT_NE(answer, "");
  const TempFolder temp;
  const auto eval = [&](const std::vector<Json>& answers) {
    std::string lines;
    for (const Json& own : answers) {
      lines += Json({{"question", question}, {"context", context}, {"answers", own}}).dump() + "\n";
    }
    write_file(temp / "q.jsonl", lines);
    return json_of({"eval", folder, temp / "q.jsonl", "--task", "answer", "--compute", "f32"});
  };
  const Json right = eval({Json::array({"zzz", answer}), Json({{"text", {answer}}, {"answer_start", {0}}})});
  EXPECT_EQ(right["exact_match"], 1.0);
  EXPECT_EQ(right["f1"], 1.0);
  EXPECT_EQ(right["examples"], 2);
  const Json half = eval({Json::array({answer}), Json::array({"zzz"})});
  EXPECT_EQ(half["exact_match"], 0.5);
  EXPECT_EQ(half["f1"], 0.5);
  write_file(temp / "q.jsonl", "{\"question\":\"a\",\"context\":\"b\"}\n");
  expect_error({"eval", folder, temp / "q.jsonl", "--task", "answer"}, {"line 1", "answers", "list of texts"});
  expect_error({"eval", spans_model("word_piece_tags"), temp / "q.jsonl", "--task", "answer"}, {"answer begins"});
}

}  // namespace
}  // namespace vitrine::test
