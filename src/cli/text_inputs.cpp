#include "cli/text_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/texts.h"

namespace vitrine::cli {
namespace {

/// The strings of a list of two, or of an object {"text","text_pair"}; none for anything else.
std::optional<std::pair<std::string, std::optional<std::string>>> pair_in(const Json& json) {
  if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
    return std::pair(json[0].get<std::string>(), json[1].get<std::string>());
  }
  const auto is_text = [](const auto& item) {
    return (item.key() == "text" || item.key() == "text_pair") && item.value().is_string();
  };
  const auto items = json.items();
  if (!json.is_object() || !json.contains("text") || !std::all_of(items.begin(), items.end(), is_text)) return {};
  const std::string text = json["text"].get<std::string>();
  if (!json.contains("text_pair")) return std::pair(text, std::optional<std::string>());
  return std::pair(text, std::optional(json["text_pair"].get<std::string>()));
}

}  // namespace

void add_text_inputs(Command& command, TextInputOptions& o, const std::string& about_lines) {
  command.add_option("MODEL", o.model, "A Hugging Face folder, a .gguf or hf:ORG/NAME")->required()->type_name("");
  allow_hub(o, o.model);
  command.add_flag("--lines", o.lines, about_lines);
  add_number<std::int64_t>(command, "--batch", o.batch, "Texts to read at once (default: 32)", 1, 4096);
  command.add_flag("--no-truncate", o.no_truncate, "A text that is longer than the model reads is an error");
  command.add_flag("--no-special", o.no_special, "Add no special tokens to texts, and treat none in them as special");
  add_modifiers(command, o);
}

TextInputs::TextInputs(const Session& session, const TextInputOptions& options) : session_(session), options_(options) {
  const ModelConfig& model = session.checkpoint.model->config();
  config_ = read_sentence_config(session.checkpoint.tokenizer_path, session.tokenizer.get(),
                                 model.encoder ? model.encoder->max_seq_len : model.max_seq_len);
  default_prompt_ = config_.prompt;
}

void TextInputs::add(const std::string& text, const std::optional<std::string>& pair) {
  if (session_.tokenizer == nullptr) throw BadInput("text", "no tokenizer was opened: give ids, or --tokenizer");
  const SpecialTokens policy = options_.no_special ? SpecialTokens::none : SpecialTokens::apply;
  if (!pair) return add(session_.tokenizer->encode(config_.prepared(text), policy));
  const auto most = options_.no_truncate ? std::nullopt : std::optional(config_.max_tokens);
  PairEncoding encoded =
      session_.tokenizer->encode_pair(config_.prepared(text), config_.without_prompt(*pair), policy, most);
  if (encoded.is_cut) ++n_cut_;
  add(std::move(encoded.ids));
  if (session_.checkpoint.model->config().embedding.n_types > 0) types_.back() = std::move(encoded.types);
}

void TextInputs::add(std::vector<std::int32_t> ids) {
  if (std::ssize(ids) > config_.max_tokens) {
    if (options_.no_truncate) {
      throw BadInput("--no-truncate", "expected at most {} tokens in a text, got {}", config_.max_tokens, ids.size());
    }
    ++n_cut_;
  }
  ids_.push_back(truncated(std::move(ids), config_));
  types_.emplace_back();
}

void TextInputs::add_line(const std::string& line, std::int64_t number) {
  const Json json = parse_json(line, fmt::format("line {}", number));
  if (const auto pair = pair_in(json)) return add(pair->first, pair->second);
  add(ids_of_line(session_, options_, true, line, number,
                  [&](const std::string& text) { return config_.prepared(text); }));
}

void TextInputs::use_prompt_of(std::initializer_list<const char*> names) {
  config_.prompt = default_prompt_;
  for (const char* const name : names) {
    if (config_.prompts.contains(name)) return config_.use_prompt(name, "rerank");
  }
}

void TextInputs::clear() {
  ids_.clear();
  types_.clear();
}

void TextInputs::report_cut() const {
  if (n_cut_ > 0) note(fmt::format("{} of the texts were cut to {} tokens", grouped(n_cut_), config_.max_tokens));
}

void for_each_batch(const TextInputOptions& o, TextInputs& inputs, const std::function<void()>& read) {
  constexpr std::size_t kBatchesAtOnce = 16;  // sorted by length together
  TextReader reader("-", false);
  std::int64_t number = 0;
  const std::size_t at_once = static_cast<std::size_t>(o.batch) * kBatchesAtOnce;
  for (auto lines = reader.next(at_once); !lines.empty(); lines = reader.next(at_once)) {
    for (const std::string& line : lines) inputs.add_line(line, ++number);
    read();
    inputs.clear();
  }
}

}  // namespace vitrine::cli
