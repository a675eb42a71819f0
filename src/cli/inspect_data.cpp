// vitrine data inspect: the samples that training makes from conversations.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/conversations.h"
#include "cli/output.h"
#include "cli/table.h"

namespace vitrine::cli {
namespace {

struct InspectOptions : Options {
  std::string path, model;
  ConversationKeys keys;
};

/// Text for a terminal: line breaks stay, other control characters are shown as ?.
std::string shown(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F) c = '?';
  }
  return text;
}

/// The text of a sample. What is learned is green on a terminal, else between « and ».
std::string colored(const Sample& sample, const Tokenizer& tokenizer) {
  const bool has_color = is_terminal(1);
  std::string text;
  Detokenizer detokenizer(tokenizer);
  for (std::size_t i = 0; i < sample.ids.size(); ++i) {
    const bool is_learned = sample.learned[i] != 0;
    const bool was_learned = i > 0 && sample.learned[i - 1] != 0;
    if (is_learned && !was_learned) text += has_color ? "\x1b[32m" : "«";
    if (!is_learned && was_learned) text += has_color ? "\x1b[0m" : "»";
    const std::string bytes = detokenizer.push(sample.ids[i]);
    text += shown(bytes.empty() ? tokenizer.piece(sample.ids[i]) : bytes);
  }
  if (!sample.learned.empty() && sample.learned.back() != 0) text += has_color ? "\x1b[0m" : "»";
  return text;
}

struct Counts {
  std::int64_t lines = 0, samples = 0, ids = 0, learned = 0, longest = 0, without_end = 0, without_learned = 0;
};

void print_sample(const InspectOptions& o, const ConversationEncoder& encoder, const Tokenizer& tokenizer,
                  const Sample& sample, std::int64_t number, const char* part, Counts& counts) {
  const auto n_ids = static_cast<std::int64_t>(sample.ids.size());
  ++counts.samples;
  counts.ids += n_ids;
  counts.learned += sample.n_learned();
  counts.longest = std::max(counts.longest, n_ids);
  if (sample.n_learned() == 0) {
    ++counts.without_learned;
  } else if (!encoder.learns_end(sample)) {
    ++counts.without_end;
  }
  if (o.json) {
    Json line = {{"conversation", number}, {"ids", sample.ids}, {"learned", sample.learned}};
    if (*part != '\0') line["answer"] = part;
    return print_json(line);
  }
  const std::string of = *part == '\0' ? "" : fmt::format(" ({})", part);
  print(fmt::format("conversation {}{}: {} ids, {} of them learned\n{}\n\n", number, of, grouped(n_ids),
                    grouped(sample.n_learned()), colored(sample, tokenizer)));
}

void run_inspect(const InspectOptions& o) {
  if (o.model.empty() && o.tokenizer.empty()) throw MissingArgument("--model or --tokenizer");
  const ConversationModel model =
      open_conversation_model({o.model, o.tokenizer, o.keys.chat_template, o.tokenizer_options});
  const ConversationEncoder encoder(model, o.keys.options());
  Counts counts;
  for_each_line(o.path, [&](std::string_view text, const std::string& where, std::int64_t number) {
    const ConversationLine line = parse_conversation(text, where);
    ++counts.lines;
    for (std::size_t i = 0; i < line.conversations.size(); ++i) {
      const char* const part = !line.is_pair() ? "" : i == 0 ? "chosen" : "rejected";
      for (const Sample& sample : encoder.encode(line.conversations[i], where)) {
        print_sample(o, encoder, *model.tokenizer, sample, number, part, counts);
      }
    }
  });
  if (!o.json) {
    print(fmt::format("{} conversations, {} samples: {} ids, {} of them learned; the longest has {} ids\n",
                      grouped(counts.lines), grouped(counts.samples), grouped(counts.ids), grouped(counts.learned),
                      grouped(counts.longest)));
  }
  if (counts.without_learned > 0)
    note(fmt::format("in {} samples nothing is learned", grouped(counts.without_learned)));
  if (counts.without_end > 0) {
    note(fmt::format("in {} samples no end of a turn is learned: a model that learns from them does not stop",
                     grouped(counts.without_end)));
  }
}

}  // namespace

ConversationOptions ConversationKeys::options() const {
  ConversationOptions options;
  using Mask = ConversationOptions::Mask;
  using Learn = ConversationOptions::Learn;
  options.mask = mask == "marks" ? Mask::marks : mask == "difference" ? Mask::difference : Mask::automatic;
  options.learn = learn == "last" ? Learn::last : learn == "all" ? Learn::all : Learn::assistant;
  options.now = now.empty() ? TemplateClock::now() : TemplateClock::parse(now);
  return options;
}

void add_conversation_keys(Command& command, ConversationKeys& keys) {
  add_file(command, "--template", keys.chat_template, "A file with a chat template to use in place of the model's");
  add_choice(command, "--mask", keys.mask, {"auto", "marks", "difference"},
             "How the assistant's ids are found: by the template's marks or by difference")
      ->capture_default_str();
  add_choice(command, "--learn", keys.learn, {"assistant", "last", "all"},
             "What is learned: what the assistant says, its last message, or all")
      ->capture_default_str();
  add_now(command, keys.now);
}

void add_inspect(Command& group) {
  const auto [command, o] =
      new_command<InspectOptions>(group, "inspect", "Show what training learns from a file of conversations");
  command.add_option("FILE", o->path, "JSON Lines: a conversation, a text or a pair of answers on each line")
      ->required()
      ->type_name("");
  command.add_option("--model", o->model, "The model whose template and tokenizer are used")->type_name("MODEL");
  add_conversation_keys(command, o->keys);
  allow_hub(*o, o->model, HubWanted::tokenizer);
  allow_hub(*o, o->keys.chat_template, HubWanted::chat_template);
  finish_command(command, o, run_inspect,
                 "--model or --tokenizer is required. --json: one JSON object per sample.\n"
                 "Example: vitrine data inspect answers.jsonl --tokenizer models/default");
}

}  // namespace vitrine::cli
