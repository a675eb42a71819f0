#include "cli/text_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/texts.h"
#include "generate/text_windows.h"

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
  if (!config_.reading.is_chat || session.tokenizer == nullptr) return;
  const std::string& path = session.checkpoint.tokenizer_path;
  chat_.emplace(open_chat_templates(path, ""), *session.tokenizer, path, config_.reading.has_parts);
}

void TextInputs::add(const std::string& text, const std::optional<std::string>& pair) {
  const Tokenizer* const tokenizer = session_.tokenizer.get();
  if (tokenizer == nullptr) throw BadInput("text", "no tokenizer was opened: give ids, or --tokenizer");
  SpecialTokens policy = config_.reading.is_table ? SpecialTokens::written : SpecialTokens::apply;
  if (options_.no_special) policy = SpecialTokens::none;
  if (!pair) return put(tokenizer->encode(config_.prepared(text), policy), tokenizer);
  if (!config_.pair_template.empty()) {
    const std::int64_t context = session_.checkpoint.model->config().max_seq_len;
    return put(templated_pair(*tokenizer, config_, config_.prepared(text), *pair, context), tokenizer);
  }
  const auto most = options_.no_truncate ? std::nullopt : std::optional(config_.most_tokens());
  PairEncoding encoded =
      chat_ ? chat_->encode(config_.prompt, text, *pair, most)
            : tokenizer->encode_pair(config_.prepared(text), config_.without_prompt(*pair), policy, most);
  if (encoded.is_cut) ++n_cut_;
  put(std::move(encoded.ids), tokenizer);
  const bool has_types = session_.checkpoint.model->config().embedding.n_types > 0;
  if (has_types && config_.gives_types && !chat_) types_.back() = std::move(encoded.types);
}

LabelText TextInputs::placed(const std::string& text, const std::optional<std::string>& pair) const {
  if (pair && !config_.pair_template.empty()) {
    throw Unsupported("text", "pairs in the template of a GGUF file have no words with places");
  }
  const std::int64_t most = config_.most_tokens();
  if (pair && chat_) return {{text, *pair}, chat_->encode_placed(config_.prompt, text, *pair, most)};
  LabelText result{{config_.prepared(text)}, {}};
  std::optional<std::string> second;
  if (pair) result.texts.push_back(*(second = config_.without_prompt(*pair)));
  const WindowOptions options{most, {}, options_.no_special ? SpecialTokens::none : SpecialTokens::apply};
  result.tokens = whole_text(*session_.tokenizer, result.texts.front(), second, options);
  if (session_.checkpoint.model->config().embedding.n_types == 0 || !config_.gives_types) result.tokens.types.clear();
  return result;
}

void TextInputs::put(std::vector<std::int32_t> ids, const Tokenizer* tokenizer) {
  const std::int64_t most = config_.most_tokens();
  if (most > 0 && std::ssize(ids) > most) {
    if (options_.no_truncate) {
      throw BadInput("--no-truncate", "expected at most {} tokens in a text, got {}", most, ids.size());
    }
    ++n_cut_;
  }
  ids_.push_back(truncated(std::move(ids), config_));
  types_.emplace_back();
  marks_.push_back(marked(ids_.back(), config_, tokenizer));
}

void TextInputs::add_line(const std::string& line, std::int64_t number) {
  const Json json = parse_json(line, fmt::format("line {}", number));
  if (const auto pair = pair_in(json)) return add(pair->first, pair->second);
  if (json.is_string()) return add(json.get<std::string>());
  add(ids_of_line(session_, options_, true, line, number));
}

void TextInputs::clear() {
  ids_.clear();
  types_.clear();
  marks_.clear();
}

void TextInputs::report_cut() const {
  if (n_cut_ > 0) note(fmt::format("{} of the texts were cut to {} tokens", grouped(n_cut_), config_.most_tokens()));
}

void TextInputs::use(const VectorInputOptions& o) {
  if (o.query && o.document) throw UsageError("--query", "give --query or --document, not both");
  if (o.prompt && !o.prompt_name.empty()) throw UsageError("--prompt", "give --prompt or --prompt-name, not both");
  if (o.query) config_.use_role(TextRole::query);
  if (o.document) config_.use_role(TextRole::document);
  if (!o.prompt_name.empty()) config_.use_prompt(o.prompt_name, "--prompt-name");
  if (o.prompt) config_.prompt = *o.prompt;
}

void add_vector_inputs(Command& command, VectorInputOptions& o) {
  add_optional(command, "--prompt", o.prompt, "Put this text before each text (default: the model's)");
  command.add_option("--prompt-name", o.prompt_name,
                     "Put this prompt of config_sentence_transformers.json before each text (default: the model's)");
  command.add_flag("--query", o.query, "Read texts as queries: with the prompt query, to the length of queries");
  command.add_flag("--document", o.document, "Read texts as documents: with the prompt document, to their length");
}

void for_each_batch(const TextInputOptions& o, TextInputs& inputs, const std::function<void()>& read) {
  for_each_batch(o, TextReader("-", false), inputs, read);
}

void for_each_batch(const TextInputOptions& o, TextReader reader, TextInputs& inputs,
                    const std::function<void()>& read) {
  constexpr std::size_t kBatchesAtOnce = 16;  // sorted by length together
  std::int64_t number = 0;
  const std::size_t at_once = static_cast<std::size_t>(o.batch) * kBatchesAtOnce;
  for (auto lines = reader.next(at_once); !lines.empty(); lines = reader.next(at_once)) {
    for (const std::string& line : lines) {
      ++number;
      o.lines ? inputs.add_line(line, number) : inputs.add(line);
    }
    read();
    inputs.clear();
  }
}

}  // namespace vitrine::cli
