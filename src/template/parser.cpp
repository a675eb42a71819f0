#include "template/parser.h"

#include <algorithm>

#include "template/format.h"
#include "template/scopes.h"
#include "template/text.h"

namespace vitrine::jinja {

std::string described(const Token& token) {
  switch (token.type) {
    case Token::Type::data:
      return "template data / text";
    case Token::Type::variable_begin:
      return "begin of print statement";
    case Token::Type::variable_end:
      return "end of print statement";
    case Token::Type::block_begin:
      return "begin of statement block";
    case Token::Type::block_end:
      return "end of statement block";
    case Token::Type::string:
      return "string";
    case Token::Type::integer:
      return "integer";
    case Token::Type::real:
      return "float";
    case Token::Type::end:
      return "end of template";
    case Token::Type::name:
    case Token::Type::sign:
      break;
  }
  return token.text;
}

std::unique_ptr<Tree> parse(std::string_view source) {
  auto tree = std::make_unique<Tree>();
  Parser parser(tokenize(source), *tree);
  tree->body = parser.parse_all();
  resolve_variables(*tree);
  return tree;
}

const Token& Parser::take() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is_any(const Words& words) const {
  return current().type == Token::Type::name && std::find(words.begin(), words.end(), current().text) != words.end();
}

bool Parser::skip_sign(std::string_view sign) {
  const bool is = is_sign(sign);
  if (is) take();
  return is;
}

bool Parser::skip_word(std::string_view word) {
  const bool is = is_word(word);
  if (is) take();
  return is;
}

void Parser::fail(const std::string& what, int line) const { throw syntax_error(what, line); }

void Parser::fail_expected(std::string_view expected) const {
  if (current().type == Token::Type::end) {
    fail(fmt::format("unexpected end of template, expected {}.", repr_text(expected)), current().line);
  }
  fail(fmt::format("expected token {}, got {}", repr_text(expected), repr_text(described(current()))), current().line);
}

void Parser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) fail_expected(sign);
}
void Parser::expect_word(std::string_view word) {
  if (!skip_word(word)) fail_expected(word);
}
std::string_view Parser::expect_name() {
  if (current().type != Token::Type::name) fail_expected("name");
  return keep(take().text);
}
void Parser::expect(Token::Type type, const char* described) {
  if (current().type != type) fail_expected(described);
  take();
}

Statements Parser::parse_all() { return parse_body(nullptr); }

Statements Parser::parse_body(const Words* ends) {
  if (ends != nullptr) ends_.push_back(*ends);
  Statements body;
  Output* output = nullptr;
  const auto part = [&](OutputPart p) {
    if (output == nullptr) {
      output = tree_.make<Output>(current().line);
      output->escape = escape_;
      body.push_back(output);
    }
    output->parts.push_back(p);
  };
  while (current().type != Token::Type::end) {
    if (current().type == Token::Type::data) {
      part({keep(take().text), nullptr});
    } else if (current().type == Token::Type::variable_begin) {
      take();
      part({{}, parse_tuple(false, true, {}, false)});
      expect(Token::Type::variable_end, "end of print statement");
    } else {
      take();  // block_begin
      output = nullptr;
      if (ends != nullptr && is_any(*ends)) break;
      body.push_back(parse_statement());
      expect(Token::Type::block_end, "end of statement block");
    }
  }
  if (ends != nullptr) {
    if (current().type == Token::Type::end) fail_unknown_tag(nullptr, current().line);
    ends_.pop_back();
  }
  return body;
}

Statements Parser::parse_until(const Words& ends, bool drop_end) {
  const Nesting nesting(*this);
  skip_sign(":");
  expect(Token::Type::block_end, "end of statement block");
  Statements body = parse_body(&ends);
  if (drop_end) take();
  return body;
}

void Parser::fail_unknown_tag(const std::string* name, int line) const {
  std::string message =
      name == nullptr ? "Unexpected end of template." : fmt::format("Encountered unknown tag {}.", repr_text(*name));
  if (!ends_.empty()) {
    std::string looking;
    for (const std::string_view end : ends_.back())
      looking += (looking.empty() ? "'" : " or '") + std::string(end) + "'";
    const bool is_expected = name != nullptr && std::any_of(ends_.begin(), ends_.end(), [&](const Words& words) {
                               return std::find(words.begin(), words.end(), *name) != words.end();
                             });
    message += is_expected
                   ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for "
                   : " Jinja was looking for the following tags: ";
    message += looking + ".";
  }
  if (!tags_.empty()) {
    message += fmt::format(" The innermost block that needs to be closed is {}.", repr_text(tags_.back()));
  }
  fail(message, line);
}

