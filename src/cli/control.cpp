// vitrine control make: a control vector from pairs of texts.
#include <fmt/format.h>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "chat/chat_format.h"
#include "checkpoint/adapters/control.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "inspect/control_maker.h"
#include "tokenizer/read/chat_templates.h"

namespace vitrine::cli {
namespace {

struct ControlOptions : Options {
  std::string model, pairs, out, template_path;
  std::string method = "mean", pool = "last";
};

/// Reads the texts of pairs as the model does.
class PairReader {
 public:
  PairReader(const ControlOptions& o, const Session& session) : o_(o), session_(session) {}

  /// The ids of a text, or of a list of messages, which ends with what asks for an answer unless the last one is an
  /// answer.
  std::vector<std::int32_t> ids_of(const OrderedJson& value, const std::string& where) {
    if (value.is_string()) {
      return ids_or_bos(session_.tokenizer->encode(value.get<std::string>(), SpecialTokens::apply), session_.defaults(),
                        where.c_str());
    }
    if (!value.is_array() && !(value.is_object() && value.contains("messages"))) {
      throw BadInput(where, "expected a text or messages, got {}", value.dump());
    }
    const ChatHistory conversation = ChatHistory::parse(value.dump(), where);
    if (conversation.is_empty()) throw BadInput(where, "expected at least one message, got none");
    ChatRendering how;
    how.asks_for_answer = conversation.messages().back().at("role") != "assistant";
    return format().encode(conversation, how);
  }

 private:
  const ChatFormat& format() {
    if (!format_) {
      format_.emplace(open_chat_templates(o_.model, o_.template_path), *session_.tokenizer, ChatVariables{}, o_.model);
    }
    return *format_;
  }

  const ControlOptions& o_;
  const Session& session_;
  std::optional<ChatFormat> format_;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

void run_control_make(const ControlOptions& o) {
  const Session session = open_model(o, o.model, true);
  const GenerateContext context = session.context(o);
  const auto file = MappedFile::open_or_read(o.pairs);
  const std::vector<std::string_view> lines = lines_of(file->text());
  if (lines.empty()) throw BadInput(o.pairs, "expected lines {{\"positive\", \"negative\"}}, got none");
  stop_cleanly();
  ControlMaker maker(context, o.pool == "last" ? ControlPool::last : ControlPool::mean);
  PairReader reader(o, session);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string where = fmt::format("{}, line {}", o.pairs, i + 1);
    parse_json(lines[i], where);  // refuses what is no JSON
    const OrderedJson pair = OrderedJson::parse(lines[i]);
    const auto ids_of = [&](const char* key) {
      if (!pair.is_object() || !pair.contains(key)) {
        throw BadInput(where, "expected an object with \"positive\" and \"negative\"");
      }
      return reader.ids_of(pair[key], where + ", " + key);
    };
    if (pair.is_object() && pair.size() > 2) throw BadInput(where, "expected \"positive\" and \"negative\" alone");
    maker.add(ids_of("positive"), ids_of("negative"));
  }
  ControlVector control = maker.make(o.method == "mean" ? ControlMethod::mean : ControlMethod::pca);
  control.model_hint = session.checkpoint.family;
  const ModelConfig& config = session.checkpoint.model->config();
  write_control(o.out, control, config);
  const std::int64_t n_layers = std::ssize(control.directions);
  if (o.json) {
    return print_json(
        {{"out", o.out}, {"pairs", maker.n_pairs()}, {"layers", n_layers}, {"method", o.method}, {"pool", o.pool}});
  }
  print(fmt::format("{}: directions of {} layers from {} pairs\n", o.out, n_layers, maker.n_pairs()));
}

void add_make(Command& group) {
  const auto [command, o] =
      new_command<ControlOptions>(group, "make", "Make a control vector from pairs of texts or conversations");
  command.add_option("MODEL", o->model, "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME")
      ->required()
      ->type_name("");
  allow_hub(*o, o->model);
  command.add_option("PAIRS", o->pairs, "Lines {\"positive\", \"negative\"}, each a text or a list of messages")
      ->required()
      ->type_name("");
  add_file(command, "--out", o->out, "The .gguf to write")->required();
  add_choice(command, "--method", o->method, {"mean", "pca"},
             "mean: the mean difference; pca: the first singular vector of the differences (default: mean)");
  add_choice(command, "--pool", o->pool, {"last", "mean"},
             "The stream of a text: that of its last token, or the mean over its tokens (default: last)");
  add_file(command, "--template", o->template_path, "File with a chat template (default: the model's)");
  allow_hub(*o, o->template_path, HubWanted::chat_template);
  finish_command(command, o, run_control_make,
                 "The directions have length 1. --control FILE=SCALE adds them to the stream after each block.\n"
                 "Example: vitrine control make models/default pairs.jsonl --out calm.gguf");
}

}  // namespace

void add_control(Command& program) {
  Command& group = *program.add_subcommand("control", "Make control vectors");
  group.require_subcommand();
  add_make(group);
}

}  // namespace vitrine::cli
