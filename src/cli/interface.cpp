#include "cli/interface.h"

#include <algorithm>

namespace vitrine::cli {
namespace {

/// CLI11 lists the allowed values only in the name of an option's type: `TEXT:{auto,f32,int8}`.
std::vector<std::string> choices_of(const std::string& type) {
  std::vector<std::string> choices;
  const std::size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return choices;
  for (std::size_t at = open + 1; at < close;) {
    const std::size_t comma = std::min(type.find(',', at), close);
    choices.push_back(type.substr(at, comma - at));
    at = comma + 1;
  }
  return choices;
}

OptionPage describe(const CLI::Option& option) {
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

CommandPage describe(const CLI::App& app, const std::string& name) {
  CommandPage page;
  page.name = name;
  page.about = app.get_description();
  page.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options({})) {
    const bool hidden = option->get_group().empty();
    if (!hidden && (option->get_positional() || !option->get_lnames().empty()))
      page.options.push_back(describe(*option));
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    page.commands.push_back(describe(*command, name.empty() ? command->get_name() : name + " " + command->get_name()));
  }
  return page;
}

void collect_running(const CommandPage& page, std::vector<const CommandPage*>& commands) {
  if (page.commands.empty()) commands.push_back(&page);
  for (const CommandPage& command : page.commands) collect_running(command, commands);
}

}  // namespace

CommandPage describe(const CLI::App& program) { return describe(program, ""); }

std::vector<const CommandPage*> running_commands(const CommandPage& program) {
  std::vector<const CommandPage*> commands;
  collect_running(program, commands);
  return commands;
}

std::string key_of(const OptionPage& option) { return option.name + "\n" + option.about; }

std::set<std::string> common_options(const std::vector<const CommandPage*>& commands) {
  std::set<std::string> common;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    std::set<std::string> own;
    for (const OptionPage& option : commands[i]->options) own.insert(key_of(option));
    if (i == 0) common = own;
    std::erase_if(common, [&](const std::string& key) { return !own.contains(key); });
  }
  return common;
}

}  // namespace vitrine::cli
