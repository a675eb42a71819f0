// Parses templates: the statements and expressions of jinja2, with its loop controls and `{% generation %}`.
#pragma once

#include <memory>
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
  /// Bounds the recursion.
  class Nesting {
   public:
    Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMax) {
        throw error("limit", "expected tags and brackets nested at most {} deep (line {})", kMax,
                    parser_.current().line);
      }
    }
    ~Nesting() { --parser_.depth_; }
    static constexpr int kMax = 150;

   private:
    Parser& parser_;
  };

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
  [[noreturn]] void fail(const std::string& what, int line) const;
  [[noreturn]] void fail_expected(std::string_view expected) const;
  std::string_view keep(std::string_view text) { return tree_.heap.copy(text); }
  Value text_value(std::string_view text) { return string(tree_.heap, text); }

  // statements
  Statements parse_body(const Words* ends);
  Statements parse_until(const Words& ends, bool drop_end);
  [[noreturn]] void fail_unknown_tag(const std::string* name, int line) const;
  Statement* parse_statement();
  Statement* parse_statement_named(std::string_view tag);
  Statement* parse_for();
  Statement* parse_if();
  Statement* parse_set();
  Statement* parse_macro();
  Statement* parse_call();
  Statement* parse_filter_statement();
  Statement* parse_with();
  Statement* parse_autoescape();
  Statement* parse_generation();
  Statement* parse_block();
  Statement* parse_print();
  Statement* parse_other_template(std::string_view tag);
  void parse_context_clause();
  void parse_import_names(Refused& node);
  void parse_signature(MacroCode& function);
  Name* parse_name_target();
  Expression* parse_target(const Words& ends, bool with_attributes);
  void check_target(const Expression& target) const;

  // expressions
  Expression* parse_expression(bool with_condition = true);
  Expression* parse_conditional();
  Expression* parse_or();
  Expression* parse_and();
  Expression* parse_not();
  Expression* parse_compare();
  Expression* parse_sum();
  Expression* parse_concat();
  Expression* parse_product();
  Expression* parse_power();
  Expression* parse_unary(bool with_filter = true);
  Expression* parse_primary(bool with_attributes = false);
  Expression* parse_tuple(bool simplified, bool with_condition, const Words& ends, bool in_parentheses,
                          bool with_attributes = false);
  Expression* parse_list();
  Expression* parse_dict();
  Expression* parse_postfix(Expression* node);
  Expression* parse_filters_and_tests(Expression* node);
  Expression* parse_subscript(Expression* node);
  Expression* parse_index();
  Expression* parse_call_of(Expression* node);
  Expression* parse_filter(Expression* node, bool inside = false);
  Expression* parse_test(Expression* node);
  std::string_view parse_dotted_name();
  CallArguments parse_arguments();
  Expression* constant(const Value& value, int line);
  Expression* number(const Token& token);
  Expression* binary(Expression::Kind kind, Operator op, Expression* left, Expression* right, int line);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  Tree& tree_;
  Escape escape_ = Escape::off;
  int depth_ = 0;
  std::vector<Words> ends_;             ///< the end tags that are open, outermost first
  std::vector<std::string_view> tags_;  ///< the tags that are open
};

/// How error messages name a token.
std::string described(const Token& token);

/// The filter or test with a name, or null.
Builtin* find_filter(std::string_view name);
Builtin* find_test(std::string_view name);

}  // namespace vitrine::jinja
