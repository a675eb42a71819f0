// The program's commands and options, read from the parser, and the man page, completion and documents made from them.
#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

namespace vitrine::cli {

struct OptionPage {
  std::string name;                  ///< `--top-k`; a positional's own name, `TEXT`.
  std::string about;                 ///< One line.
  std::vector<std::string> choices;  ///< The allowed values; empty: any.
  bool positional = false;
  bool takes_value = false;
  bool is_number = false;
  bool required = false;
};

struct CommandPage {
  std::string name;  ///< The full name, as `tokenizer train`; "" for the program itself.
  std::string about;
  std::string footer;  ///< Hints and examples.
  std::vector<OptionPage> options;
  std::vector<CommandPage> commands;
};

/// What `vitrine --help` and the help of its commands show, without hidden commands.
CommandPage describe(const CLI::App& program);

/// The commands without subcommands.
std::vector<const CommandPage*> running_commands(const CommandPage& program);

/// Identifies an option by its name and description.
std::string key_of(const OptionPage& option);
/// Keys of the options that all `commands` share.
std::set<std::string> common_options(const std::vector<const CommandPage*>& commands);

/// A script for `shell` (bash, zsh or fish) that completes commands, options, their values and files.
std::string completion_script(const CommandPage& program, const std::string& shell);

/// The man page vitrine(1), in roff.
std::string man_page(const CommandPage& program, const std::string& version);

/// docs/commands.md: every command with its options, and the examples of the footers as commands to run.
std::string commands_page(const CommandPage& program);
/// docs/sites.md: every site with its shape and meaning.
std::string sites_page();

/// `completion SHELL`, `man` and `page NAME`: hidden commands for installing and for making the documents.
void add_completion(CLI::App& program);
void add_man(CLI::App& program, const std::string& version);
void add_page(CLI::App& program);

}  // namespace vitrine::cli
