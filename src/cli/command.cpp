#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "base/nearest.h"
#include "base/text.h"
#include "cli/interface.h"

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
  page.runs = app.get_require_subcommand_min() == 0;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    page.commands.push_back(page_of(*command, name.empty() ? command->get_name() : name + " " + command->get_name()));
  }
  return page;
}

/// Rejects ++, which CLI11 takes as the end of a command wherever it appears.
void refuse_plus_plus(int argc, char** argv) {
  for (int i = 1; i < argc && argv[i] != std::string_view("--"); ++i) {
    if (argv[i] == std::string_view("++")) throw UsageError("++", "put -- before it to pass it as TEXT");
  }
}

/// Without this check, an unknown command would be reported last or, if --help follows it, not at all.
void check_command(const CLI::App& program, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (!program.get_subcommands(is_named).empty()) return;
  std::vector<std::string> names;
  for (const CommandPage& command : page_of(program, "").commands) names.push_back(command.name);
  throw UsageError(std::string("expected a command, got ") + argv[1] + did_you_mean(argv[1], names));
}

/// The message about arguments that no option or positional has taken.
std::string about_extras(const CLI::App& program) {
  const std::vector<std::string> extras = program.remaining(true);
  const std::string text = fmt::format("unexpected: {}", fmt::join(extras, " "));
  std::vector<std::string> options;
  for (const CLI::App* command : program.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) options.push_back(option->get_name());
  }
  const std::string first = extras.front().substr(0, extras.front().find('='));
  const std::string hint = first.starts_with("--") ? did_you_mean(first, options) : "";
  if (!hint.empty()) return text + hint;
  return text + "; quote a TEXT of several words, and put -- before one that begins with -";
}

}  // namespace

CommandPage describe(const Command& program) { return page_of(program.parser(), ""); }

Option* Option::required() { return option_.required(), this; }
Option* Option::needs(Option* other) { return option_.needs(&other->option_), this; }
Option* Option::type_name(const std::string& name) { return option_.type_name(name), this; }
Option* Option::choices(const std::vector<std::string>& values, bool shown) {
  CLI::Validator check = CLI::IsMember(values, CLI::ignore_case);
  if (!shown) check.description("");
  return option_.transform(std::move(check)), this;
}
Option* Option::check(std::function<std::string(const std::string&)> error_of, const std::string& type) {
  const auto check = [error_of = std::move(error_of)](const std::string& value) { return error_of(value); };
  return option_.check(CLI::Validator(check, type)), this;
}
Option* Option::capture_default_str() { return option_.capture_default_str(), this; }
Option* Option::trigger_on_parse() { return option_.trigger_on_parse(), this; }

Command::Command(const std::string& about, const std::string& name, std::function<std::string()> version)
    : program_(std::make_unique<CLI::App>(about, name)), app_(*program_) {
  app_.set_help_flag("--help", "Print this help and exit");  // no -h: the text "-hello" would print help
  app_.set_version_flag("--version", std::move(version));
  app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // of one given twice
}
Command::Command(CLI::App& app) : app_(app) {}
Command::~Command() = default;

Command* Command::add_subcommand(const std::string& name, const std::string& about) {
  CLI::App& command = *app_.add_subcommand(name, about);
  if (!program_) {
    command.preparse_callback([this, name](std::size_t) {
      if (app_.parse_order().empty()) return;
      throw UsageError(app_.parse_order().front()->get_name(), "it comes after the command " + name);
    });
  }
  return commands_.emplace_back(std::make_unique<Command>(command)).get();
}
void Command::require_subcommand() { app_.require_subcommand(1); }
void Command::hide() { app_.group(""); }
void Command::footer(const std::string& text) { app_.footer(text); }
void Command::callback(std::function<void()> run) {
  app_.callback([this, run = std::move(run)] {
    if (app_.get_subcommands().empty()) run();  // else one of them has run
  });
}

Option* Command::kept(CLI::Option* option) { return &options_.emplace_back(*option); }
Option* Command::add_flag(const std::string& name, bool& place, const std::string& about) {
  return kept(app_.add_flag(name, place, about));
}
Option* Command::add_option(const std::string& name, std::string& place, const std::string& about) {
  return kept(app_.add_option(name, place, about));
}
Option* Command::add_option(const std::string& name, std::optional<std::string>& place, const std::string& about) {
  return kept(app_.add_option(name, place, about));
}
Option* Command::add_option(const std::string& name, std::vector<std::string>& place, const std::string& about) {
  return kept(app_.add_option(name, place, about));
}
Option* Command::add_option_function(const std::string& name, std::function<void(const std::string&)> take,
                                     const std::string& about) {
  return kept(app_.add_option_function(name, take, about));
}

std::string Command::get_name() const { return app_.get_name(); }
std::vector<std::string> Command::given() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_.parse_order()) names.push_back(option->get_name());
  return names;
}

std::string Command::parse(int argc, char** argv) {
  refuse_plus_plus(argc, argv);
  check_command(app_, argc, argv);
  try {
    app_.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app_.help("", CLI::AppFormatMode::Normal);
  } catch (const CLI::CallForVersion& e) {
    return std::string(e.what()) + "\n";
  } catch (const CLI::ExtrasError&) {
    throw UsageError(about_extras(app_));
  } catch (const CLI::ParseError& e) {
    throw UsageError(e.what());
  }
  if (app_.get_subcommands().empty()) throw MissingArgument("A command");
  return "";
}

}  // namespace vitrine::cli
