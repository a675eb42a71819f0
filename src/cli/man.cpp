// vitrine man: print the manual page, generated from the parser.
// Source of the macros: man(7).
#include <fmt/format.h>

#include "cli/interface.h"
#include "cli/output.h"
#include "tokenizer/utf8.h"

namespace vitrine::cli {
namespace {

constexpr std::string_view kExitStatus =
    ".TP\n0\nsuccess\n.TP\n1\nan error, described in one line on stderr\n.TP\n2\nwrong usage\n"
    ".TP\n130, 143\nstopped by Ctrl\\-C or SIGTERM; partially written files are removed\n"
    ".TP\n141\nthe reader of stdout has closed it\n";

constexpr std::string_view kEnvironment =
    ".TP\n.B VITRINE_ISA\nscalar, avx2, avxvnni, avx512 or avx512vnni: the instruction set to use (default: the best "
    "available). Results are bitwise\nidentical on all.\n";

/// Escapes what roff would interpret, and characters outside ASCII.
std::string roff(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const bool starts_line = i == 0 || text[i - 1] == '\n';
    const std::size_t length = character_length(text.substr(i));
    if (length > 1) {
      result += fmt::format("\\[u{:04X}]", code_point(text.substr(i)));
      i += length;
      continue;
    }
    if (starts_line && (c == '.' || c == '\'')) result += "\\&";
    result += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
    ++i;
  }
  return result;
}

void add_option(std::string& page, const OptionPage& option) {
  page += ".TP\n.B " + roff(option.name);
  if (option.takes_value && !option.positional) {
    std::string value = option.is_number ? "N" : "VALUE";
    if (!option.choices.empty()) value = fmt::format("{}", fmt::join(option.choices, "|"));
    page += " \\fI" + roff(value) + "\\fR";
  }
  page += "\n" + roff(option.about) + (option.required ? " (required)" : "") + "\n";
}

void add_command_section(std::string& page, const CommandPage& command) {
  page += ".SS " + roff(command.synopsis()) + "\n" + roff(command.about) + ".\n";
  for (const OptionPage& option : command.options) add_option(page, option);
  if (!command.footer.empty()) page += ".PP\n.nf\n" + roff(command.footer) + "\n.fi\n";
}

std::string man_page(const CommandPage& program, const std::string& version) {
  CommandPage common;
  const std::vector<CommandPage> commands = running_commands(program, common);
  std::string page = ".TH VITRINE 1 \"\" \"vitrine " + roff(version) + "\" \"User Commands\"\n";
  page += ".SH NAME\nvitrine \\- transformer language\\-model engine that shows every value\n";
  page += ".SH SYNOPSIS\n.B vitrine\n.I COMMAND\n[MODEL] [TEXT] [options]\n";
  page += ".SH DESCRIPTION\n" + roff(program.about) + "\n.SH COMMANDS\n";
  for (const CommandPage& command : commands) add_command_section(page, command);
  page += ".SH OPTIONS OF EVERY COMMAND\n";
  for (const OptionPage& option : common.options) add_option(page, option);
  page += ".SH OPTIONS OF THE PROGRAM\n";
  for (const OptionPage& option : program.options) add_option(page, option);
  page.append(".SH EXIT STATUS\n").append(kExitStatus);
  page.append(".SH ENVIRONMENT\n").append(kEnvironment);
  return page;
}

}  // namespace

void add_man(Command& program, const std::string& version) {
  Command& command = *program.add_subcommand("man", "Print the man page vitrine(1), as roff");
  command.hide();
  command.callback([&program, version] { print(man_page(describe(program), version)); });
}

}  // namespace vitrine::cli
