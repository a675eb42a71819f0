// vitrine page: the pages of docs/ that are made from what the program knows, as Markdown.
#include <fmt/format.h>

#include <utility>

#include "cli/interface.h"
#include "cli/output.h"
#include "cli/table.h"
#include "pass/sites.h"

namespace vitrine::cli {
namespace {

constexpr std::string_view kMade = "<!-- Made by `vitrine page {}`; a test compares. -->\n";

/// Text of a table's cell or a paragraph that Markdown leaves as it is.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += (std::string_view("|*_<[]\\").find(c) != text.npos ? "\\" : "") + std::string(1, c);
  return result;
}

std::string in_code(std::string_view text) { return "`" + std::string(text) + "`"; }

/// A footer's hints, and the commands of its examples: lines behind "Example: " that begin with the program's name. The
/// list of presets grows without the page: only the program has it.
std::pair<std::string, std::vector<std::string>> hints_and_examples(const std::string& footer) {
  std::string hints;
  std::vector<std::string> examples;
  for (std::size_t at = 0; at < footer.size();) {
    const std::size_t end = std::min(footer.find('\n', at), footer.size());
    const std::string line = footer.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("Presets: ")) continue;
    const std::size_t command = line.find_first_not_of(' ', line.starts_with("Example: ") ? 9 : 0);
    const bool is_example = line.starts_with("Example: ") || (!examples.empty() && line.starts_with("  "));
    if (is_example && line.compare(command, 8, "vitrine ") == 0) {
      examples.push_back(line.substr(command));
    } else {
      hints += (hints.empty() ? "" : " ") + line;
    }
  }
  return {hints, examples};
}

std::string name_and_value(const OptionPage& option) {
  if (!option.takes_value || option.positional) return in_code(option.name);
  const std::string value = option.is_number ? "N" : fmt::format("{}", fmt::join(option.choices, ", "));
  return in_code(option.name) + (value.empty() ? " …" : " " + value);
}

void add_options(std::string& page, const CommandPage& command, const std::set<std::string>& left_out) {
  Table table({{"option"}, {"does"}});
  bool is_empty = true;
  for (const OptionPage& option : command.options) {
    if (left_out.contains(key_of(option))) continue;
    table.add({name_and_value(option), escaped(option.about) + (option.required ? " (required)" : "")});
    is_empty = false;
  }
  if (!is_empty) page += table.markdown() + "\n";
}

void add_command(std::string& page, const CommandPage& command, const std::set<std::string>& common) {
  std::string synopsis = "vitrine " + command.name;
  for (const OptionPage& option : command.options) {
    if (option.positional) synopsis += option.required ? " " + option.name : " [" + option.name + "]";
  }
  const auto [hints, examples] = hints_and_examples(command.footer);
  page += "## " + command.name + "\n\n" + in_code(synopsis) + ": " + escaped(command.about) + ".\n\n";
  add_options(page, command, common);
  if (!hints.empty()) page += escaped(hints) + "\n\n";
  page += "```\n";
  for (const std::string& example : examples) page += "$ " + example + "\n";
  page += "```\n\n";
}

}  // namespace

std::string commands_page(const CommandPage& program) {
  const std::vector<const CommandPage*> commands = running_commands(program);
  const std::set<std::string> common = common_options(commands);
  std::string page = "# Commands\n\n" + fmt::format(kMade, "commands");
  page +=
      "\nResults go to stdout, progress and messages to stderr. Exit status: 0 done; 1 the input is at fault, one line "
      "tells\nwhy; 2 wrong usage; 130 and 143 stopped by Ctrl-C and SIGTERM. A single text is TEXT for the default "
      "model; a text that\nbegins with `-` needs `--` before it.\n\n";
  for (const CommandPage* command : commands) add_command(page, *command, common);
  page += "## Options of every command\n\n";
  CommandPage shared;
  for (const OptionPage& option : commands.at(0)->options) {
    if (common.contains(key_of(option))) shared.options.push_back(option);
  }
  add_options(page, shared, {});
  page.pop_back();
  return page;
}

std::string sites_page() {
  std::string page = "# Sites\n\n" + fmt::format(kMade, "sites");
  page +=
      "\nEvery value of a forward that can be seen and replaced, in the order in which a forward meets them, under "
      "TransformerLens's\nlegacy names, as float32. A site of a layer has `blocks.N.` before its name; a model has "
      "those that its config calls for.\nLetters: T tokens of the pass, S positions so far, H query heads, K key/value "
      "heads, dh head_dim, d d_model, V vocab_size.\n\n"
      "```\n"
      "$ vitrine trace \"Hi\" --sites 'blocks.0.attn.*' --out values.safetensors\n"
      "$ vitrine trace \"Hi\" --set 'blocks.2.attn.hook_z[:,1]=0' --sites hook_logits --out silenced.safetensors\n"
      "$ vitrine trace \"Hi, you\" --gradients --sites '*.hook_resid_*' --out gradients.safetensors\n"
      "```\n\n"
      "With `--gradients` each value has its `SITE_grad` beside it: the gradient of the mean next-token loss by the "
      "value, after any\nwrite into it. What a write replaces passes none on, what it scales passes it scaled. Ids and "
      "the experts' choice have none.\nThose of `hook_attn_in` and its kind are each head's part of what attention "
      "adds "
      "to the gradient of the stream: they add up to it.\n\n";
  Table table({{"site"}, {"shape"}, {"what it is"}});
  for (const SiteInfo& site : all_sites()) {
    const std::string name = (site.in_block ? "blocks.N." : "") + std::string(site.name);
    table.add({in_code(name) + (site.on_demand ? " †" : ""), in_code(to_string(site.shape)), escaped(site.meaning)});
  }
  page += table.markdown();
  page += "\n† Costly: written only where a glob of `--sites` names it exactly, as in `blocks.*.attn.hook_result`.\n";
  return page;
}

void add_page(CLI::App& program) {
  CLI::App& command = *program.add_subcommand("page", "Print a page of docs/ that is made from the program");
  command.group("");
  const auto name = std::make_shared<std::string>();
  command.add_option("NAME", *name, "commands or sites")->required()->check(CLI::IsMember({"commands", "sites"}));
  command.callback([&program, name] { print(*name == "sites" ? sites_page() : commands_page(describe(program))); });
}

}  // namespace vitrine::cli
