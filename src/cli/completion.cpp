// vitrine completion: print scripts that complete commands, options, their values and files, generated from the parser.
// Sources: Bash Reference Manual, "Programmable Completion"; zshcompsys(1); fish, complete(1).
#include <fmt/format.h>

#include <sstream>

#include "cli/interface.h"
#include "cli/output.h"

namespace vitrine::cli {
namespace {

using Commands = std::vector<const CommandPage*>;

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

/// Puts a backslash before each character of `special`.
std::string backslashed(const std::string& text, std::string_view special) {
  std::string result;
  for (const char c : text) result += (special.find(c) != special.npos ? "\\" : "") + std::string(1, c);
  return result;
}

std::string alternatives(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : "|") + shell_quoted(word);
  return result;
}

/// A loop that assembles the command, such as `tokenizer train`, from the words before the cursor.
std::string command_loop(const Commands& commands, std::string_view loop, std::string_view word) {
  std::vector<std::string> steps;
  for (const CommandPage* command : commands) {
    const std::size_t space = command->name.rfind(' ');
    if (!command->name.empty()) steps.push_back(space == std::string::npos ? " " + command->name : command->name);
  }
  return fmt::format(
      "  for (({})); do\n    case \"$command {}\" in\n      {}) command=\"${{command:+$command }}{}\" ;;\n"
      "    esac\n  done\n",
      loop, word, alternatives(steps), word);
}

std::string bash_script(const Commands& commands) {
  std::string values, words;
  std::vector<std::string> numbers, files;
  for (const CommandPage* command : commands) {
    std::string names, below;
    for (const OptionPage& option : command->options) {
      if (option.positional) continue;
      names += option.name + " ";
      const std::string place = command->name + " " + option.name;
      if (!option.choices.empty()) {
        values += fmt::format("    {}) _vitrine_offer '{}'; return ;;\n", shell_quoted(place),
                              fmt::join(option.choices, " "));
      } else if (option.takes_value) {
        (option.is_number ? numbers : files).push_back(place);
      }
    }
    for (const CommandPage& c : command->commands) below += last_word(c.name) + " ";
    words += fmt::format("    {}) options={}; commands={} ;;\n", shell_quoted(command->name), shell_quoted(names),
                         shell_quoted(below));
  }
  if (!numbers.empty()) values += "    " + alternatives(numbers) + ") return ;;\n";
  if (!files.empty()) values += "    " + alternatives(files) + ") _vitrine_files; return ;;\n";
  return "# bash completion of vitrine, printed by `vitrine completion bash`.\n"
         "_vitrine_offer() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"${COMP_WORDS[COMP_CWORD]}\"); }\n"
         "_vitrine_files() {\n  compopt -o filenames 2>/dev/null\n"
         "  mapfile -t COMPREPLY < <(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\")\n}\n"
         "_vitrine() {\n  local command= options= commands= i\n  COMPREPLY=()\n" +
         command_loop(commands, "i = 1; i < COMP_CWORD; ++i", "${COMP_WORDS[i]}") +
         "  case \"$command ${COMP_WORDS[COMP_CWORD - 1]}\" in\n" + values + "  esac\n  case \"$command\" in\n" +
         words +
         "  esac\n  if [[ ${COMP_WORDS[COMP_CWORD]} == -* ]]; then\n    _vitrine_offer \"$options\"\n"
         "  elif [[ -n $commands ]]; then\n    _vitrine_offer \"$commands\"\n  else\n    _vitrine_files\n  fi\n}\n"
         "complete -F _vitrine vitrine\n";
}

std::string zsh_option(const OptionPage& option) {
  std::string spec = "*" + option.name + "[" + backslashed(option.about, "[]:\\") + "]";
  if (!option.choices.empty()) {
    spec += fmt::format(":value:({})", fmt::join(option.choices, " "));
  } else if (option.takes_value) {
    spec += option.is_number ? ":number: " : ":value:_files";
  }
  return spec;
}

std::string zsh_script(const Commands& commands) {
  std::string script =
      "#compdef vitrine\n# zsh completion of vitrine, printed by `vitrine completion zsh`.\n"
      "_vitrine() {\n  local command= i\n  local -a commands\n" +
      command_loop(commands, "i = 2; i < CURRENT; ++i", "${words[i]}") + "  case \"$command\" in\n";
  for (const CommandPage* command : commands) {
    script += "    " + shell_quoted(command->name) + ")\n      commands=(";
    for (const CommandPage& c : command->commands) {
      script += "\n        " + shell_quoted(last_word(c.name) + ":" + backslashed(c.about, ":\\"));
    }
    script +=
        ")\n      if (( $#commands )) && [[ ${words[CURRENT]} != -* ]]; then\n"
        "        _describe command commands\n      else\n        _arguments";
    for (const OptionPage& option : command->options) {
      if (!option.positional) script += " \\\n          " + shell_quoted(zsh_option(option));
    }
    script += " \\\n          '*:file:_files'\n      fi ;;\n";
  }
  return script + "  esac\n}\n_vitrine \"$@\"\n";
}

/// A condition that holds if the command line names this command and none of its subcommands.
std::string fish_condition(const CommandPage& command) {
  std::string condition;
  std::istringstream words(command.name);
  for (std::string word; words >> word;) {
    condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  }
  if (command.commands.empty()) return condition;
  std::string below;
  for (const CommandPage& c : command.commands) below += " " + last_word(c.name);
  return condition + (condition.empty() ? "not" : "; and not") + " __fish_seen_subcommand_from" + below;
}

std::string fish_script(const Commands& commands) {
  const auto fish_quotes = [](const std::string& text) { return "'" + backslashed(text, "'\\") + "'"; };
  std::string script = "# fish completion of vitrine, printed by `vitrine completion fish`.\n";
  for (const CommandPage* command : commands) {
    const std::string head = "complete -c vitrine -n '" + fish_condition(*command) + "'";
    for (const CommandPage& c : command->commands) {
      script += head + " -f -a " + last_word(c.name) + " -d " + fish_quotes(c.about) + "\n";
    }
    for (const OptionPage& option : command->options) {
      if (option.positional) continue;
      script += head + " -l " + option.name.substr(2);
      if (!option.choices.empty()) {
        script += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      } else if (option.takes_value) {
        script += option.is_number ? " -x" : " -r -F";
      }
      script += " -d " + fish_quotes(option.about) + "\n";
    }
  }
  return script;
}

}  // namespace

void add_completion(Command& program) {
  Command& command = *program.add_subcommand("completion", "Print a shell's completion script");
  command.hide();
  const auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "bash, zsh or fish")->required()->choices({"bash", "zsh", "fish"});
  command.callback([&program, shell] {
    const CommandPage page = describe(program);
    const Commands commands = all_commands(page);
    print(*shell == "bash" ? bash_script(commands) : *shell == "zsh" ? zsh_script(commands) : fish_script(commands));
  });
}

}  // namespace vitrine::cli
