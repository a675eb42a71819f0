// Calls, filters and tests.
#include "template/builtins.h"
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
  parse_items(")", [&] {
    if (skip_sign("*")) {
      ensure(arguments.rest == nullptr && arguments.keyword_rest == nullptr);
      arguments.rest = parse_expression();
    } else if (skip_sign("**")) {
      ensure(arguments.keyword_rest == nullptr);
      arguments.keyword_rest = parse_expression();
    } else if (current().type == Token::Type::name && is_sign(after(), "=")) {
      ensure(arguments.keyword_rest == nullptr);
      const std::string_view name = take().text;
      take();
      for (const Keyword& other : arguments.keywords) {
        if (other.name == name) fail(fmt::format("keyword argument repeated: {}", name), line);
      }
      arguments.keywords.push_back({name, parse_expression()});
    } else {
      ensure(arguments.rest == nullptr && arguments.keyword_rest == nullptr && arguments.keywords.empty());
      arguments.positional.push_back(parse_expression());
    }
  });
  return arguments;
}

Expression* Parser::parse_call_of(Expression* node) {
  Call* const call = tree_.make<Call>(current().line);
  call->function = node;
  call->arguments = parse_arguments();
  return call;
}

Apply* Parser::new_apply(Expression::Kind kind, Expression* operand) {
  Apply* const apply = tree_.make<Apply>(current().line, kind);
  std::string name(expect_name());
  while (skip_sign(".")) (name += ".") += expect_name();
  apply->name = tree_.heap.copy(name);
  apply->builtin = kind == Expression::Kind::filter ? find_filter(name) : find_test(name);
  apply->operand = operand;
  const bool is_known = apply->builtin != nullptr && apply->builtin != refused;
  if (!is_known && !around_.is_conditional) unknown_.push_back(apply);
  return apply;
}

Expression* Parser::parse_filter(Expression* node, bool inside) {
  while (inside || skip_sign("|")) {
    inside = false;
    Apply* const filter = new_apply(Expression::Kind::filter, node);
    if (is_sign("(")) filter->arguments = parse_arguments();
    node = filter;
  }
  return node;
}

Expression* Parser::parse_test(Expression* node) {
  const int line = take().line;
  const bool is_negated = skip_word("not");
  Apply* const test = new_apply(Expression::Kind::test, node);
  const Token::Type type = current().type;
  if (is_sign("(")) {
    test->arguments = parse_arguments();
  } else if ((type == Token::Type::name && !is_word("else") && !is_word("or") && !is_word("and")) ||
             type == Token::Type::string || type == Token::Type::integer || type == Token::Type::real || is_sign("[") ||
             is_sign("{")) {
    if (is_word("is")) fail("You cannot chain multiple tests with is", current().line);
    test->arguments.positional.push_back(parse_postfix(parse_primary(false)));
  }
  return is_negated ? unary(inverse, test, line) : test;
}

}  // namespace vitrine::jinja
