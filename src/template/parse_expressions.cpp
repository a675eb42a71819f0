// The expressions of the grammar, from the loosest operator to the tightest.
#include <algorithm>

#include "base/text.h"
#include "template/builtins.h"
#include "template/format.h"
#include "template/parser.h"

namespace vitrine::jinja {
namespace {

/// Operators by how tightly they bind. `not` and the comparisons are between `and` and `+`.
struct Sign {
  std::string_view text;
  std::size_t level;
  BinaryOperator* op;
};
constexpr Sign kSigns[] = {{"or", 0, nullptr}, {"and", 1, nullptr}, {"+", 2, add},    {"-", 2, subtract},
                           {"~", 3, nullptr},  {"*", 4, multiply},  {"/", 4, divide}, {"//", 4, floor_divide},
                           {"%", 4, modulo},   {"**", 5, power}};

const Sign* find_sign(const Token& token, std::size_t level) {
  if (token.type != (level < 2 ? Token::Type::name : Token::Type::sign)) return nullptr;
  const auto* const found = std::find_if(std::begin(kSigns), std::end(kSigns),
                                         [&](const Sign& s) { return s.level == level && s.text == token.text; });
  return found == std::end(kSigns) ? nullptr : found;
}

template <bool compare(const Value&, const Value&)>
bool compared(Renderer&, const Value& a, const Value& b) {
  return compare(a, b);
}
bool is_in(Renderer& r, const Value& a, const Value& b) { return r.contains(b, a); }
bool is_not_in(Renderer& r, const Value& a, const Value& b) { return !r.contains(b, a); }
constexpr std::pair<std::string_view, Comparison*> kComparisons[] = {
    {"==", compared<equal>},         {"!=", compared<unequal>}, {"<", compared<less>},
    {"<=", compared<less_or_equal>}, {">", compared<greater>},  {">=", compared<greater_or_equal>}};

}  // namespace

Expression* Parser::constant(const Value& value, int line) {
  Literal* const node = tree_.make<Literal>(line);
  node->value = value;
  return node;
}

Expression* Parser::number(const Token& token) {
  if (token.type == Token::Type::real) return constant(real(parse_real(token.text).value()), token.line);
  if (const auto value = number_in<std::int64_t>(token.text)) return constant(integer(*value), token.line);
  if (token.text == "9223372036854775808") return constant(integer(INT64_MIN), -token.line);  // only after a minus sign
  throw error("unsupported", "the integer {} does not fit 64 bits (line {})", token.text, token.line);
}

Name* Parser::new_name(const Token& token) {
  Name* const name = tree_.make<Name>(token.line);
  name->name = token.text;
  name->number = tree_.number_of(token.text);
  tree_.uses.push_back({token.text});
  return name;
}

Expression* Parser::unary(UnaryOperator* op, Expression* operand, int line) {
  Unary* const node = tree_.make<Unary>(line);
  node->op = op;
  node->operand = operand;
  return node;
}

Expression* Parser::parse_expression(bool with_condition) {
  const Nested level = nested();
  return with_condition ? parse_conditional() : parse_operators(0);
}

Expression* Parser::parse_conditional() {
  const Nested level = nested();
  int line = current().line;
  const std::size_t n_unknown = unknown_.size();
  Expression* node = parse_operators(0);
  while (skip_word("if")) {
    Conditional* const conditional = tree_.make<Conditional>(line);
    conditional->then = node;
    conditional->test = parse_operators(0);
    if (skip_word("else")) conditional->otherwise = parse_conditional();
    unknown_.resize(n_unknown);  // in a condition, an unknown filter is an error only when it is used
    node = conditional;
    line = current().line;
  }
  return node;
}

Expression* Parser::parse_operators(std::size_t level) {
  const auto operand = [&] {
    return level == 1 ? parse_not() : level == 5 ? parse_unary() : parse_operators(level + 1);
  };
  Expression* left = operand();
  Concat* concat = nullptr;
  while (const Sign* const sign = find_sign(current(), level)) {
    const int line = take().line;
    Expression* const right = operand();
    if (sign->text == "~") {
      if (concat == nullptr) {
        concat = tree_.make<Concat>(line);
        concat->items = {left};
        left = concat;
      }
      concat->items.push_back(right);
    } else if (sign->op == nullptr) {
      Logic* const node = tree_.make<Logic>(line);
      node->is_or = level == 0;
      node->left = std::exchange(left, node);
      node->right = right;
    } else {
      Binary* const node = tree_.make<Binary>(line);
      node->op = sign->op;
      node->left = std::exchange(left, node);
      node->right = right;
    }
  }
  return left;
}

Expression* Parser::parse_not() {
  if (!is_word("not")) return parse_compare();
  const Nested level = nested();
  const int line = take().line;
  return unary(inverse, parse_not(), line);
}

Expression* Parser::parse_compare() {
  const int line = current().line;
  Expression* const first = parse_operators(2);
  Compare* node = nullptr;
  while (true) {
    const auto* const sign = std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                          [this](const auto& c) { return this->is_sign(c.first); });
    Comparison* op = nullptr;
    if (sign != std::end(kComparisons)) {
      op = sign->second;
    } else if (is_word("in")) {
      op = is_in;
    } else if (is_word("not") && is_word(after(), "in")) {
      take();
      op = is_not_in;
    } else {
      return node == nullptr ? first : node;
    }
    take();
    if (node == nullptr) {
      node = tree_.make<Compare>(line);
      node->first = first;
    }
    node->operators.push_back(op);
    node->operands.push_back(parse_operators(2));
  }
}

