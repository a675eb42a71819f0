#include "cli/interface.h"

#include <algorithm>

namespace vitrine::cli {
namespace {

void collect(const CommandPage& page, std::vector<const CommandPage*>& commands) {
  commands.push_back(&page);
  for (const CommandPage& command : page.commands) collect(command, commands);
}

bool has(const CommandPage& command, const OptionPage& option) {
  return std::any_of(command.options.begin(), command.options.end(),
                     [&](const OptionPage& o) { return o.name == option.name && o.about == option.about; });
}

}  // namespace

std::string CommandPage::synopsis() const {
  std::string text = "vitrine " + name;
  for (const OptionPage& option : options) {
    if (option.positional) text += option.required ? " " + option.name : " [" + option.name + "]";
  }
  return text;
}

std::vector<const CommandPage*> all_commands(const CommandPage& program) {
  std::vector<const CommandPage*> commands;
  collect(program, commands);
  return commands;
}

std::vector<CommandPage> running_commands(const CommandPage& program, CommandPage& common) {
  std::vector<CommandPage> commands;
  for (const CommandPage* command : all_commands(program)) {
    if (command->runs && !command->name.empty()) commands.push_back(*command);
  }
  common.options = commands.at(0).options;
  for (const CommandPage& command : commands) {
    std::erase_if(common.options, [&](const OptionPage& option) { return !has(command, option); });
  }
  for (CommandPage& command : commands) {
    std::erase_if(command.options, [&](const OptionPage& option) { return has(common, option); });
  }
  return commands;
}

}  // namespace vitrine::cli
