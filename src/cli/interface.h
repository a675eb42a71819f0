// The program's commands and options, read from the parser, and the man page, completion and docs generated from them.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace vitrine::cli {

struct OptionPage {
  std::string name;                  ///< `--top-k`, or the name of a positional, `TEXT`.
  std::string about;                 ///< One line.
  std::vector<std::string> choices;  ///< The allowed values; empty: any.
  bool positional = false;
  bool takes_value = false;
  bool is_number = false;
  bool required = false;
};

struct CommandPage {
  std::string name;  ///< The full name, such as `tokenizer train`; "" for the program itself.
  std::string about;
  std::string footer;  ///< Hints and examples.
  std::vector<OptionPage> options;
  std::vector<CommandPage> commands;
  bool runs = true;  ///< Without one of its subcommands, too.

  /// For example, `vitrine tokenize [MODEL] [TEXT]`; optional positionals are in brackets.
  std::string synopsis() const;
};

/// What `vitrine --help` and the help of its commands show, without hidden commands.
CommandPage describe(const Command& program);

/// The program itself and every command, each before its subcommands.
std::vector<const CommandPage*> all_commands(const CommandPage& program);
/// The commands that run by themselves. The options that they all share are moved to `common`.
std::vector<CommandPage> running_commands(const CommandPage& program, CommandPage& common);

/// Hidden commands that installation and the generation of docs/ use.
/// `completion SHELL`: a script for bash, zsh or fish that completes commands, options, their values and files.
void add_completion(Command& program);
/// `man`: the man page vitrine(1), in roff.
void add_man(Command& program, const std::string& version);
/// `page NAME`: docs/commands.md, every command with its options, and the examples of the footers as commands to run;
/// docs/sites.md, every site with its shape and meaning; python/vitrine/_options.py, the types of generate().
void add_page(Command& program);

}  // namespace vitrine::cli