Expression* Parser::parse_unary(bool with_filter) {
  const Nested level = nested();
  Expression* node = nullptr;
  if (is_sign("-") || is_sign("+")) {
    const Token& sign = take();
    Expression* const operand = parse_unary(false);
    const bool is_negative_already = operand->line < 0;  // -9223372036854775808
    if (is_negative_already) operand->line = sign.line;
    const bool negates = sign.text == "-" && !is_negative_already;
    node = unary(negates ? negative : positive, operand, sign.line);
  } else {
    node = parse_primary(false);
  }
  node = parse_postfix(node);
  return with_filter ? parse_filters_and_tests(node) : node;
}

Expression* Parser::parse_primary(bool is_target, bool with_attributes) {
  const Token& token = current();
  switch (token.type) {
    case Token::Type::name: {
      take();
      if (token.text == "true" || token.text == "True") return constant(boolean(true), token.line);
      if (token.text == "false" || token.text == "False") return constant(boolean(false), token.line);
      if (token.text == "none" || token.text == "None") return constant(none(), token.line);
      Name* const name = new_name(token);
      if (with_attributes && skip_sign(".")) name->attribute = expect_name();
      for (MacroCode* const function : functions_) {
        function->reads_caller |= !is_target && token.text == "caller";
        function->reads_kwargs |= !is_target && token.text == "kwargs";
        function->reads_varargs |= !is_target && token.text == "varargs";
      }
      return name;
    }
    case Token::Type::string: {
      take();
      if (current().type != Token::Type::string) return constant(borrowed(tree_.heap, token.text), token.line);
      std::string text(token.text);
      while (current().type == Token::Type::string) text += take().text;
      return constant(string(tree_.heap, text), token.line);
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

Expression* Parser::parse_tuple(bool is_target, bool with_condition, const Words& ends, bool in_parentheses,
                                bool with_attributes) {
  const int line = current().line;
  Expressions items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_sign(",");
    const Token::Type type = current().type;
    if (type == Token::Type::variable_end || type == Token::Type::block_end || is_sign(")") || is_any(ends)) break;
    items.push_back(is_target ? parse_primary(true, with_attributes) : parse_expression(with_condition));
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
  parse_items("]", [&] { list->items.push_back(parse_expression()); });
  return list;
}

Expression* Parser::parse_dict() {
  DictLiteral* const dict = tree_.make<DictLiteral>(take().line);
  parse_items("}", [&] {
    dict->keys.push_back(parse_expression());
    expect_sign(":");
    dict->values.push_back(parse_expression());
  });
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
      node = parse_filter(node, false);
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
      attribute->name = borrowed(tree_.heap, name.text);
      attribute->is_key = is_only_key(name.text);
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
  if (indices->items.size() == 1) {
    item->index = indices->items[0];
  } else {
    for (const Expression* const index : indices->items) {
      if (index->kind == Expression::Kind::slice) fail("invalid syntax", line);
    }
    item->index = indices;
  }
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
