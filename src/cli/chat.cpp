// vitrine chat: a conversation with a model.
#include "cli/chat.h"

#include <unistd.h>

#include <filesystem>
#include <random>

#include "answer/describe.h"
#include "answer/parse.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/generate_options.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "tokenizer/read/chat_templates.h"
#include "tokenizer/utf8.h"

namespace vitrine::cli {

Chat::Chat(const ChatOptions& options)
    : options_(options),
      model_(open_model(options, options.model, true)),
      speculation_(options, options, model_, "lookup"),
      is_interactive_(is_terminal(STDIN_FILENO)) {
  options_.answers.beam = 1;  // answers are streamed
  options_.answers.seed = options_.seed;
  GenerateContext context = model_.context(options_);
  context.speculation = speculation_.get();
  store_.emplace(options_, "cache", model_, context);
  chat_.emplace(context, open_format(), model_.defaults().stop_ids);
  open_conversation();
}

ChatFormat Chat::open_format() const {
  const std::string path = options_.model.empty() ? default_model() : options_.model;
  ChatVariables variables;
  variables.now = options_.now.empty() ? TemplateClock::now() : TemplateClock::parse(options_.now);
  for (const std::string& assignment : options_.variables) {
    const std::size_t sign = assignment.find('=');
    if (sign == assignment.npos || sign == 0) {
      throw UsageError("--set", fmt::format("expected NAME=JSON, got \"{}\"", assignment));
    }
    variables.by_name.emplace_back(assignment.substr(0, sign),
                                   TemplateData::parse(std::string_view(assignment).substr(sign + 1), "--set"));
  }
  ChatTemplates templates = open_chat_templates(path, options_.template_path);
  if (templates.by_name.empty()) {
    throw BadInput(path, "the model has no chat template; give one with --template FILE");
  }
  return {std::move(templates), *model_.tokenizer, std::move(variables), path};
}

void Chat::open_conversation() {
  if (!options_.messages.empty()) {
    conversation_ =
        options_.messages == "-" ? ChatHistory::parse(read_text("-"), "stdin") : ChatHistory::open(options_.messages);
    if (conversation_.is_empty()) throw BadInput(options_.messages, "expected at least one message, got none");
  }
  if (!options_.session.empty()) {
    std::error_code error;
    if (std::filesystem::exists(options_.session, error))
      conversation_ = ChatHistory::open(options_.session);
    else
      save();  // fails now rather than after the first answer
  }
  if (!options_.tools.empty()) {
    const auto file = MappedFile::open_or_read(options_.tools);
    conversation_.set_tools(parse_ordered_json(file->text_without_mark(), options_.tools));
  }
  if (options_.system) conversation_.set_system(*options_.system);
}

void Chat::save() const {
  if (!options_.session.empty()) conversation_.save(options_.session);
}

void Chat::tell(const std::string& text) const { write_stderr(text + "\n"); }

ChatRendering Chat::rendering() const {
  ChatRendering how;
  if (!options_.answers.reasoning_effort) return how;
  const Json variables = effort_variables(chat_->format().answers(), *options_.answers.reasoning_effort);
  for (const auto& [name, value] : variables.items()) {
    how.variables.emplace_back(name, TemplateData::parse(value.dump(), name));
  }
  return how;
}

GenerateOptions Chat::options_of_answer() const {
  GenerateOptions options = options_.answers;
  options.seed = options.seed ? *options.seed + n_retries_ : std::random_device{}();
  options.stop_ids = chat_->stop_ids();
  return options;
}

/// Tools may be called, if it is known how the template writes calls; else these are content.
std::shared_ptr<const ChatAnswers> Chat::answers_to(const ChatPrompt& prompt, const GenerateOptions& options) const {
  AnswerWishes wishes;
  if (conversation_.tools().is_array() && chat_->format().answers().calls) {
    wishes.has_tools = true;
    wishes.rules.calls = answer::AnswerRules::Calls::may;
    wishes.rules.tools = conversation_.tools();
  }
  return chat_answers(chat_->format(), model_.defaults(), wishes, options, prompt.text);
}

GenerateRequest Chat::request_for(const ChatPrompt& prompt, const GenerateOptions& options) const {
  RequestDefaults model = model_.defaults();
  model.max_tokens = chat_->max_seq_len();  // up to the end of the context, unless the caller or the model sets it
  return make_request(model, prompt.ids, options);
}

namespace {

/// Prints an answer while it is written: on a terminal its reasoning is dim, elsewhere it is left out.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(const ChatAnswers* answers) : on_terminal_(is_terminal(STDOUT_FILENO)) {
    if (answers != nullptr) reader_.emplace(answers->reader());
  }
  ~AnswerPrinter() {
    if (is_dim_) print(kPlain);
  }
  AnswerPrinter(const AnswerPrinter&) = delete;
  AnswerPrinter& operator=(const AnswerPrinter&) = delete;

