// What the program's commands and options are, as the parser knows them: for the man page and shell completion.
#pragma once

#include <CLI/CLI.hpp>
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

/// A script for `shell` (bash, zsh or fish) that completes commands, options, their values and files.
std::string completion_script(const CommandPage& program, const std::string& shell);

/// The man page vitrine(1), in roff.
std::string man_page(const CommandPage& program, const std::string& version);

/// `completion SHELL` and `man`, which `--help` does not list: they serve installing.
void add_completion(CLI::App& program);
void add_man(CLI::App& program, const std::string& version);

}  // namespace vitrine::cli
