// vitrine template: renders conversations with the chat template of a model.
#include <fmt/ranges.h>

#include <functional>
#include <mutex>

#include "answer/describe.h"
#include "answer/learn.h"
#include "answer/parse.h"
#include "base/mapped_file.h"
#include "chat/chat_history.h"
#include "cli/commands.h"
#include "cli/lines.h"
#include "cli/options.h"
#include "cli/output.h"
#include "template/chat_template.h"
#include "template/value.h"
#include "tokenizer/read/chat_templates.h"

namespace vitrine::cli {
namespace {

struct TemplateOptions : Options {
  std::string model, messages, tools, documents, now, parse;
  std::vector<std::string> set;
  bool no_prompt = false, lines = false, formats = false;

  TemplateClock clock() const { return now.empty() ? TemplateClock::now() : TemplateClock::parse(now); }
};

/// The model that MODEL names: its templates, and its tokenizer if it has one.
struct TemplateModel {
  explicit TemplateModel(const TemplateOptions& o) {
    const std::string tokenizer_path = o.tokenizer.empty() ? o.model : o.tokenizer;
    if (!o.model.empty()) templates = load_chat_templates(o.model);
    if (tokenizer_path.empty() || tokenizer_path.ends_with(".jinja")) return;
    try {
      tokenizer = load_tokenizer(tokenizer_path, o.tokenizer_options);
    } catch (const BadInput&) {
      if (!o.tokenizer.empty()) throw;  // a folder with a template alone is enough
    }
  }

  ChatTemplates templates;
  std::unique_ptr<const Tokenizer> tokenizer;
};

Json answer_json(const RenderedTemplate& rendered, const Tokenizer* tokenizer) {
  Json answer = {{"text", rendered.text}, {"assistant", rendered.assistant}};
  if (tokenizer != nullptr) answer["ids"] = tokenizer->encode(rendered.text, SpecialTokens::written);
  return answer;
}

TemplateData parse_file(const std::string& path) {
  return TemplateData::parse(MappedFile::open_or_read(path)->text_without_mark(), path);
}

/// What has been made of texts of requests, such as parsed templates.
template <class Made>
class Cache {
 public:
  std::shared_ptr<const Made> get(const std::string& text, const std::function<Made()>& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto known = made_.find(text);
      if (known != made_.end()) return known->second;
    }
    auto made = std::make_shared<const Made>(make());
    const std::lock_guard lock(mutex_);
    if (made_.size() >= kMax) made_.clear();
    made_[text] = made;
    return made;
  }

