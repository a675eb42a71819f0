#include "cli/interface.h"

#include <algorithm>

#include "base/text.h"

namespace vitrine::cli {
namespace {

/// CLI11 lists the allowed values only in the name of an option's type: `TEXT:{auto,f32,int8}`.
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  const auto choices = split(std::string_view(type).substr(open + 1, close - open - 1), ',');
  return {choices.begin(), choices.end()};
}

OptionPage page_of(const CLI::Option& option) {
  OptionPage page;
  page.positional = option.get_positional();
  page.name = page.positional ? option.get_name(true) : "--" + option.get_lnames().at(0);
  page.about = option.get_description();
  page.choices = choices_of(option.get_type_name());
  page.takes_value = option.get_items_expected_max() > 0;
  page.is_number = option.get_type_name() == "N";
  page.required = option.get_required();
  return page;
}

CommandPage page_of(const CLI::App& app, const std::string& name) {
  CommandPage page;
  page.name = name;
  page.about = app.get_description();
  page.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options({})) {
    const bool hidden = option->get_group().empty();
    if (!hidden && (option->get_positional() || !option->get_lnames().empty()))
      page.options.push_back(page_of(*option));
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    page.commands.push_back(page_of(*command, name.empty() ? command->get_name() : name + " " + command->get_name()));
  }
  return page;
}

void collect(const CommandPage& page, std::vector<const CommandPage*>& commands) {
  commands.push_back(&page);
  for (const CommandPage& command : page.commands) collect(command, commands);
}

bool has(const CommandPage& command, const OptionPage& option) {
  return std::any_of(command.options.begin(), command.options.end(),
                     [&](const OptionPage& o) { return o.name == option.name && o.about == option.about; });
}

}  // namespace

CommandPage describe(const CLI::App& program) { return page_of(program, ""); }

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
    if (command->commands.empty()) commands.push_back(*command);
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
