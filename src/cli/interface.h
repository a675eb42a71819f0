// What the program's commands and options are, as the parser knows them: for the man page and shell completion.
#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

namespace vitrine::cli {

struct OptionPage {
  std::string name;                  ///< `--top-k`; a positional's own name, `TEXT`.
  std::string about;                 ///< One line.
  std::vector<std::string> choices;  ///< The only values; none: any.
  bool positional = false;
  bool takes_value = false;
  bool is_number = false;
  bool required = false;
};

struct CommandPage {
  std::string name;  ///< With the commands above it: `tokenizer train`; "" for the program itself.
  std::string about;
  std::string footer;  ///< Lines of hints and examples.
  std::vector<OptionPage> options;
  std::vector<CommandPage> commands;
};

/// Everything that `vitrine --help` and the help of its commands tell; hidden commands are left out.
CommandPage describe(const CLI::App& program);

/// The commands that run something: those without commands of their own.
std::vector<const CommandPage*> running_commands(const CommandPage& program);

/// An option's name and text together: options are the same where these are.
std::string key_of(const OptionPage& option);
/// Keys of the options that every one of `commands` has, word for word.
std::set<std::string> common_options(const std::vector<const CommandPage*>& commands);

/// A script for `shell` (bash, zsh or fish) that completes commands, options, their values and files.
std::string completion_script(const CommandPage& program, const std::string& shell);

/// The man page vitrine(1), in roff.
std::string man_page(const CommandPage& program, const std::string& version);

/// docs/commands.md: every command with its options; the examples of the footers stand in it as commands to run.
std::string commands_page(const CommandPage& program);
/// docs/sites.md: every site with its shape and meaning.
std::string sites_page();

/// `completion SHELL`, `man` and `page NAME`, which `--help` does not list: they serve installing and the documents.
void add_completion(CLI::App& program);
void add_man(CLI::App& program, const std::string& version);
void add_page(CLI::App& program);

}  // namespace vitrine::cli