Statement* Parser::parse_statement() {
  if (current().type != Token::Type::name) fail("tag name expected", current().line);
  const Nesting nesting(*this);
  tags_.push_back(keep(current().text));
  Statement* const statement = parse_statement_named(tags_.back());
  tags_.pop_back();
  return statement;
}

Statement* Parser::parse_statement_named(std::string_view tag) {
  if (tag == "for") return parse_for();
  if (tag == "if") return parse_if();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call();
  if (tag == "filter") return parse_filter_statement();
  if (tag == "with") return parse_with();
  if (tag == "autoescape") return parse_autoescape();
  if (tag == "generation") return parse_generation();
  if (tag == "block") return parse_block();
  if (tag == "print") return parse_print();
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") return parse_other_template(tag);
  if (tag == "break" || tag == "continue") {
    Leave* const leave = tree_.make<Leave>(take().line);
    leave->is_break = tag == "break";
    return leave;
  }
  tags_.pop_back();
  const std::string name = current().text;
  fail_unknown_tag(&name, current().line);
}

Statement* Parser::parse_for() {
  Loop* const loop = tree_.make<Loop>(take().line);
  const std::size_t first = at_;
  loop->target = parse_target({"in"}, false);
  const std::size_t after_target = at_;
  at_ = first;
  loop->test_target = parse_target({"in"}, false);
  at_ = after_target;
  expect_word("in");
  loop->iterable = parse_tuple(false, false, {"recursive"}, false);
  if (skip_word("if")) loop->test = parse_expression();
  loop->is_recursive = skip_word("recursive");
  loop->body = parse_until({"endfor", "else"}, false);
  if (take().text == "else") loop->otherwise = parse_until({"endfor"}, true);
  return loop;
}

Statement* Parser::parse_if() {
  Condition* const condition = tree_.make<Condition>(take().line);
  while (true) {
    condition->tests.push_back(parse_tuple(false, false, {}, false));
    condition->bodies.push_back(parse_until({"elif", "else", "endif"}, false));
    const std::string& end = take().text;
    if (end == "elif") continue;
    if (end == "else") condition->otherwise = parse_until({"endif"}, true);
    return condition;
  }
}

Statement* Parser::parse_set() {
  const int line = take().line;
  Expression* const target = parse_target({}, true);
  if (skip_sign("=")) {
    Set* const set = tree_.make<Set>(line);
    set->target = target;
    set->value = parse_tuple(false, true, {}, false);
    return set;
  }
  SetBlock* const set = tree_.make<SetBlock>(line);
  set->target = target;
  set->filter = parse_filter(nullptr);
  set->body = parse_until({"endset"}, true);
  return set;
}

Name* Parser::parse_name_target() {
  if (current().type != Token::Type::name) fail_expected("name");
  Name* const name = tree_.make<Name>(current().line);
  name->name = keep(take().text);
  check_target(*name);
  return name;
}

Expression* Parser::parse_target(const Words& ends, bool with_attributes) {
  Expression* const target = parse_tuple(true, true, ends, false, with_attributes);
  check_target(*target);
  return target;
}

void Parser::check_target(const Expression& target) const {
  static constexpr const char* kNames[] = {"const",   "name",  "list",   "tuple",   "dict",     "neg",
                                           "add",     "and",   "concat", "compare", "condexpr", "getattr",
                                           "getitem", "slice", "call",   "filter",  "test"};
  if (target.kind == Expression::Kind::name) {
    const std::string_view name = static_cast<const Name&>(target).name;
    if (name != "true" && name != "false" && name != "none" && name != "True" && name != "False" && name != "None")
      return;
  }
  if (target.kind == Expression::Kind::tuple) {
    for (const Expression* const item : static_cast<const ListLiteral&>(target).items) check_target(*item);
    return;
  }
  fail(fmt::format("can't assign to '{}'", kNames[static_cast<int>(target.kind)]), target.line);
}

void Parser::parse_signature(MacroCode& function) {
  expect_sign("(");
  while (!is_sign(")")) {
    if (!function.parameters.empty()) expect_sign(",");
    Name* const parameter = parse_name_target();
    for (const Name* const other : function.parameters) {
      if (other->name == parameter->name) {
        fail(fmt::format("duplicate argument {} in function definition", repr_text(parameter->name)), parameter->line);
      }
    }
    function.parameters.push_back(parameter);
    if (skip_sign("=")) {
      function.defaults.push_back(parse_expression());
    } else if (!function.defaults.empty()) {
      fail("non-default argument follows default argument", current().line);
    }
  }
  expect_sign(")");
}

