#include "template/parser.h"

#include <algorithm>

#include "template/format.h"

namespace vitrine::jinja {
namespace {

constexpr std::string_view kRefusedTags[] = {"autoescape", "block", "extends", "from", "import", "include", "print"};

bool is_in(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::string Parser::described(const Token& token) {
  static constexpr const char* kNames[] = {"template data / text",
                                           "begin of print statement",
                                           "end of print statement",
                                           "begin of statement block",
                                           "end of statement block",
                                           "string",
                                           "integer",
                                           "float",
                                           "end of template"};
  const auto type = static_cast<std::size_t>(token.type);
  return type < std::size(kNames) ? kNames[type] : std::string(token.text);
}

std::unique_ptr<Tree> parse(std::string_view source) {
  auto tree = std::make_unique<Tree>();
  tree->body = Parser(tokenize(tree->heap, source), *tree).parse_all();
  return tree;
}

const Token& Parser::take() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is_any(const Words& words) const {
  return current().type == Token::Type::name && is_in(current().text, words);
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
  return take().text;
}
void Parser::expect(Token::Type type, const char* described) {
  if (current().type != type) fail_expected(described);
  take();
}

Statements Parser::parse_all() {
  Statements body = parse_body({});
  if (unknown_.empty()) return body;
  const Apply& first = *unknown_[0];
  const std::string_view what = first.kind == Expression::Kind::filter ? "filter" : "test";
  if (first.builtin != nullptr) throw unsupported(what, first.name, first.line);
  fail(fmt::format("No {} named {}.", what, repr_text(first.name)), first.line);
}

Statements Parser::parse_body(const Words& ends) {
  if (!ends.empty()) ends_.push_back(ends);
  Statements body;
  Output* output = nullptr;
  const auto part = [&](OutputPart p) {
    if (output == nullptr) {
      output = tree_.make<Output>(current().line);
      body.push_back(output);
    }
    output->parts.push_back(p);
  };
  while (current().type != Token::Type::end) {
    if (current().type == Token::Type::data) {
      part({take().text, nullptr});
    } else if (current().type == Token::Type::variable_begin) {
      take();
      part({{}, parse_tuple(false, true, {}, false)});
      expect(Token::Type::variable_end, "end of print statement");
    } else {
      take();  // block_begin
      output = nullptr;
      if (is_any(ends)) break;
      body.push_back(parse_statement());
      expect(Token::Type::block_end, "end of statement block");
    }
  }
  if (!ends.empty()) {
    if (current().type == Token::Type::end) fail_unknown_tag("");
    ends_.pop_back();
  }
  return body;
}

Statements Parser::parse_until(const Words& ends, Surroundings inside) {
  const Nested level = nested();
  const Surroundings outer = std::exchange(around_, inside);
  skip_sign(":");
  expect(Token::Type::block_end, "end of statement block");
  Statements body = parse_body(ends);
  if (ends.size() == 1) take();
  around_ = outer;
  return body;
}

void Parser::fail_unknown_tag(std::string_view tag) const {
  std::string message =
      tag.empty() ? "Unexpected end of template." : fmt::format("Encountered unknown tag {}.", repr_text(tag));
  if (!ends_.empty()) {
    const bool is_expected = std::any_of(ends_.begin(), ends_.end(), [&](const Words& w) { return is_in(tag, w); });
    message += is_expected
                   ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for "
                   : " Jinja was looking for the following tags: ";
    message += fmt::format("'{}'.", fmt::join(ends_.back(), "' or '"));
  }
  if (!tags_.empty()) {
    message += fmt::format(" The innermost block that needs to be closed is {}.", repr_text(tags_.back()));
  }
  fail(message, current().line);
}

Statement* Parser::parse_statement() {
  if (current().type != Token::Type::name) fail("tag name expected", current().line);
  const Nested level = nested();
  const std::string_view tag = current().text;
  tags_.push_back(tag);
  Statement* const statement = parse_statement_named(tag);
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
  if (tag == "generation") return parse_generation();
  if (tag == "break" || tag == "continue") return parse_leave();
  if (is_in(tag, kRefusedTags)) throw unsupported("statement", tag, current().line);
  tags_.pop_back();
  fail_unknown_tag(tag);
}

Statement* Parser::parse_for() {
  Loop* const loop = tree_.make<Loop>(take().line);
  const bool is_inner_loop = std::exchange(around_.in_any_loop, true);
  loop->target = parse_target({"in"}, false);
  expect_word("in");
  loop->iterable = parse_tuple(false, false, {"recursive"}, false);
  const bool is_conditional = std::exchange(around_.is_conditional, false);
  if (skip_word("if")) loop->test = parse_expression();
  loop->is_recursive = skip_word("recursive");
  loop->body = parse_until({"endfor", "else"}, {.in_loop = true, .in_any_loop = true});
  if (take().text == "else") {
    loop->otherwise = parse_until({"endfor"}, {.in_loop = around_.in_loop && !loop->is_recursive, .in_any_loop = true});
  }
  around_.in_any_loop = is_inner_loop;
  around_.is_conditional = is_conditional;
  return loop;
}

Statement* Parser::parse_if() {
  Condition* const condition = tree_.make<Condition>(take().line);
  const bool is_conditional = std::exchange(around_.is_conditional, true);
  std::string_view end = "elif";
  while (end == "elif") {
    condition->tests.push_back(parse_tuple(false, false, {}, false));
    condition->bodies.push_back(parse_until({"elif", "else", "endif"}, around_));
    end = take().text;
  }
  if (end == "else") condition->otherwise = parse_until({"endif"}, around_);
  around_.is_conditional = is_conditional;
  return condition;
}

Statement* Parser::parse_set() {
  const int line = take().line;
  const std::ptrdiff_t first_use = std::ssize(tree_.uses);
  Expression* const target = parse_target({}, true);
  const std::ptrdiff_t last_use = std::ssize(tree_.uses);
  if (skip_sign("=")) {
    Set* const set = tree_.make<Set>(line);
    set->target = target;
    set->value = parse_tuple(false, true, {}, false);
    const auto uses = tree_.uses.begin();
    std::rotate(uses + first_use, uses + last_use, tree_.uses.end());  // the value is read first
    return set;
  }
  SetBlock* const set = tree_.make<SetBlock>(line);
  set->target = target;
  set->filter = parse_filters_of_block(false);
  set->body = parse_until({"endset"}, inner());
  return set;
}

Expression* Parser::parse_filters_of_block(bool is_required) {
  const bool is_conditional = std::exchange(around_.is_conditional, false);
  Expression* const filter = parse_filter(nullptr, is_required);
  around_.is_conditional = is_conditional;
  return filter;
}

Name* Parser::parse_name_target() {
  if (current().type != Token::Type::name) fail_expected("name");
  Name* const name = new_name(take());
  check_target(*name);
  return name;
}

Expression* Parser::parse_target(const Words& ends, bool with_attributes) {
  Expression* const target = parse_tuple(true, true, ends, false, with_attributes);
  check_target(*target);
  return target;
}

void Parser::check_target(const Expression& target) {
  static constexpr const char* kNames[] = {"const",   "name",  "list",   "tuple",   "dict",     "neg",
                                           "add",     "and",   "concat", "compare", "condexpr", "getattr",
                                           "getitem", "slice", "call",   "filter",  "test"};
  static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
  if (target.kind == Expression::Kind::tuple) {
    for (const Expression* const item : static_cast<const ListLiteral&>(target).items) check_target(*item);
    return;
  }
  const bool is_name = target.kind == Expression::Kind::name;
  if (!is_name || is_in(static_cast<const Name&>(target).name, kConstants)) {
    fail(fmt::format("can't assign to '{}'", kNames[is_name ? 0 : static_cast<int>(target.kind)]), target.line);
  }
  const auto& name = static_cast<const Name&>(target);
  if (around_.in_any_loop && name.name == "loop" && name.attribute.empty()) {
    fail("Can't assign to special loop variable in for-loop target", target.line);
  }
  const auto use = std::find_if(tree_.uses.rbegin(), tree_.uses.rend(),
                                [&](const Tree::Use& other) { return other.name == name.name; });
  if (use != tree_.uses.rend()) use->is_assignment = name.attribute.empty();
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

void Parser::parse_function(MacroCode& function, std::string_view end) {
  const int line = current().line;
  functions_.push_back(&function);
  function.body = parse_until({end}, {.in_any_loop = around_.in_any_loop});
  functions_.pop_back();
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    const std::string_view name = function.parameters[i]->name;
    if (name == "caller" && function.reads_caller && i + function.defaults.size() < function.parameters.size()) {
      fail("When defining macros or call blocks the special \"caller\" argument must be omitted or be given a default.",
           line);
    }
    if (name == "caller") function.reads_caller = false;
    if (name == "kwargs") function.reads_kwargs = false;
    if (name == "varargs") function.reads_varargs = false;
  }
}

Statement* Parser::parse_macro() {
  Macro* const macro = tree_.make<Macro>(take().line);
  macro->target = parse_name_target();
  tree_.uses.back().is_macro = true;
  macro->function.name = macro->target->name;
  parse_signature(macro->function);
  parse_function(macro->function, "endmacro");
  return macro;
}

Statement* Parser::parse_call() {
  CallBlock* const block = tree_.make<CallBlock>(take().line);
  if (is_sign("(")) parse_signature(block->caller);
  Expression* const call = parse_expression();
  if (call->kind != Expression::Kind::call) fail("expected call", block->line);
  block->call = static_cast<Call*>(call);
  parse_function(block->caller, "endcall");
  return block;
}

Statement* Parser::parse_filter_statement() {
  FilterBlock* const block = tree_.make<FilterBlock>(take().line);
  block->filter = parse_filters_of_block(true);
  block->body = parse_until({"endfilter"}, inner());
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
  with->body = parse_until({"endwith"}, inner());
  return with;
}

Statement* Parser::parse_generation() {
  Generation* const generation = tree_.make<Generation>(take().line);
  generation->body = parse_until({"endgeneration"}, {.in_any_loop = around_.in_any_loop});
  return generation;
}

Statement* Parser::parse_leave() {
  Leave* const leave = tree_.make<Leave>(current().line);
  leave->is_break = take().text == "break";
  if (!around_.in_loop) {
    fail(leave->is_break ? "'break' outside loop" : "'continue' not properly in loop", leave->line);
  }
  return leave;
}

}  // namespace vitrine::jinja
