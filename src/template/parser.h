// Parses templates: the statements and expressions of jinja2, with its loop controls and `{% generation %}`.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "template/ast.h"
#include "template/lexer.h"

namespace vitrine::jinja {

/// The tree of a template. Throws TemplateError (syntax) where jinja2 does.
std::unique_ptr<Tree> parse(std::string_view source);

/// A recursive-descent parser. One method for each rule of the grammar; expressions are in parse_expressions.cpp.
class Parser {
 public:
  Parser(std::vector<Token> tokens, Tree& tree) : tokens_(std::move(tokens)), tree_(tree) {}
  Statements parse_all();

 private:
  using Words = std::vector<std::string_view>;
  Nested nested() { return {depth_, 150, "tags and brackets"}; }
  /// What surrounds a statement.
  struct Surroundings {
    /// Inside a condition of the same function: unknown filters and tests are errors when they are used.
    bool is_conditional = false;
    bool in_loop = false;      ///< of the same function: `break` and `continue` are possible
    bool in_any_loop = false;  ///< `loop` is no variable to assign to
  };
  Surroundings inner() const { return {.in_loop = around_.in_loop, .in_any_loop = around_.in_any_loop}; }
  // tokens
  const Token& current() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& take();
  bool is_sign(std::string_view sign) const { return is_sign(current(), sign); }
  bool is_word(std::string_view word) const { return is_word(current(), word); }
  static bool is_sign(const Token& t, std::string_view sign) { return t.type == Token::Type::sign && t.text == sign; }
  static bool is_word(const Token& t, std::string_view word) { return t.type == Token::Type::name && t.text == word; }
  bool is_any(const Words& words) const;
  bool skip_sign(std::string_view sign);
  bool skip_word(std::string_view word);
  void expect_sign(std::string_view sign);
  void expect_word(std::string_view word);
  std::string_view expect_name();
  void expect(Token::Type type, const char* described);
  /// How error messages name a token.
  static std::string described(const Token& token);
  [[noreturn]] void fail(const std::string& what, int line) const { throw syntax_error(what, line); }
  [[noreturn]] void fail_expected(std::string_view expected) const;

  // statements
  Statements parse_body(const Words& ends);
  /// Parses up to one of the tags `ends`, and past it if there is no choice.
  Statements parse_until(const Words& ends, Surroundings inside);
  [[noreturn]] void fail_unknown_tag(std::string_view tag) const;
  Statement* parse_statement();
  Statement* parse_statement_named(std::string_view tag);
  Statement* parse_for();
  Statement* parse_if();
  Statement* parse_set();
  Statement* parse_macro();
  Statement* parse_call();
  Statement* parse_filter_statement();
  Statement* parse_with();
  Statement* parse_generation();
  Statement* parse_leave();
  void parse_signature(MacroCode& function);
  void parse_function(MacroCode& function, std::string_view end);
  Name* parse_name_target();
  Expression* parse_target(const Words& ends, bool with_attributes);
  void check_target(const Expression& target);

  // expressions
  Expression* parse_expression(bool with_condition = true);
  Expression* parse_conditional();
  Expression* parse_not();
  Expression* parse_compare();
  Expression* parse_operators(std::size_t level);
  Expression* parse_unary(bool with_filter = true);
  Expression* parse_primary(bool is_target, bool with_attributes = false);
  Expression* parse_tuple(bool is_target, bool with_condition, const Words& ends, bool in_parentheses,
                          bool with_attributes = false);
  /// Calls `parse` for items between commas, up to and past a closing bracket.
  template <class Parse>
  void parse_items(std::string_view close, Parse parse) {
    for (bool is_first = true; !is_sign(close); is_first = false) {
      if (!is_first) expect_sign(",");
      if (!is_first && is_sign(close)) break;
      parse();
    }
    expect_sign(close);
  }
  Expression* parse_list();
  Expression* parse_dict();
  Expression* parse_postfix(Expression* node);
  Expression* parse_filters_and_tests(Expression* node);
  Expression* parse_subscript(Expression* node);
  Expression* parse_index();
  Expression* parse_call_of(Expression* node);
  Expression* parse_filter(Expression* node, bool inside);
  Expression* parse_filters_of_block(bool is_required);
  Expression* parse_test(Expression* node);
  Apply* new_apply(Expression::Kind kind, Expression* operand);
  CallArguments parse_arguments();
  Name* new_name(const Token& token);
  Expression* constant(const Value& value, int line);
  Expression* number(const Token& token);
  Expression* unary(UnaryOperator* op, Expression* operand, int line);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  Tree& tree_;
  Surroundings around_;
  int depth_ = 0;
  std::vector<Words> ends_;             ///< the end tags that are open, outermost first
  std::vector<std::string_view> tags_;  ///< the tags that are open
  std::vector<MacroCode*> functions_;   ///< the macros and call blocks that are open
  std::vector<const Apply*> unknown_;   ///< filters and tests that there are not, outside conditions
};

}  // namespace vitrine::jinja