  void append(const std::string& text) { reader_ ? show(reader_->append(text)) : print(text); }
  void finish() {
    if (reader_) show(reader_->finish());
  }

 private:
  static constexpr const char* kDim = "\x1b[2m";
  static constexpr const char* kPlain = "\x1b[0m";

  void show(const answer::AnswerDelta& delta) {
    if (on_terminal_ && !delta.reasoning.empty()) {
      print(std::exchange(is_dim_, true) ? delta.reasoning : kDim + delta.reasoning);
    }
    if (!delta.content.empty()) print_plain(delta.content);
    for (const auto& call : delta.calls) {
      print_plain((call.begins ? (std::exchange(has_text_, true) ? "\n" : "") + call.name + " " : "") + call.arguments);
    }
  }
  void print_plain(const std::string& text) {
    if (std::exchange(is_dim_, false)) print(std::string(kPlain) + "\n");
    has_text_ = true;
    print(text);
  }

  bool on_terminal_;
  bool is_dim_ = false, has_text_ = false;
  std::optional<answer::AnswerReader> reader_;
};

OrderedJson message_of(const ChatAnswers* answers, const std::string& text, std::uint64_t seed) {
  OrderedJson message = {{"role", "assistant"}, {"content", text}};
  if (answers == nullptr) return message;
  const answer::ParsedAnswer parsed = answer::parse_answer(answers->format, answers->prompt, text, answers->tools);
  message = answer::message_json(parsed);
  for (std::size_t i = 0; i < parsed.calls.size(); ++i) {
    if (parsed.calls[i].id.empty()) message["tool_calls"][i]["id"] = answers->call_id(seed, 0, i);
  }
  return message;
}

}  // namespace

/// Answers the conversation, adds the answer to it and saves it. Without an answer, because Ctrl-C came before its
/// first token or because of an error, the conversation becomes `otherwise`.
void Chat::answer(ChatHistory otherwise) {
  try {
    if (try_answer()) return;
  } catch (...) {
    conversation_ = std::move(otherwise);
    throw;
  }
  conversation_ = std::move(otherwise);
}

bool Chat::try_answer() {
  const ChatPrompt prompt = chat_->prompt(conversation_, options_.overflow == "drop-oldest", rendering());
  if (prompt.dropped_messages > 0) {
    note(fmt::format("the conversation exceeds the model's context of {} tokens: the oldest {} messages are left out",
                     chat_->max_seq_len(), prompt.dropped_messages));
  }
  const GenerateOptions options = options_of_answer();
  const std::shared_ptr<const ChatAnswers> answers = answers_to(prompt, options);
  GenerateRequest request = request_for(prompt, options);
  if (answers != nullptr) answers->apply_to(request, options, model_.defaults());
  const CleanStop guard;
  const ChatAnswer answer = [&] {
    AnswerPrinter printer(answers.get());
    ChatAnswer own = chat_->answer(request, [&](const std::string& text) {
      if (!options_.json) printer.append(text);
    });
    if (!options_.json) printer.finish();
    return own;
  }();
  const OrderedJson message = message_of(answers.get(), answer.text, request.seed);
  print_answer(answer, prompt, message, request.seed);
  was_interrupted_ = answer.end == ChatEnd::interrupted;
  if (was_interrupted_ && (!forget_interrupt() || !options_.messages.empty())) throw Interrupted();
  if (was_interrupted_ && answer.ids.empty()) return false;
  conversation_.add(message);
  save();
  return true;
}

