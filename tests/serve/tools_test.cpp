// Tools of a chat: what the template gets, what an answer may be, and the parts of replies.
#include "serve/completion_reply.h"
#include "serve/served.h"

namespace vitrine::test {
namespace {

class Tools : public RequestTest {
 protected:
  Tools() {
    ChatTemplates templates;
    templates.by_name["default"] =
        "{% if tools %}{% for t in tools %}[{{ t.function.name }}]{% endfor %}{% endif %}{% for m in messages %}"
        "{{ m.role }} {% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<c>{{ c.function.name }} {{ c.function.arguments | tojson }}</c>{% endfor %};"
        "{% endfor %}{% if add_generation_prompt %}assistant {% endif %}";
    chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
  }

  static constexpr const char* kTools =
      R"("tools": [{"type": "function", "function": {"name": "sum", "description": "", "parameters": {"type": "object",
          "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}, "required": ["b", "a"]}}},
        {"type": "function", "function": {"name": "stop"}}])";

  CompletionRequest with_tools(const std::string& more = "") const {
    return chat(kTools + (more.empty() ? "" : ", " + more));
  }
  /// Whether an answer is permitted.
  static bool permits(const CompletionRequest& request, const std::string& text) {
    constrain::Matcher matcher(request.answers->constraint);
    matcher.append(text);
    return matcher.is_complete();
  }
  Json reply(const CompletionRequest& request, const std::string& text, FinishReason reason) const {
    GenerateResult result;
    result.text = text;
    result.ids = ids_of(text, SpecialTokens::none);
    result.finish_reason = reason;
    return CompletionReply(model_, request, "1", 5).whole({&result, 1});
  }
};

constexpr const char* kCall = R"(<c>sum {"b": 1,"a": 2}</c>)";

TEST_F(Tools, AreShownToTheTemplateInTheirOrder) {
  const CompletionRequest request = with_tools();
  EXPECT_EQ(request.prompts[0].ids, ids_of("[sum][stop]user Hi;assistant ", SpecialTokens::none));
  const CompletionRequest functions = chat(R"("functions": [{"name": "f"}])");
  EXPECT_EQ(functions.prompts[0].ids, ids_of("[f]user Hi;assistant ", SpecialTokens::none));
  EXPECT_TRUE(functions.has_functions);
}

TEST_F(Tools, TheChoiceSaysWhatAnAnswerMayBe) {
  const CompletionRequest free = with_tools();
  EXPECT_TRUE(permits(free, "Hello"));
  EXPECT_TRUE(permits(free, kCall));
  EXPECT_TRUE(permits(free, "I add.<c>stop {}</c>"));
  EXPECT_TRUE(permits(free, "<think>I could call <c></think>Hello"));
  EXPECT_FALSE(permits(free, R"(<c>sum {"a": 2,"b": 1}</c>)")) << "in the order of the properties";
  EXPECT_FALSE(permits(free, R"(<c>sum {"b": 1}</c>)"));
  EXPECT_FALSE(permits(free, "<c>other {}</c>"));
  const CompletionRequest required = with_tools(R"("tool_choice": "required")");
  EXPECT_FALSE(permits(required, "Hello"));
  EXPECT_TRUE(permits(required, "<think>Well.</think><c>stop {}</c>"));
  const CompletionRequest none = with_tools(R"("tool_choice": "none")");
  EXPECT_TRUE(permits(none, "Hello"));
  EXPECT_FALSE(permits(none, kCall));
  for (const char* const one : {R"("tool_choice": {"type": "function", "function": {"name": "stop"}})",
                                R"("tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required",
                                   "tools": [{"type": "function", "function": {"name": "stop"}}]}})"}) {
    const CompletionRequest named = with_tools(one);
    EXPECT_TRUE(permits(named, "<c>stop {}</c>"));
    EXPECT_FALSE(permits(named, kCall));
  }
  EXPECT_TRUE(permits(free, "<c>stop {}</c><c>stop {}</c>"));
  EXPECT_FALSE(permits(with_tools(R"("parallel_tool_calls": false)"), "<c>stop {}</c><c>stop {}</c>"));
}