 private:
  static constexpr std::size_t kMax = 256;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Made>> made_;
};

/// What a template writes for answers, in conversations with and without tools.
answer::AnswerFormat format_of(const std::string& plain, const std::string& with_tools, const TemplateInput& input) {
  const ChatTemplate first(plain), second(with_tools);
  return answer::learn_format({&first, &second, with_tools, input.special_tokens, input.now});
}

/// The message that `text` is, as an answer to a conversation.
OrderedJson parsed_json(const answer::AnswerFormat& format, const ChatTemplate& chat_template, TemplateInput input,
                        std::string_view text, const OrderedJson& tools) {
  input.add_generation_prompt = true;
  const std::string prompt = chat_template.render(input).text;
  return {{"message", answer::message_json(answer::parse_answer(format, prompt, text, tools))}};
}

const jinja::Value* need(const TemplateData& request, std::string_view name, jinja::Kind kind, const char* expected) {
  const jinja::Value* const value = request.member(name);
  if (value == nullptr || value->is_none()) return nullptr;
  if (!value->is(kind)) throw BadInput(name, "expected {}, got {}", expected, jinja::type_name(*value));
  return value;
}

/// Reads the members of a request.
TemplateInput read_request(const TemplateData& request, const TemplateModel& model) {
  TemplateInput input;
  input.messages = request.member("messages");
  input.tools = request.member("tools");
  input.documents = request.member("documents");
  if (const auto* prompt = need(request, "add_generation_prompt", jinja::Kind::boolean, "true or false")) {
    input.add_generation_prompt = prompt->boolean;
  }
  input.special_tokens = model.templates.special_tokens;
  if (const auto* special = need(request, "special", jinja::Kind::dict, "an object of special tokens")) {
    input.special_tokens.clear();
    for (const auto& [name, token] : special->dict->entries) {
      if (token.is_none()) continue;
      if (!token.is_string()) throw BadInput("special", "expected text as {}", name.text());
      input.special_tokens.emplace_back(name.text(), token.text());
    }
  }
  if (const auto* variables = need(request, "vars", jinja::Kind::dict, "an object of variables")) {
    for (const auto& [name, value] : variables->dict->entries) input.variables.emplace_back(name.text(), &value);
  }
  return input;
}

std::vector<std::string> texts_of(const std::vector<std::pair<std::string, std::string>>& special_tokens) {
  std::vector<std::string> texts;
  for (const auto& [name, token] : special_tokens) texts.push_back(name + "=" + token);
  return texts;
}

std::string error_line(const TemplateError& e) { return json_line({{"error", e.message()}, {"kind", e.kind()}}); }

/// Answers one request per line of stdin with one JSON object per line.
void answer_requests(const TemplateOptions& o) {
  const TemplateModel model(o);
  const TemplateClock clock = o.clock();
  Cache<ChatTemplate> parsed;
  Cache<answer::AnswerFormat> formats;
  ThreadPool pool(o.thread_count());
  answer_lines(pool, [&](std::string_view line, std::int64_t number) {
    try {
      const std::string where = fmt::format("stdin, line {}", number);
      const TemplateData request = TemplateData::parse(line, where);
      if (!request.value().is(jinja::Kind::dict)) {
        throw BadInput(where, "expected a JSON object, got {}", jinja::type_name(request.value()));
      }
      TemplateInput input = read_request(request, model);
      input.now = clock;
      const auto* own = need(request, "template", jinja::Kind::string, "text");
      const bool has_tools = input.tools != nullptr && !input.tools->is_none();
      const std::string source(own != nullptr ? own->text() : model.templates.choose(has_tools, o.model));
      const auto chat_template = parsed.get(source, [&] { return ChatTemplate(source); });
      const auto* answer_text = need(request, "parse", jinja::Kind::string, "text");
      if (answer_text == nullptr) return json_line(answer_json(chat_template->render(input), model.tokenizer.get()));
      const auto special = fmt::format("{}", fmt::join(texts_of(input.special_tokens), "\n"));
      const auto format = formats.get(source + "\n" + special, [&] {
        const std::string& plain = own != nullptr ? source : model.templates.choose(false, o.model);
        return format_of(plain, source, input);
      });
      const OrderedJson tools = has_tools ? parse_ordered_json(line, where)["tools"] : OrderedJson();
      return json_line(parsed_json(*format, *chat_template, input, answer_text->text(), tools));
    } catch (const TemplateError& e) {
      return error_line(e);
    } catch (const BadInput& e) {
      return json_line({{"error", e.what()}, {"kind", "input"}});
    }
  });
}

/// `vitrine template --formats`: what the template writes for answers.
void print_formats(const TemplateOptions& o) {
  const TemplateModel model(o);
  TemplateInput input;
  input.special_tokens = model.templates.special_tokens;
  input.now = o.clock();
  const auto format = format_of(model.templates.choose(false, o.model), model.templates.choose(true, o.model), input);
  const OrderedJson json = answer::formats_json(format);
  print(o.json ? json.dump() + "\n" : json.dump(2) + "\n");
}

void run_template(const TemplateOptions& o) {
  if (o.lines) {
    if (!o.messages.empty()) throw UsageError("--messages", "give --messages or --lines, not both");
    return answer_requests(o);
  }
  if (o.model.empty()) throw MissingArgument("MODEL");
  if (o.formats) return print_formats(o);
  if (o.messages.empty()) throw MissingArgument("--messages");
  const TemplateModel model(o);
  TemplateInput input;
  input.add_generation_prompt = !o.no_prompt;
  input.special_tokens = model.templates.special_tokens;
  input.now = o.clock();
  const TemplateData messages = parse_file(o.messages);
  // A file may be a list of messages, or an object with "messages" and "tools", as in files of conversations.
  const bool is_object = messages.value().is(jinja::Kind::dict);
  input.messages = is_object ? messages.member("messages") : &messages.value();
  input.tools = messages.member("tools");
  if (input.messages != nullptr && input.messages->is(jinja::Kind::list) && input.messages->list->items.empty()) {
    throw BadInput(o.messages, "expected at least one message, got none");
  }
  std::vector<TemplateData> kept;  // values that `input` refers to
  kept.reserve(o.set.size() + 2);
  const auto keep = [&](TemplateData data) { return &kept.emplace_back(std::move(data)).value(); };
  if (!o.tools.empty()) input.tools = keep(parse_file(o.tools));
  if (!o.documents.empty()) input.documents = keep(parse_file(o.documents));
  for (const std::string& assignment : o.set) {
    const std::size_t sign = assignment.find('=');
    if (sign == assignment.npos || sign == 0) {
      throw UsageError("--set", fmt::format("expected NAME=JSON, got \"{}\"", assignment));
    }
    const std::string_view all = assignment;
    input.variables.emplace_back(all.substr(0, sign), keep(TemplateData::parse(all.substr(sign + 1), "--set")));
  }
  const bool has_tools = input.tools != nullptr && !input.tools->is_none();
  const ChatTemplate chat_template(model.templates.choose(has_tools, o.model));
  if (!o.parse.empty()) {
    const auto format = format_of(model.templates.choose(false, o.model), model.templates.choose(true, o.model), input);
    const std::string text(MappedFile::open_or_read(o.parse)->text());
    OrderedJson tools;
    if (!o.tools.empty()) {
      tools = parse_ordered_json(MappedFile::open_or_read(o.tools)->text_without_mark(), o.tools);
    } else if (is_object && has_tools) {
      tools = parse_ordered_json(MappedFile::open_or_read(o.messages)->text_without_mark(), o.messages)["tools"];
    }
    print(parsed_json(format, chat_template, input, text, tools).dump() + "\n");
    return;
  }
  const RenderedTemplate rendered = chat_template.render(input);
  if (o.json) return print_json(answer_json(rendered, model.tokenizer.get()));
  print(is_terminal(1) ? rendered.text + "\n" : rendered.text);
}

}  // namespace

