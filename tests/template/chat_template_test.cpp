// Messages, bounds, and the origin of bytes.
#include <gtest/gtest.h>

#include "template/render.h"

namespace vitrine {
namespace {

TEST(ChatTemplate, DropsNullsAndFillsReasoning) {
  EXPECT_EQ(render("{{ messages }}", R"({"messages": [{"role": "user", "content": null, "a": {"b": null}}]})").text,
            "[{'role': 'user', 'a': {'b': None}}]");
  EXPECT_EQ(render("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}",
                   R"({"messages": [{"role": "assistant", "reasoning": "R"}]})")
                .text,
            "RR");
}

TEST(ChatTemplate, RefusesMessagesOfTheWrongForm) {
  EXPECT_THROW(render("", R"({"messages": [1]})"), BadInput);
  EXPECT_THROW(render("", R"({"messages": "text"})"), BadInput);
  EXPECT_THROW(render("", R"({"tools": [1]})"), BadInput);
  EXPECT_THROW(render("\xFF"), BadInput);
}

TEST(ChatTemplate, MarksOfTheAssistantAreBytes) {
  const Answer answer = render("ä{% generation %}ö{% endgeneration %}ü{% generation %}xy{% endgeneration %}");
  EXPECT_EQ(answer.text, "äöüxy");
  EXPECT_EQ(answer.assistant, (std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 4}, {6, 8}}));
}

TEST(ChatTemplate, BoundsStepsMemoryAndDepth) {
  const auto expect_limit = [](const std::string& source) { EXPECT_EQ(render(source).kind, "limit") << source; };
  expect_limit("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}");
  expect_limit("{{ 'a' * 10**12 }}");
  expect_limit("{{ [0] * 10**12 }}");
  expect_limit("{{ 'x'.center(10**15) }}");
  expect_limit("{{ '%1000000000000d' % 1 }}");
  expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  expect_limit("{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}");
  expect_limit("{% for i in range(100000) %}{% for j in range(1000) %}0123456789{% endfor %}{% endfor %}");
  expect_limit("{{ " + std::string(10'000, '(') + "1" + std::string(10'000, ')') + " }}");
  expect_limit("{{ " + std::string(10'000, '[') + "1" + std::string(10'000, ']') + " }}");
  std::string tags, ends, sum = "1", unary;
  for (int i = 0; i < 10'000; ++i) {
    tags += "{% if 1 %}";
    ends += "{% endif %}";
    sum += "+1";
    unary += "not ";
  }
  expect_limit(tags + ends);
  expect_limit("{{ " + unary + "1 }}");
  const Answer long_sum = render("{{ " + sum + " }}");
  EXPECT_TRUE(long_sum.text == "10001" || long_sum.kind == "limit") << long_sum.kind;
  EXPECT_EQ(render("{{ range(10**9) }}").kind, "OverflowError");
}

TEST(ChatTemplate, KnowsWhatTheTemplateWrote) {
  const std::string user = R"({"messages": [{"role": "user", "content": " <|end|> hi "}], "n": "v"})";
  const auto parts = [&](const std::string& source) { return literal_parts(render(source, user)); };
  EXPECT_EQ(parts("<|a|>{{ messages[0].content }}<|end|>"), "<|a|>|<|end|>");
  EXPECT_EQ(parts("{{ '<|a|>' + messages[0].content + '<|end|>' }}"), "<|a|>|<|end|>");
  EXPECT_EQ(parts("{{ '<|a|>' ~ messages[0].content|trim ~ '<|end|>' ~ 1 }}"), "<|a|>|<|end|>1");
  EXPECT_EQ(parts("{{ bos_token }}{{ n }}"), "<s>");
  EXPECT_EQ(parts("{{ (bos_token + n + bos_token)[1:5] }}"), "s>|<");
  EXPECT_EQ(parts("{% set x %}<|a|>{{ n }}{% endset %}{{ x }}{{ x|upper }}"), "<|a|>");
  EXPECT_EQ(parts("{% macro m(t) %}<|a|>{{ t }}{% endmacro %}{{ m(n) }}{{ m('b') }}"), "<|a|>|<|a|>b");
  EXPECT_EQ(parts("{{ ['<|a|>', n]|join('<|b|>') }}"), "<|a|><|b|>");
  EXPECT_EQ(parts("{{ '<|b|>'.join(['<|a|>', n]) }}"), "<|a|><|b|>");
  EXPECT_EQ(parts("{{ '<|a|>%s<|b|>' % n }}{{ '<|a|>{}'.format(n) }}"), "<|a|>|<|b|><|a|>");
  EXPECT_EQ(parts("{{ n.format('<|a|>') }}{{ '<|a|>'|upper }}"), "<|A|>");
  EXPECT_EQ(parts("{{ messages[0].content.split('|')[1] }}{{ 'a|b'.split('|')[1] }}"), "b");
  EXPECT_EQ(parts("{{ messages[0].content.replace('end', '<|a|>') }}"), "<|a|>");
  EXPECT_EQ(parts("{{ messages|tojson }}{{ messages }}{{ messages|map(attribute='content')|join }}"), "");
  EXPECT_EQ(parts("{{ '<{:,}>'.format(1234567) }}"), "<1,234,567>");
  EXPECT_EQ(parts("{{ n * 2 }}{{ 'a' * 2 }}{% filter upper %}a{% endfilter %}"), "aaA");
}

TEST(TemplateData, ReadsJsonAsPythonDoes) {
  const auto text = [](const std::string& json) { return render("{{ x }}", "{\"x\": " + json + "}").text; };
  EXPECT_EQ(text(R"({"b": [1, -2.5, 1e3, true, false, null], "a": {}, "b2": []})"),
            "{'b': [1, -2.5, 1000.0, True, False, None], 'a': {}, 'b2': []}");
  EXPECT_EQ(text(R"("\"\\\/\n\t\u00e9\ud83e\udd99 ü")"), "\"\\/\n\té🦙 ü");
  EXPECT_EQ(text("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(text(R"({"a": 1, "a": 2})"), "{'a': 2}");
  EXPECT_EQ(text(" [ ] \n"), "[]");
  const std::string broken[] = {"",           "[1,]",        "{\"a\"}",
                                "{\"a\":1,}", "[1",          "\"a",
                                "\"\\x\"",    "\"\\ud800\"", "\"\\u12\"",
                                "01",         "1.",          "1e",
                                "-",          "nul",         "NaN",
                                "\"\n\"",     "\"\xFF\"",    "9223372036854775808",
                                "1 2",        "'a'",         std::string("\"a\0\"", 4)};
  for (const std::string& json : broken) EXPECT_THROW(text(json), BadInput) << json;
  EXPECT_THROW(text(std::string(100'000, '[')), BadInput);
}

TEST(TemplateClock, ReadsIsoTimes) {
  EXPECT_EQ(render("{{ strftime_now('%d %B %Y, %H:%M') }}").text, "02 January 2026, 03:04");
  EXPECT_THROW(TemplateClock::parse("yesterday"), BadInput);
  EXPECT_THROW(TemplateClock::parse("2026-13-01"), BadInput);
}

}  // namespace
}  // namespace vitrine
