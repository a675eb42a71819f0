#include "cli/windowed_texts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/texts.h"
#include "generate/classify.h"

namespace vitrine::cli {

WindowedTexts::WindowedTexts(const Session& session, const TextInputOptions& options)
    : session_(session), options_(options) {
  const ModelConfig& model = session.checkpoint.model->config();
  const SentenceConfig folder = read_sentence_config(session.checkpoint.tokenizer_path, session.tokenizer.get(),
                                                     model.encoder ? model.encoder->max_seq_len : model.max_seq_len);
  is_typed_ = model.embedding.n_types > 0;  // as in transformers 4, whose pipelines these are, for any tokenizer
  most_ = folder.max_tokens;
}

void WindowedTexts::add(const std::string& text, const std::optional<std::string>& question,
                        const WindowOptions& windows) {
  Text added{text, windows_of(*session_.tokenizer, text, question, windows)};
  if (added.windows.front().is_cut) {
    if (options_.no_truncate) {
      throw BadInput("--no-truncate", "expected at most {} tokens in a text, got more", windows.most);
    }
    ++n_cut_;
  }
  texts_.push_back(std::move(added));
}

void WindowedTexts::read(const Receive& receive) {
  WindowTexts windows;
  for (const Text& text : texts_) {
    for (const PlacedTexts& window : text.windows) windows.add(window, is_typed_);
  }
  std::vector<std::vector<float>> all(windows.ids.size());
  read_outputs(
      session_.context(options_), windows.texts(), options_.batch * kRowsOfText,
      [&](std::size_t i, const Tensor& outputs) { all[i].assign(outputs.data, outputs.data + outputs.count()); });
  std::size_t first = 0;
  for (const Text& text : texts_) {
    receive(text.text, text.windows, std::span(all).subspan(first, text.windows.size()));
    first += text.windows.size();
  }
  texts_.clear();
}

void WindowedTexts::report_cut() const {
  if (n_cut_ > 0) note(fmt::format("{} of the texts were cut to {} tokens", grouped(n_cut_), most_));
}

void for_each_line(const TextInputOptions& o,
                   const std::function<void(const Json& line, const std::string& where)>& add,
                   const std::function<void()>& read) {
  TextReader reader("-", false);
  std::int64_t number = 0;
  const auto at_once = static_cast<std::size_t>(o.batch);
  for (auto lines = reader.next(at_once); !lines.empty(); lines = reader.next(at_once)) {
    for (const std::string& line : lines) {
      const std::string where = fmt::format("line {}", ++number);
      add(parse_json(line, where), where);
    }
    read();
  }
}

const TaskHead& head_for(const Session& session, TaskHead::Task task, const char* command, const char* what) {
  const auto& head = session.checkpoint.model->config().task;
  if (!head || head->task != task) throw Unsupported(command, "the model has no {}", what);
  return *head;
}

}  // namespace vitrine::cli
