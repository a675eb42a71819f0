// Calls, filters and tests.
#include <array>
#include <charconv>
#include <utility>
#include "template/format.h"
#include "template/parser.h"

namespace vitrine::jinja {

CallArguments Parser::parse_arguments() {
  const int line = current().line;
  expect_sign("(");
  CallArguments arguments;
  const auto ensure = [&](bool holds) {
    if (!holds) fail("invalid syntax for function call expression", line);
  };
  for (bool is_first = true; !is_sign(")"); is_first = false) {
    if (!is_first) {
      expect_sign(",");
      if (is_sign(")")) break;
    }
    if (skip_sign("*")) {
      ensure(arguments.rest == nullptr && arguments.keyword_rest == nullptr);
      arguments.rest = parse_expression();
    } else if (skip_sign("**")) {
      ensure(arguments.keyword_rest == nullptr);
      arguments.keyword_rest = parse_expression();
    } else if (current().type == Token::Type::name && is_sign(after(), "=")) {
      ensure(arguments.keyword_rest == nullptr);
      const std::string_view name = keep(take().text);
      take();
      for (const Keyword& other : arguments.keywords) {
        if (other.name == name) fail(fmt::format("keyword argument repeated: {}", name), line);
      }
      arguments.keywords.push_back({name, parse_expression()});
    } else {
      ensure(arguments.rest == nullptr && arguments.keyword_rest == nullptr && arguments.keywords.empty());
      arguments.positional.push_back(parse_expression());
    }
  }
  expect_sign(")");
  return arguments;
}

Expression* Parser::parse_call_of(Expression* node) {
  Call* const call = tree_.make<Call>(current().line);
  call->function = node;
  call->arguments = parse_arguments();
  return call;
}

std::string_view Parser::parse_dotted_name() {
  std::string name(expect_name());
  while (skip_sign(".")) name += "." + std::string(expect_name());
  return keep(name);
}

Expression* Parser::parse_filter(Expression* node, bool inside) {
  while (inside || is_sign("|")) {
    if (!inside) take();
    inside = false;
    Apply* const filter = tree_.make<Apply>(current().line, Expression::Kind::filter);
    filter->name = parse_dotted_name();
    filter->builtin = find_filter(filter->name);
    filter->operand = node;
    if (is_sign("(")) filter->arguments = parse_arguments();
    node = filter;
  }
  return node;
}

Expression* Parser::parse_test(Expression* node) {
  const int line = take().line;
  const bool is_negated = skip_word("not");
  Apply* const test = tree_.make<Apply>(line, Expression::Kind::test);
  test->name = parse_dotted_name();
  test->builtin = find_test(test->name);
  test->operand = node;
  const Token::Type type = current().type;
  if (is_sign("(")) {
    test->arguments = parse_arguments();
  } else if ((type == Token::Type::name && !is_word("else") && !is_word("or") && !is_word("and")) ||
             type == Token::Type::string || type == Token::Type::integer || type == Token::Type::real || is_sign("[") ||
             is_sign("{")) {
    if (is_word("is")) fail("You cannot chain multiple tests with is", current().line);
    test->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  if (!is_negated) return test;
  Unary* const negation = tree_.make<Unary>(line);
  negation->op = Operator::logical_not;
  negation->operand = test;
  return negation;
}

}  // namespace vitrine::jinja
