// Pieces of Jinja whose text or error is that of jinja2 (pieces.jsonl, written by tools/make_template_pieces.py), and
// the goldens outside the repository.
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
