// The expressions of the grammar, from the loosest operator to the tightest.
#include <array>
#include <charconv>
#include <utility>

#include "template/format.h"
#include "template/parser.h"

namespace vitrine::jinja {
namespace {

using Signs = std::array<std::pair<std::string_view, Operator>, 6>;

const Operator* find_operator(const Token& token, const Signs& signs) {
  if (token.type != Token::Type::sign) return nullptr;
  for (const auto& [sign, op] : signs) {
    if (token.text == sign) return &op;
  }
  return nullptr;
}

constexpr Signs kComparisons = {{{"==", Operator::equal},
                                 {"!=", Operator::not_equal},
                                 {"<", Operator::less},
                                 {"<=", Operator::less_equal},
                                 {">", Operator::greater},
                                 {">=", Operator::greater_equal}}};
constexpr Signs kSums = {{{"+", Operator::add}, {"-", Operator::subtract}}};
constexpr Signs kProducts = {
    {{"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}}};

}  // namespace

Expression* Parser::constant(const Value& value, int line) {
  Literal* const node = tree_.make<Literal>(line);
  node->value = value;
  return node;
}

Expression* Parser::number(const Token& token) {
  if (token.type == Token::Type::real) {
    double value = 0;
    const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (result.ec == std::errc::result_out_of_range) value = token.text.find("e-") != token.text.npos ? 0.0 : HUGE_VAL;
    return constant(real(value), token.line);
  }
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    if (base != 10) digits.remove_prefix(2);
  }
  std::int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec != std::errc()) {
    if (token.text == "9223372036854775808")
      return constant(integer(INT64_MIN), -token.line);  // only after a minus sign
    throw error("unsupported", "the integer {} does not fit 64 bits (line {})", token.text, token.line);
  }
  return constant(integer(value), token.line);
}

Expression* Parser::binary(Expression::Kind kind, Operator op, Expression* left, Expression* right, int line) {
  Binary* const node = tree_.make<Binary>(line, kind);
  node->op = op;
  node->left = left;
  node->right = right;
  return node;
}

Expression* Parser::parse_expression(bool with_condition) {
  const Nesting nesting(*this);
  return with_condition ? parse_conditional() : parse_or();
}

Expression* Parser::parse_conditional() {
  const Nesting nesting(*this);
  int line = current().line;
  Expression* node = parse_or();
  while (skip_word("if")) {
    Conditional* const conditional = tree_.make<Conditional>(line);
    conditional->then = node;
    conditional->test = parse_or();
    if (skip_word("else")) conditional->otherwise = parse_conditional();
    node = conditional;
    line = current().line;
  }
  return node;
}

Expression* Parser::parse_or() {
  Expression* left = parse_and();
  while (is_word("or")) {
    const int line = take().line;
    left = binary(Expression::Kind::logic, Operator::logical_or, left, parse_and(), line);
  }
  return left;
}

Expression* Parser::parse_and() {
  Expression* left = parse_not();
  while (is_word("and")) {
    const int line = take().line;
    left = binary(Expression::Kind::logic, Operator::logical_and, left, parse_not(), line);
  }
  return left;
}

Expression* Parser::parse_not() {
  if (!is_word("not")) return parse_compare();
  const Nesting nesting(*this);
  Unary* const node = tree_.make<Unary>(take().line);
  node->op = Operator::logical_not;
  node->operand = parse_not();
  return node;
}

Expression* Parser::parse_compare() {
  const int line = current().line;
  Expression* const first = parse_sum();
  Compare* node = nullptr;
  while (true) {
    Operator op{};
    if (const Operator* const found = find_operator(current(), kComparisons)) {
      op = *found;
      take();
    } else if (skip_word("in")) {
      op = Operator::in;
    } else if (is_word("not") && is_word(after(), "in")) {
      take();
      take();
      op = Operator::not_in;
    } else {
      return node == nullptr ? first : node;
    }
    if (node == nullptr) {
      node = tree_.make<Compare>(line);
      node->first = first;
    }
    node->operators.push_back(op);
    node->operands.push_back(parse_sum());
  }
}

Expression* Parser::parse_sum() {
  Expression* left = parse_concat();
  while (const Operator* const op = find_operator(current(), kSums)) {
    const int line = take().line;
    left = binary(Expression::Kind::binary, *op, left, parse_concat(), line);
  }
  return left;
}

Expression* Parser::parse_concat() {
  const int line = current().line;
  Expression* const first = parse_product();
  if (!is_sign("~")) return first;
  Concat* const node = tree_.make<Concat>(line);
  node->escape = escape_;
  node->items.push_back(first);
  while (skip_sign("~")) node->items.push_back(parse_product());
  return node;
}

Expression* Parser::parse_product() {
  Expression* left = parse_power();
  while (const Operator* const op = find_operator(current(), kProducts)) {
    const int line = take().line;
    left = binary(Expression::Kind::binary, *op, left, parse_power(), line);
  }
  return left;
}

Expression* Parser::parse_power() {
  Expression* left = parse_unary();
  while (is_sign("**")) {
    const int line = take().line;
    left = binary(Expression::Kind::binary, Operator::power, left, parse_unary(), line);
  }
  return left;
}

Expression* Parser::parse_unary(bool with_filter) {
  const Nesting nesting(*this);
  Expression* node = nullptr;
  if (is_sign("-") || is_sign("+")) {
    const Token& sign = take();
    Unary* const unary = tree_.make<Unary>(sign.line);
    unary->op = sign.text == "-" ? Operator::negative : Operator::positive;
    unary->operand = parse_unary(false);
    if (unary->operand->line < 0) {  // -9223372036854775808: the constant is already negative
      unary->operand->line = sign.line;
      if (unary->op == Operator::negative) unary->op = Operator::positive;
    }
    node = unary;
  } else {
    node = parse_primary();
  }
  node = parse_postfix(node);
  return with_filter ? parse_filters_and_tests(node) : node;
}

Expression* Parser::parse_primary(bool with_attributes) {
  const Token& token = current();
  switch (token.type) {
    case Token::Type::name: {
      take();
      if (token.text == "true" || token.text == "True") return constant(boolean(true), token.line);
      if (token.text == "false" || token.text == "False") return constant(boolean(false), token.line);
      if (token.text == "none" || token.text == "None") return constant(none(), token.line);
      Name* const name = tree_.make<Name>(token.line);
      name->name = keep(token.text);
      if (with_attributes && skip_sign(".")) name->attribute = expect_name();
      return name;
    }
    case Token::Type::string: {
      std::string text;
      const int line = token.line;
      while (current().type == Token::Type::string) text += take().text;
      return constant(text_value(text), line);
    }
    case Token::Type::integer:
    case Token::Type::real:
      return number(take());
    default:
      break;
  }
  if (skip_sign("(")) {
    Expression* const node = parse_tuple(false, true, {}, true);
    expect_sign(")");
    return node;
  }
  if (is_sign("[")) return parse_list();
  if (is_sign("{")) return parse_dict();
  fail(fmt::format("unexpected {}", repr_text(described(token))), token.line);
}

Expression* Parser::parse_tuple(bool simplified, bool with_condition, const Words& ends, bool in_parentheses,
                                bool with_attributes) {
  const int line = current().line;
  Expressions items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_sign(",");
    const Token::Type type = current().type;
    if (type == Token::Type::variable_end || type == Token::Type::block_end || is_sign(")") || is_any(ends)) break;
    items.push_back(simplified ? parse_primary(with_attributes) : parse_expression(with_condition));
    if (!is_sign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return items[0];
    if (!in_parentheses) {
      fail(fmt::format("Expected an expression, got {}", repr_text(described(current()))), current().line);
    }
  }
  ListLiteral* const tuple = tree_.make<ListLiteral>(line, true);
  tuple->items = std::move(items);
  return tuple;
}

Expression* Parser::parse_list() {
  ListLiteral* const list = tree_.make<ListLiteral>(take().line, false);
  while (!is_sign("]")) {
    if (!list->items.empty()) expect_sign(",");
    if (is_sign("]")) break;
    list->items.push_back(parse_expression());
  }
  expect_sign("]");
  return list;
}

Expression* Parser::parse_dict() {
  DictLiteral* const dict = tree_.make<DictLiteral>(take().line);
  while (!is_sign("}")) {
    if (!dict->keys.empty()) expect_sign(",");
    if (is_sign("}")) break;
    dict->keys.push_back(parse_expression());
    expect_sign(":");
    dict->values.push_back(parse_expression());
  }
  expect_sign("}");
  return dict;
}

Expression* Parser::parse_postfix(Expression* node) {
  while (true) {
    if (is_sign(".") || is_sign("[")) {
      node = parse_subscript(node);
    } else if (is_sign("(")) {
      node = parse_call_of(node);
    } else {
      return node;
    }
  }
}

Expression* Parser::parse_filters_and_tests(Expression* node) {
  while (true) {
    if (is_sign("|")) {
      node = parse_filter(node);
    } else if (is_word("is")) {
      node = parse_test(node);
    } else if (is_sign("(")) {
      node = parse_call_of(node);
    } else {
      return node;
    }
  }
}

Expression* Parser::parse_subscript(Expression* node) {
  const int line = current().line;
  if (skip_sign(".")) {
    const Token& name = take();
    if (name.type == Token::Type::name) {
      Attribute* const attribute = tree_.make<Attribute>(line);
      attribute->object = node;
      attribute->name = text_value(name.text);
      return attribute;
    }
    if (name.type != Token::Type::integer) fail("expected name or number", name.line);
    Item* const item = tree_.make<Item>(line);
    item->object = node;
    item->index = number(name);
    return item;
  }
  expect_sign("[");
  Item* const item = tree_.make<Item>(line);
  item->object = node;
  ListLiteral* const indices = tree_.make<ListLiteral>(line, true);
  while (!is_sign("]")) {
    if (!indices->items.empty()) expect_sign(",");
    indices->items.push_back(parse_index());
  }
  expect_sign("]");
  for (const Expression* const index : indices->items) {
    if (index->kind == Expression::Kind::slice && indices->items.size() > 1) fail("invalid syntax", line);
  }
  item->index = indices->items.size() == 1 ? indices->items[0] : indices;
  return item;
}

Expression* Parser::parse_index() {
  const int line = current().line;
  Expression* start = nullptr;
  if (!is_sign(":")) {
    start = parse_expression();
    if (!is_sign(":")) return start;
  }
  take();
  Slice* const slice = tree_.make<Slice>(line);
  slice->start = start;
  const auto ends = [&] { return is_sign("]") || is_sign(","); };
  if (!is_sign(":") && !ends()) slice->stop = parse_expression();
  if (skip_sign(":") && !ends()) slice->step = parse_expression();
  return slice;
}

}  // namespace vitrine::jinja
