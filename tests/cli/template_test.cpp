// vitrine template.
#include "cli/program.h"

namespace vitrine::test {
namespace {

class Template : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    write_file(folder_ / name, content);
    return folder_ / name;
  }
  const TempFolder folder_;
  const std::string turns_ = write(
      "t.jinja",
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}");
  const std::string messages_ = write("m.json", R"([{"role": "user", "content": "Hi"}])");
};

TEST_F(Template, RendersAConversation) {
  EXPECT_EQ(output_of({"template", turns_, "--messages", messages_}), "<user>Hi<a>");
  EXPECT_EQ(output_of({"template", turns_, "--messages", messages_, "--no-prompt"}), "<user>Hi");
  EXPECT_EQ(output_of({"template", turns_, "--messages", "-"}, {.input = R"({"messages": [{"role": "x"}]})"}),
            "<x><a>");
  EXPECT_EQ(json_of({"template", turns_, "--messages", messages_}),
            Json({{"text", "<user>Hi<a>"}, {"assistant", Json::array()}}));
}

TEST_F(Template, PassesVariablesToolsDocumentsAndTime) {
  const std::string source = write("v.jinja", "{{ tools[0].a }}{{ documents[0].b }}{{ x }}{{ strftime_now('%Y') }}");
  const std::string tools = write("tools.json", R"([{"a": 1}])"), documents = write("d.json", R"([{"b": 2}])");
  EXPECT_EQ(output_of({"template", source, "--messages", messages_, "--tools", tools, "--documents", documents, "--set",
                       "x=[true]", "--now", "2026-01-02"}),
            "12[True]2026");
}

TEST_F(Template, ReadsTheTemplateAndTheTokenizerOfAFolder) {
  const TempFolder model;
  write_file(model / "chat_template.jinja", "<s>{{ messages[0].content }}");
  EXPECT_EQ(output_of({"template", model.path(), "--messages", messages_}), "<s>Hi");
  expect_error({"template", folder_.path(), "--messages", messages_}, {"no chat template"});
}

TEST_F(Template, AnswersLines) {
  const std::string requests =
      R"({"template": "{{ bos_token }}{{ x }}{% generation %}é{% endgeneration %}", "messages": [], "vars": {"x": 1}, "special": {"bos_token": "B"}})"
      "\n"
      R"({"template": "{{ raise_exception('No!') }}", "messages": []})"
      "\n"
      R"({"template": "{{", "messages": []})"
      "\n{\n"
      R"({"messages": [{"role": "u", "content": "c"}], "add_generation_prompt": true})"
      "\n";
  std::istringstream lines(output_of({"template", turns_, "--lines"}, {.input = requests}));
  std::vector<Json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
  ASSERT_EQ(answers.size(), 5U);
  EXPECT_EQ(answers[0], Json({{"text", "B1é"}, {"assistant", {{2, 4}}}}));
  EXPECT_EQ(answers[1], Json({{"error", "No!"}, {"kind", "raised"}}));
  EXPECT_EQ(answers[2]["kind"], "syntax");
  EXPECT_EQ(answers[3]["kind"], "input");
  EXPECT_EQ(answers[4]["text"], "<u>c<a>");
}

TEST_F(Template, SaysWhatIsWrongInOneLine) {
  const auto refused = [&](const std::string& source, const std::string& message) {
    expect_error({"template", write("bad.jinja", source), "--messages", messages_}, {message});
  };
  refused("a\n{{ 1 + }}", "(line 2)");
  refused("{{ raise_exception('Roles must alternate') }}", "Roles must alternate");
  refused("{% for i in range(10**9) %}{% endfor %}", "range");
  refused("{{ 'a' * 10**12 }}", "bytes");
  expect_error({"template", turns_, "--messages", write("n.json", "5")}, {"messages"});
  expect_error({"template", turns_, "--messages", write("e.json", "[]")}, {"at least one message"});
  expect_error({"template", turns_, "--messages", folder_ / "none.json"}, {"none.json"});
  expect_usage_error({"template", turns_}, {"--messages"});
  expect_usage_error({"template", turns_, "--messages", messages_, "--set", "x"}, {"NAME=JSON"});
}

}  // namespace
}  // namespace vitrine::test