Statement* Parser::parse_macro() {
  Macro* const macro = tree_.make<Macro>(take().line);
  macro->target = parse_name_target();
  macro->function.name = macro->target->name;
  parse_signature(macro->function);
  macro->function.body = parse_until({"endmacro"}, true);
  return macro;
}

Statement* Parser::parse_call() {
  CallBlock* const block = tree_.make<CallBlock>(take().line);
  if (is_sign("(")) parse_signature(block->caller);
  Expression* const call = parse_expression();
  if (call->kind != Expression::Kind::call) fail("expected call", block->line);
  block->call = static_cast<Call*>(call);
  block->caller.body = parse_until({"endcall"}, true);
  return block;
}

Statement* Parser::parse_filter_statement() {
  FilterBlock* const block = tree_.make<FilterBlock>(take().line);
  block->escape = escape_;
  block->filter = parse_filter(nullptr, true);
  block->body = parse_until({"endfilter"}, true);
  return block;
}

Statement* Parser::parse_with() {
  With* const with = tree_.make<With>(take().line);
  while (current().type != Token::Type::block_end) {
    if (!with->targets.empty()) expect_sign(",");
    with->targets.push_back(parse_target({}, false));
    expect_sign("=");
    with->values.push_back(parse_expression());
  }
  with->body = parse_until({"endwith"}, true);
  return with;
}

Statement* Parser::parse_autoescape() {
  Autoescape* const scope = tree_.make<Autoescape>(take().line);
  scope->value = parse_expression();
  const Escape outer = escape_;
  escape_ = Escape::at_run_time;
  if (scope->value->kind == Expression::Kind::constant) {
    escape_ = is_true(static_cast<Literal*>(scope->value)->value) ? Escape::on : Escape::off;
  }
  scope->body = parse_until({"endautoescape"}, true);
  escape_ = outer;
  return scope;
}

Statement* Parser::parse_generation() {
  Generation* const generation = tree_.make<Generation>(take().line);
  generation->escape = escape_;
  generation->body.body = parse_until({"endgeneration"}, true);
  return generation;
}

Statement* Parser::parse_block() {
  Block* const block = tree_.make<Block>(take().line);
  block->name = expect_name();
  block->is_scoped = skip_word("scoped");
  block->is_required = skip_word("required");
  if (is_sign("-")) {
    fail(
        "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore "
        "instead.",
        current().line);
  }
  block->body = parse_until({"endblock"}, true);
  for (const Statement* const statement : block->body) {
    const auto* const output = dynamic_cast<const Output*>(statement);
    const bool is_blank = output != nullptr && std::all_of(output->parts.begin(), output->parts.end(), [](auto& part) {
                            return part.value == nullptr && strip(part.text, true, false).empty();
                          });
    if (block->is_required && !is_blank) {
      fail("Required blocks can only contain comments or whitespace", current().line);
    }
  }
  skip_word(block->name);
  for (const Block* const other : tree_.blocks) {
    if (other->name == block->name) fail(fmt::format("block {} defined twice", repr_text(block->name)), block->line);
  }
  tree_.blocks.push_back(block);
  return block;
}

Statement* Parser::parse_print() {
  Output* const output = tree_.make<Output>(take().line);
  output->escape = escape_;
  while (current().type != Token::Type::block_end) {
    if (!output->parts.empty()) expect_sign(",");
    output->parts.push_back({{}, parse_expression()});
  }
  return output;
}

void Parser::parse_context_clause() {
  if ((is_word("with") || is_word("without")) && is_word(after(), "context")) {
    take();
    take();
  }
}

Statement* Parser::parse_other_template(std::string_view tag) {
  Refused* const node = tree_.make<Refused>(take().line);
  node->tag = tag;
  node->name = parse_expression();
  if (tag == "include") {
    if (is_word("ignore") && is_word(after(), "missing")) {
      take();
      take();
    }
    parse_context_clause();
  } else if (tag == "import") {
    expect_word("as");
    node->targets.push_back(parse_name_target()->name);
    parse_context_clause();
  } else if (tag == "from") {
    expect_word("import");
    parse_import_names(*node);
  }
  return node;
}

void Parser::parse_import_names(Refused& node) {
  for (bool is_first = true; current().type != Token::Type::block_end; is_first = false) {
    if (!is_first) expect_sign(",");
    if ((is_word("with") || is_word("without")) && is_word(after(), "context")) return parse_context_clause();
    std::string_view name = parse_name_target()->name;
    if (name[0] == '_') fail("names starting with an underline can not be imported", current().line);
    if (skip_word("as")) name = parse_name_target()->name;
    node.targets.push_back(name);
    parse_context_clause();
    if (!is_sign(",")) return;
  }
}

}  // namespace vitrine::jinja