void Chat::print_answer(const ChatAnswer& answer, const ChatPrompt& prompt, const OrderedJson& message,
                        std::uint64_t seed) const {
  if (!options_.json) {
    if (options_.messages.empty() || is_terminal(STDOUT_FILENO)) print("\n");
    return;
  }
  print_json({{"message", Json(message)},
              {"ids", answer.ids},
              {"prompt_ids", prompt.ids},
              {"reused_tokens", answer.reused_tokens},
              {"dropped_messages", prompt.dropped_messages},
              {"finish_reason", name_of(answer.end)},
              {"seed", seed},
              {"timings",
               {{"prefill_tokens_per_s", answer.timings.prefill_tokens_per_s},
                {"decode_tokens_per_s", answer.timings.decode_tokens_per_s}}}});
}

void Chat::answer_file() { answer(conversation_); }

void Chat::say(const std::string& text) {
  if (text.find_first_not_of(" \t") == text.npos) {
    throw BadInput("stdin", "expected a message, got an empty line");
  }
  if (!is_valid_utf8(text)) throw BadInput("stdin", "expected a message in UTF-8");
  ChatHistory before = conversation_;
  conversation_.add("user", text);
  n_retries_ = 0;
  answer(std::move(before));
}

/// A line is a message, or a command if it begins with a slash; two slashes begin a message with one.
void Chat::take(const std::string& line) {
  if (line.starts_with('/') && !line.starts_with("//")) return run_command(line);
  say(line.starts_with('/') ? line.substr(1) : line);
}

std::string Chat::context_in_words() const {
  const std::int64_t n = chat_->max_seq_len();
  return n == kNoContextLimit ? "a context without limit" : fmt::format("context of {} tokens", n);
}

bool Chat::converse() {
  if (is_interactive_) {
    tell(fmt::format("{}, {}. /help lists the commands, Ctrl-D ends the conversation.",
                     options_.model.empty() ? "default model" : options_.model, context_in_words()));
  }
  const std::unique_ptr<LineReader> lines = open_line_reader("> ");
  bool has_failed = false, has_read = false;
  std::string line;
  while (!is_over_) {
    const LineKind kind = lines->next(line);
    if (kind == LineKind::end) break;
    has_read = true;
    if (kind == LineKind::interrupted || (is_interactive_ && line.empty())) continue;
    try {
      take(line);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& e) {
      note(fmt::format("error: {}", e.what()));
      has_failed = true;
    }
  }
  if (!has_read && !is_interactive_) throw BadInput("stdin", "expected a message, got no line");
  if (was_interrupted_ && !is_interactive_) throw Interrupted();
  return is_interactive_ || !has_failed;
}

namespace {

void run_chat(const ChatOptions& o) {
  if (!o.messages.empty() && !o.session.empty()) {
    throw UsageError("--messages", "give --messages or --session, not both");
  }
  Chat chat(o);
  if (!o.messages.empty()) return chat.answer_file();
  if (!chat.converse()) throw Reported();
}

}  // namespace

void add_chat(Command& program) {
  const auto [command, o] = new_command<ChatOptions>(
      program, "chat", "Talk to a model in the format of its chat template, answers being streamed");
  add_model(command, *o, o->model);
  add_optional(command, "--system", o->system, "The system prompt");
  add_file(command, "--tools", o->tools, "JSON file with a list of tools, for templates that show them");
  add_file(command, "--messages", o->messages, "Answer the messages of this JSON file (-: stdin) and exit");
  add_file(command, "--session", o->session, "Continue the conversation of this JSON file; save every turn in it");
  add_file(command, "--template", o->template_path, "File with a chat template (default: the model's)");
  allow_hub(*o, o->template_path, HubWanted::chat_template);
  add_list(command, "--set", o->variables, "A variable of the template, as NAME=JSON; may be given several times");
  add_now(command, o->now);
  add_choice(command, "--overflow", o->overflow, {"error", "drop-oldest"},
             "If the conversation exceeds the context: report an error, or leave out the oldest exchanges");
  add_state_every(command, *o);
  add_generate_options(command, kInChat, o->answers);
  add_speculation(command, *o, *o, "lookup");
  add_store(command, *o, "cache");
  add_modifiers(command, *o);
  add_dictionaries(command, *o);
  finish_command(command, o, run_chat,
                 "On a terminal, Ctrl-C ends an answer, and Ctrl-D the conversation. Lines that begin with / are "
                 "commands; /help lists them. From a pipe, each line is a turn.\n"
                 "Example: echo \"Who are you?\" | vitrine chat model/ --system \"Answer briefly.\" --json");
}

}  // namespace vitrine::cli
