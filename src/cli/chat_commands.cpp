// The commands of a conversation: lines that begin with a slash.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/chat.h"
#include "cli/generate_options.h"
#include "cli/output.h"

namespace vitrine::cli {

struct Chat::Command {
  std::string name, arguments, about;
  void (Chat::*run)(const std::string& rest);
};

const std::vector<Chat::Command>& Chat::commands() {
  static const std::vector<Command> all = {
      {"/system", "[TEXT|-]", "show the system prompt, set it, or remove it", &Chat::set_system},
      {"/undo", "", "take back the last message and its answer", &Chat::undo},
      {"/retry", "", "answer the last message again, with another seed", &Chat::retry},
      {"/save", "FILE", "write the conversation to a JSON file", &Chat::save_as},
      {"/load", "FILE", "continue the conversation of a JSON file", &Chat::load},
      {"/adapter", "[PATH[=SCALE]|-]", "show the adapters, add one, or remove all", &Chat::change_adapters},
      {"/set", "[NAME VALUE]", "show or change an option of the answers, such as temperature", &Chat::set},
      {"/context", "", "show how much of the model's context is in use", &Chat::show_context},
      {"/help", "", "show these commands", &Chat::help},
      {"/exit", "", "end the conversation, as Ctrl-D does", &Chat::exit},
  };
  return all;
}

void Chat::run_command(const std::string& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string name = line.substr(0, end);
  const std::size_t begin = std::min(line.find_first_not_of(' ', end), line.size());
  const std::string rest = line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
  for (const Command& command : commands()) {
    if (command.name != name) continue;
    if (command.arguments.empty() && !rest.empty()) throw BadInput(name, "expected nothing after it, got {}", rest);
    const bool needs_argument = !command.arguments.empty() && command.arguments[0] != '[';
    if (needs_argument && rest.empty()) throw BadInput(name, "expected {} {}", name, command.arguments);
    return (this->*command.run)(rest);
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  throw BadInput(name, "expected a command, or // for a message that begins with /{}", did_you_mean(name, names));
}

void Chat::help(const std::string&) {
  for (const Command& command : commands()) {
    tell(fmt::format("{:<27}{}", command.name + " " + command.arguments, command.about));
  }
}

void Chat::exit(const std::string&) { is_over_ = true; }

void Chat::set_system(const std::string& rest) {
  if (rest.empty()) {
    const std::string text = conversation_.system();
    return tell(text.empty() ? "There is no system prompt." : text);
  }
  conversation_.set_system(rest == "-" ? "" : rest);
  save();
}

void Chat::undo(const std::string&) {
  const std::int64_t n = conversation_.undo();
  if (n == 0) throw BadInput("/undo", "the conversation has no message to take back");
  save();
  tell(fmt::format("Took back {} messages.", n));
}

void Chat::retry(const std::string&) {
  ChatHistory before = conversation_;
  if (!conversation_.take_back_answer()) throw BadInput("/retry", "the conversation has no message to answer");
  ++n_retries_;
  answer(std::move(before));
}

void Chat::save_as(const std::string& rest) {
  conversation_.save(rest);
  tell(fmt::format("Saved {} messages.", conversation_.messages().size()));
}

void Chat::load(const std::string& rest) {
  conversation_ = ChatHistory::open(rest);
  save();
  tell(fmt::format("Loaded {} messages.", conversation_.messages().size()));
}

/// `-` removes all modifiers of a kind (`of_options` and `applied`), nothing shows them, and anything else adds one.
template <class Applied, class Use>
void Chat::change_modifiers(const std::string& rest, std::vector<std::string>& of_options, Applied& applied, Use use,
                            const char* what) {
  if (rest.empty()) {
    if (of_options.empty()) tell(fmt::format("There is no {}.", what));
    for (const std::string& text : of_options) tell(text);
    return;
  }
  if (rest == "-") {
    applied.clear();
    of_options.clear();
  } else {
    use(model_, rest);
    of_options.push_back(rest);
  }
  chat_->set_modifiers(model_.applied);
}

void Chat::change_adapters(const std::string& rest) {
  change_modifiers(rest, options_.adapters, model_.applied.adapters, use_adapter, "adapter");
}

void Chat::change_controls(const std::string& rest) {
  change_modifiers(rest, options_.controls, model_.applied.controls, use_control, "control vector");
}

namespace {

constexpr std::string_view kControl = "control";

/// The options that /set changes, those of the sampler first.
std::vector<const OptionRow*> options_to_set() {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_rows()) {
    if (row.is_in(kInSet)) rows.push_back(&row);
  }
  std::stable_partition(rows.begin(), rows.end(), [](const OptionRow* row) { return row->is_of_sampler(); });
  return rows;
}

}  // namespace

void Chat::set(const std::string& rest) {
  const GenerateOptions& now = options_.answers;
  if (rest.empty()) {
    return tell(fmt::format("{}, max-tokens {}, seed {}", sampling_text(choose_sampling(now, model_.defaults()).config),
                            now.max_tokens ? fmt::format("{}", *now.max_tokens) : "of the model",
                            now.seed ? fmt::format("{}", *now.seed) : "drawn"));
  }
  const std::size_t space = std::min(rest.find(' '), rest.size());
  const std::string name = rest.substr(0, space);
  const std::string value = space < rest.size() ? rest.substr(rest.find_first_not_of(' ', space)) : "";
  if (name == kControl) return change_controls(value);
  std::vector<std::string> names = {std::string(kControl)};
  for (const OptionRow* const row : options_to_set()) {
    names.push_back(row->flag().substr(2));
    if (name != names.back()) continue;
    GenerateOptions changed = now;
    if (!set_from_text(*row, value, changed)) {
      throw BadInput("/set", "expected {} for {}, got \"{}\"", expected_text(*row), name, value);
    }
    if (name == "temperature") changed.greedy = false;
    if (name == "seed") n_retries_ = 0;
    choose_sampling(changed, model_.defaults()).config.validate();
    options_.answers = changed;
    return;
  }
  throw BadInput("/set", "expected {}, got {}{}", fmt::join(names, ", "), name, did_you_mean(name, names));
}

void Chat::show_context(const std::string&) {
  const std::size_t n =
      conversation_.is_empty() ? 0 : chat_->format().encode(conversation_, {.asks_for_answer = false}).size();
  tell(fmt::format("{} messages, {} tokens, {} of them cached; {}", conversation_.messages().size(), n,
                   chat_->n_cached(), context_in_words()));
}

}  // namespace vitrine::cli
