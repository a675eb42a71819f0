// Pieces of Jinja whose text or error is that of jinja2 (pieces.jsonl, written by tools/goldens template_pieces), and
// the goldens outside the repository.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/data.h"
#include "template/render.h"

namespace vitrine {
namespace {

using json = nlohmann::ordered_json;  // the order of keys counts

std::vector<json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(TemplatePieces, HaveTheTextOrTheErrorOfTheReference) {
  const std::vector<json> pieces = lines_of(test::source_dir() + "/tests/template/pieces.jsonl");
  ASSERT_GT(pieces.size(), 400U);
  const std::string variables = pieces[0].at("vars").dump();
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const json& piece = pieces[i];
    const auto source = piece.at("template").get<std::string>();
    const Answer answer = render(source, variables);
    if (piece.contains("kind")) {
      EXPECT_EQ(answer.kind, piece.at("kind")) << source << "\n" << answer.text << answer.message;
      EXPECT_EQ(answer.message, piece.at("error")) << source;
    } else {
      EXPECT_EQ(answer.text, piece.at("text")) << source << "\n" << answer.kind << ": " << answer.message;
      EXPECT_EQ(json(answer.assistant), piece.at("assistant")) << source;
    }
  }
}

/// Python refuses them when it compiles jinja2's code, with the name of a variable of that code.
TEST(TemplatePieces, AMacroHasEachParameterOnce) {
  for (const char* source : {"{% macro m(a, b, a) %}x{% endmacro %}", "{% macro m(a, a=1) %}x{% endmacro %}{{ m(1) }}",
                             "{% macro m() %}{% endmacro %}{% call(a, a) m() %}{% endcall %}"}) {
    const Answer answer = render(source, "{}");
    EXPECT_EQ(answer.message, "duplicate argument 'a' in function definition") << source << answer.text;
  }
}

void expect_refused(const std::string& source, const std::string& message) {
  const Answer answer = render(source, R"({"d": {"a": 1}, "l": [1, 2], "n": 3})");
  EXPECT_EQ(answer.kind, "unsupported") << source << "\n" << answer.text << answer.message;
  EXPECT_EQ(answer.message, message) << source;
}

/// What jinja2 and Python know, and no published chat template uses.
TEST(TemplatePieces, NamesWhatIsNotSupported) {
  for (const std::string name :
       {"attr", "filesizeformat", "pprint", "random", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr"}) {
    const std::string message = "filter \"" + name + "\": not supported";
    expect_refused("{{ d|" + name + " }}", message);
    expect_refused("{% if n %}{{ d|" + name + " }}{% endif %}", message);
    expect_refused("{% filter " + name + " %}{% endfilter %}", message);
    expect_refused("{{ l|map('" + name + "')|list }}", message);
    EXPECT_EQ(render("{% if no %}{{ d|" + name + " }}{% endif %}{{ '" + name + "' is filter }}").text, "False");
  }
  for (const std::string tag : {"autoescape true", "block b", "extends 'a'", "from 'a' import b", "import 'a' as b",
                                "include 'a'", "print n"}) {
    expect_refused("{% " + tag + " %}", "statement \"" + tag.substr(0, tag.find(' ')) + "\": not supported");
  }
  const auto expect_methods = [](const std::string& value, const std::string& type,
                                 const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const std::string message = "method of " + type + " \"" + name + "\": not supported";
      expect_refused("{{ " + value + "." + name + "() }}", message);
      expect_refused("{{ " + value + "['" + name + "'] }}", message);
    }
  };
  expect_methods("'a'", "str",
                 {"encode", "expandtabs", "format_map", "isidentifier", "isnumeric", "isprintable", "istitle",
                  "maketrans", "striptags", "translate", "unescape"});
  expect_methods("d", "dict", {"copy", "fromkeys"});
  expect_methods("l", "list", {"copy"});
  expect_methods("d.keys()", "dict_keys", {"isdisjoint", "mapping"});
  expect_methods("range(2)", "range", {"start", "step", "stop"});
  expect_methods("(n)", "int",
                 {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes", "imag",
                  "numerator", "real", "to_bytes"});
  expect_methods("2.5", "float", {"fromhex", "hex", "is_integer"});
  for (const std::string name : {"arguments", "caller", "catch_kwargs", "catch_varargs", "name"}) {
    expect_refused("{% macro m() %}{% endmacro %}{{ m." + name + " }}",
                   "attribute of a macro \"" + name + "\": not supported");
  }
  expect_refused("{{ lipsum() }}", "function \"lipsum\": not supported");
}

TEST(TemplatePieces, NamesFormsThatAreNotSupported) {
  for (const std::string number : {"1_000", "0x1F", "0b11", "0O17", "1_0"}) {
    expect_refused("{{ " + number + " }}", "number \"" + number + "\": not supported");
  }
  for (const std::string escape : {"\\N{DIGIT ONE}", "\\103", "\\01"}) {
    expect_refused("{{ '" + escape + "' }}", "escape \"" + escape.substr(0, 2) + "\": not supported");
  }
  for (const std::string field : {"{0.real}", "{0[0]}", "{0!a}"}) {
    expect_refused("{{ '" + field + "'.format(n) }}", "format \"" + field + "\": not supported");
  }
  expect_refused("{{ '{:{}}'.format(n, 5) }}", "format \"{:{}\": not supported");
  for (const std::string specification : {"_", "c", "n", "E", "0,", ".3"}) {
    expect_refused("{{ '{:" + specification + "}'.format(" + (specification == ".3" ? "2.5" : "3") + ") }}",
                   "format \"" + specification + "\": not supported");
  }
  for (const std::string field : {"%c", "%a", "%*d", "%.3d", "%E"}) {
    expect_refused("{{ '" + field + "' % n }}",
                   "format \"" + field.substr(0, field[1] == '*' ? 2 : 4) + "\": not supported");
  }
  for (const char directive : std::string_view("CGPQUVWXZcghklnrstuxz")) {
    expect_refused(fmt::format("{{{{ strftime_now('%{}') }}}}", directive),
                   fmt::format("directive of strftime_now \"%{}\": not supported", directive));
  }
  for (const std::string method : {"isalpha", "isalnum", "isdigit", "isdecimal"}) {
    expect_refused("{{ 'é'." + method + "() }}", "method of str \"" + method + "\": only supported for text in ASCII");
  }
  expect_refused("{{ 'é'|wordcount }}", "filter \"wordcount\": only supported for text in ASCII");
  expect_refused("{{ n|round(-2) }}", "filter \"round\": a precision below 0 is not supported");
  expect_refused("{{ d.keys() == d.keys() }}", "comparison of views of dicts: not supported");
  expect_refused("{{ 9223372036854775807 + 1 }}", "an integer does not fit 64 bits");
}

TEST(TemplateGoldens, AllTemplatesOfTheReference) {
  const std::string folder = test::outside_data("tuning/templates");
  if (folder.empty()) GTEST_SKIP() << "no tuning/templates under VITRINE_DATA";
  const std::vector<json> cases = lines_of(folder + "/expected.jsonl");
  std::ifstream file(folder + "/cases.json");
  const json setting = json::parse(file);
  std::size_t n_renderings = 0;
  std::string name;
  std::unique_ptr<const ChatTemplate> parsed;
  for (const json& expected : cases) {
    if (name != expected.at("template")) {
      name = expected.at("template");
      std::ifstream source(folder + "/" + name + ".jinja", std::ios::binary);
      parsed = std::make_unique<const ChatTemplate>(
          std::string{std::istreambuf_iterator<char>(source), std::istreambuf_iterator<char>()});
    }
    const TemplateData request =
        TemplateData::parse(setting.at("cases").at(expected.at("case").get<std::string>()).dump(), name);
    TemplateInput input;
    input.messages = request.member("messages");
    input.tools = request.member("tools");
    input.documents = request.member("documents");
    const jinja::Value* const prompt = request.member("add_generation_prompt");
    input.add_generation_prompt = prompt != nullptr && prompt->boolean;
    for (const auto& [token, text] : setting.at("special").items()) input.special_tokens.emplace_back(token, text);
    if (const jinja::Value* const variables = request.member("vars")) {
      for (const auto& [key, value] : variables->dict->entries) input.variables.emplace_back(key.text(), &value);
    }
    input.now = TemplateClock::parse(setting.at("now").get<std::string>());
    ++n_renderings;
    try {
      const RenderedTemplate rendered = parsed->render(input);
      EXPECT_EQ(rendered.text, expected.value("text", "an error")) << name << " " << expected.at("case");
      EXPECT_EQ(json(rendered.assistant), expected.value("assistant", json::array())) << name;
    } catch (const TemplateError& e) {
      EXPECT_EQ(e.kind(), expected.value("error", "text")) << name << " " << expected.at("case") << e.what();
      EXPECT_EQ(e.message(), expected.value("message", e.message())) << name;
    }
  }
  EXPECT_GT(n_renderings, 2000U);
}

}  // namespace
}  // namespace vitrine