TEST_F(Tools, AConstraintIsOfTheContent) {
  const CompletionRequest request = with_tools(R"("regex": "[0-9]+")");
  EXPECT_TRUE(permits(request, "12"));
  EXPECT_TRUE(permits(request, kCall));
  EXPECT_TRUE(permits(request, "<think>Any text</think>12"));
  EXPECT_FALSE(permits(request, "Hello"));
  EXPECT_TRUE(permits(chat(R"("regex": "[0-9]+")"), "<think>Any text</think>12")) << "without tools, too";
}

TEST_F(Tools, RepliesHaveTheParts) {
  const Json whole = reply(with_tools(), "<think>Hm. </think>I add." + std::string(kCall), FinishReason::stop);
  const Json& choice = whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "I add.");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"], Json({{"name", "sum"}, {"arguments", R"({"b":1,"a":2})"}}));
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["id"].get<std::string>().size(), 29U);
  EXPECT_GT(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 3);
  const Json again = reply(with_tools(), kCall, FinishReason::stop);
  EXPECT_TRUE(with_tools().sequence(0, model_.defaults).answer.is_open) << "an answer that max_tokens cuts off";
  EXPECT_FALSE(with_tools(R"("tool_choice": "required")").sequence(0, model_.defaults).answer.is_open);
  EXPECT_EQ(again["choices"][0]["message"]["tool_calls"][0]["id"], call["id"]) << "it depends on the seed only";
  EXPECT_TRUE(with_tools().sequence(0, model_.defaults).answer.is_open) << "an answer that max_tokens cuts off";
  EXPECT_FALSE(with_tools(R"("tool_choice": "required")").sequence(0, model_.defaults).answer.is_open);
  EXPECT_EQ(again["choices"][0]["message"]["content"], nullptr);
  const Json legacy = reply(chat(R"("functions": [{"name": "stop"}])"), "<c>stop {}</c>", FinishReason::stop);
  EXPECT_EQ(legacy["choices"][0]["message"]["function_call"], Json({{"name", "stop"}, {"arguments", "{}"}}));
  EXPECT_EQ(legacy["choices"][0]["finish_reason"], "function_call");
  const Json plain = reply(chat(R"("reasoning_format": "none")"), "<think>Hm.</think>Hi", FinishReason::length);
  EXPECT_EQ(plain["choices"][0]["message"]["content"], "<think>Hm.</think>Hi");
}

/// A template that reads the description of a tool without asking gets an empty one.
TEST_F(Tools, DescriptionsMayBeMissing) {
  ChatTemplates templates;
  templates.by_name["default"] =
      "{% for t in tools or [] %}// {{ '' + t.function.description }} {{ t.function.name }};{% endfor %}"
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<c>{\"name\": \"{{ c.function.name }}\", "
      "\"arguments\": {{ c.function.arguments | tojson }}}</c>{% endfor %};{% endfor %}";
  chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
  const auto prompt = [&](const std::string& tool) {
    return *chat(R"("return_prompt_text": true, "tools": [{"type": "function", "function": {)" + tool + "}}]")
                .prompts[0]
                .text;
  };
  EXPECT_EQ(prompt(R"("name": "f", "description": "A.")"), "// A. f;Hi;");
  EXPECT_EQ(prompt(R"("name": "f")"), "//  f;Hi;");
}

TEST_F(Tools, StreamsHaveTheSamePartsInPieces) {
  CompletionRequest request = with_tools(R"("stream": true)");
  CompletionReply reply(model_, request, "1", 5);
  const std::string text = "<think>Hm.</think>I add." + std::string(kCall) + "<c>stop {}</c>";
  std::string content, reasoning;
  std::vector<std::string> names, arguments;
  Json reason;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    SequenceStep step;
    if (i < text.size()) {
      step.text = text.substr(i, 1);
      step.tokens = {{0, 0, {}}};
    } else {
      step.result.emplace();
      step.result->finish_reason = FinishReason::stop;
    }
    for (const Json& chunk : reply.chunks(std::move(step))) {
      const Json& delta = chunk["choices"][0]["delta"];
      content += delta.value("content", "");
      reasoning += delta.value("reasoning_content", "");
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        const std::size_t index = call["index"];
        if (index == names.size()) {
          names.push_back(call["function"]["name"]);
          arguments.emplace_back();
          EXPECT_TRUE(call.contains("id"));
        }
        arguments[index] += call["function"]["arguments"].get<std::string>();
      }
      if (!chunk["choices"][0]["finish_reason"].is_null()) reason = chunk["choices"][0]["finish_reason"];
    }
  }
  EXPECT_EQ(content, "I add.");
  EXPECT_EQ(reasoning, "Hm.");
  EXPECT_THAT(names, testing::ElementsAre("sum", "stop"));
  EXPECT_THAT(arguments, testing::ElementsAre(R"({"b":1,"a":2})", "{}"));
  EXPECT_EQ(reason, "tool_calls");
}

