// Constraints on answers in requests for texts.
#include "serve/completion_request.h"

#include "serve/served.h"

namespace vitrine::test {
namespace {

class ConstraintFields : public RequestTest {};

/// A constraint under the names of OpenAI, vLLM and llama-server; members of a schema keep their order.
TEST_F(ConstraintFields, ConstraintsOfEveryServer) {
  const std::string schema =
      R"({"type": "object", "properties": {"b": {"const": 1.50}, "a": {"type": "null"}}, "required": ["b", "a"]})";
  const std::string inner = R"({"name": "n", "strict": true, "schema": )" + schema + "}";
  for (const std::string& fields :
       {R"("response_format": {"type": "json_schema", "json_schema": )" + inner + "}",
        R"("response_format": {"type": "json_object", "schema": )" + schema + "}", R"("json_schema": )" + schema,
        R"("structured_outputs": {"json": )" + schema + "}", R"("guided_json": )" + Json(schema).dump()}) {
    SCOPED_TRACE(fields);
    for (const CompletionRequest& request : {completion(fields + R"(, "max_tokens": 50)"), chat(fields)}) {
      const GenerateRequest sequence = request.sequence(0, model_.defaults);
      ASSERT_NE(sequence.answer.constraint, nullptr);
      constrain::Matcher matcher(sequence.answer.constraint);
      matcher.append(std::string_view(R"({"b": 1.50, "a": null})"));
      EXPECT_TRUE(matcher.must_end());
      EXPECT_TRUE(sequence.answer.must_finish);
    }
  }
  for (const auto& [fields, text] :
       std::vector<std::pair<std::string, std::string>>{{R"("regex": "[ab]+")", "ab"},
                                                        {R"("choice": ["x", "yz"])", "yz"},
                                                        {R"("grammar": "root ::= \"q\" root | \"r\"")", "qqr"},
                                                        {R"("structured_outputs": {"regex": "[ab]+"})", "ab"},
                                                        {R"("guided_choice": ["x", "yz"])", "x"},
                                                        {R"("response_format": {"type": "json_object"})", "{}"}}) {
    const GenerateRequest sequence = completion(fields + R"(, "must_finish": false)").sequence(0, model_.defaults);
    ASSERT_NE(sequence.answer.constraint, nullptr) << fields;
    EXPECT_FALSE(sequence.answer.must_finish);
    constrain::Matcher matcher(sequence.answer.constraint);
    matcher.append(std::string_view(text));
    EXPECT_TRUE(matcher.is_complete()) << fields;
  }
  EXPECT_EQ(chat(R"("response_format": {"type": "text"})").sequence(0, model_.defaults).answer.constraint, nullptr);
  expect_chat_error(R"("response_format": {"type": "json_object"}, "regex": "a")", "response_format", "one constraint");
  expect_chat_error(R"("regex": "a", "guided_regex": "b")", "guided_regex", "one constraint");
  expect_chat_error(R"("regex": "(a")", "regex");
  expect_chat_error(R"("json_schema": {"type": "object", "not": {}})", "schema", "not");
  expect_chat_error(R"("response_format": {"type": "xml"})", "response_format", "json_schema");
  expect_chat_error(R"("response_format": {"type": "json_schema"})", "response_format.json_schema");
  expect_chat_error(R"("structured_outputs": {"structural_tag": "x"})", "structured_outputs.structural_tag");
  expect_chat_error(R"("whitespace": "some")", "whitespace", "none");
}

}  // namespace
}  // namespace vitrine::test
