// The command line as the commands see it. A facade of CLI11, whose templates only command.cpp compiles.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace vitrine::cli {

/// The command line is wrong.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& message) : std::runtime_error(message) {}
  UsageError(const std::string& option, const std::string& message) : UsageError(option + ": " + message) {}
};
/// What the command needs was not given.
class MissingArgument : public UsageError {
 public:
  explicit MissingArgument(const std::string& name) : UsageError(name + " is required") {}
};

/// An option or, if its name does not begin with --, a positional argument.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}

  Option* required();
  Option* needs(Option* other);
  /// How help and documentation name the value; "": not at all.
  Option* type_name(const std::string& name);
  /// The allowed values, in upper or lower case, which help and documentation list if `shown`.
  Option* choices(const std::vector<std::string>& values, bool shown = true);
  /// `error_of` returns what is wrong with a value, or "".
  Option* check(std::function<std::string(const std::string&)> error_of, const std::string& type);
  /// Shows the present value of the place as the default.
  Option* capture_default_str();
  /// The option may be given several times, and each value is taken by itself.
  Option* trigger_on_parse();

 private:
  CLI::Option& option_;
};

class Command {
 public:
  /// The program itself, with --help and --version.
  Command(const std::string& about, const std::string& name, std::function<std::string()> version);
  explicit Command(CLI::App& app);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  Command* add_subcommand(const std::string& name, const std::string& about);
  /// Commands without subcommands are run; of these one must be given.
  void require_subcommand();
  /// Help and documentation do not show the command.
  void hide();
  /// Hints and examples for help and documentation.
  void footer(const std::string& text);
  /// What the command does, unless one of its subcommands is given.
  void callback(std::function<void()> run);

  /// Options whose values go into `place`, which outlives the command.
  Option* add_flag(const std::string& name, bool& place, const std::string& about);
  Option* add_option(const std::string& name, std::string& place, const std::string& about);
  Option* add_option(const std::string& name, std::optional<std::string>& place, const std::string& about);
  Option* add_option(const std::string& name, std::vector<std::string>& place, const std::string& about);
  Option* add_option_function(const std::string& name, std::function<void(const std::string&)> take,
                              const std::string& about);

  std::string get_name() const;
  /// The names of the options that were given, in the order of the arguments.
  std::vector<std::string> given() const;
  const CLI::App& parser() const { return app_; }

  /// Runs the command that the arguments name. Returns the text that --help or --version asks for, or "". Throws
  /// UsageError, and what the command throws.
  std::string parse(int argc, char** argv);

 private:
  Option* kept(CLI::Option* option);

  std::unique_ptr<CLI::App> program_;  // of the program itself
  CLI::App& app_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::deque<Option> options_;
};

}  // namespace vitrine::cli