TEST_F(Tools, TheReasoningHasABudget) {
  EXPECT_FALSE(with_tools().answers->budget);
  EXPECT_FALSE(with_tools(R"("thinking_budget": -1)").answers->budget);
  for (const char* const name : {"thinking_budget", "thinking_budget_tokens", "thinking_token_budget"}) {
    const CompletionRequest request = chat("\"" + std::string(name) + "\": 3");
    const std::optional<ReasoningBudget> budget = request.sequence(0, model_.defaults).reasoning;
    ASSERT_TRUE(budget);
    EXPECT_EQ(budget->max_tokens, 3);
    EXPECT_EQ(budget->end, "</think>");
    EXPECT_EQ(budget->end_ids, ids_of("</think>", SpecialTokens::none));
    EXPECT_FALSE(budget->has_begun);
  }
}

TEST(ReasoningCounter, CountsTheTokensOfTheReasoning) {
  const ReasoningBudget budget{.max_tokens = 2, .begin = "<think>", .end = "</think>", .end_ids = {1}};
  ReasoningCounter counter(budget);
  for (const char* const text : {"\n<thi", "nk>", "a"}) {
    counter.append(text);
    EXPECT_FALSE(counter.is_spent()) << text;
  }
  counter.append("b");
  EXPECT_TRUE(counter.is_spent());
  counter.append("</think>");
  counter.append("c");
  EXPECT_FALSE(counter.is_spent());
  ReasoningCounter none(budget);
  for (const char* const text : {"<thin", "g>", "a", "b"}) none.append(text);
  EXPECT_FALSE(none.is_spent()) << "an answer without a reasoning";
}

TEST_F(Tools, FieldsOfTheWrongFormAreRefused) {
  expect_chat_error(R"("tools": 5)", "tools");
  expect_chat_error(R"("tools": [{"type": "web_search"}])", "tools[0].type", "web_search");
  expect_chat_error(R"("tools": [{"type": "function"}])", "tools[0].function");
  expect_chat_error(R"("tools": [{"function": {}}])", "tools[0].function.name");
  expect_chat_error(R"("tools": [{"function": {"name": "f", "paramters": {}}}])", "tools[0].function.paramters",
                    "did you mean parameters?");
  expect_chat_error(R"("tools": [{"function": {"name": "f"}}, {"function": {"name": "f"}}])", "tools[1].function.name");
  expect_chat_error(R"("tools": [{"function": {"name": "f", "parameters": {"type": "object", "properties":
      {"a": {"not": {}}}}}}])",
                    "tools", "tool \"f\": [schema #/properties/a] the keyword not");
  expect_chat_error(R"("tool_choice": "required")", "tool_choice");
  expect_chat_error(kTools + std::string(R"(, "tool_choice": "sometimes")"), "tool_choice", "required");
  expect_chat_error(kTools + std::string(R"(, "tool_choice": {"type": "function", "function": {"name": "sums"}})"),
                    "tool_choice", "did you mean sum?");
  expect_chat_error(R"("reasoning_format": "some")", "reasoning_format");
  chat(R"("tools": [], "tool_choice": "auto")");
}

class NoTools : public RequestTest {};

TEST_F(NoTools, WhereTheTemplateWritesNoCallsTheReasonIsTold) {
  expect_chat_error(R"("tools": [{"function": {"name": "f"}}])", "tools", "writes no calls");
  EXPECT_EQ(chat("").answers, nullptr);
}

}  // namespace
}  // namespace vitrine::test