void add_template(Command& program) {
  const auto [command, o] =
      new_command<TemplateOptions>(program, "template", "Render a conversation with a chat template");
  command.add_option("MODEL", o->model, "A Hugging Face folder, a GGUF file, or a template whose name ends in .jinja")
      ->type_name("");
  allow_hub(*o, o->model, HubWanted::tokenizer);
  add_file(command, "--messages", o->messages, "JSON file with the messages (-: stdin)");
  add_file(command, "--tools", o->tools, "JSON file with a list of tools");
  add_file(command, "--documents", o->documents, "JSON file with a list of documents");
  add_list(command, "--set", o->set, "A variable of the template, as NAME=JSON; may be given several times");
  command.add_flag("--no-prompt", o->no_prompt, "Do not end with what asks the model for an answer");
  add_now(command, o->now);
  command.add_flag("--formats", o->formats,
                   "Print how the template writes calls of tools and reasoning, found by rendering conversations");
  add_file(command, "--parse", o->parse,
           "File with what the model answered (-: stdin): print the message that it is, with its calls and reasoning");
  command.add_flag("--lines", o->lines,
                   "Read one request per line from stdin: a JSON object with messages and, if wanted, template, tools, "
                   "documents, vars, special, add_generation_prompt, parse; print one JSON object per line");
  finish_command(command, o, run_template,
                 "Example: echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | vitrine template model/ --messages -");
}

}  // namespace vitrine::cli
