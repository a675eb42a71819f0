// Texts, or pairs of them, as the ids that a model reads whole.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/pair_prompt.h"
#include "checkpoint/hugging_face/sentence_transformers.h"
#include "cli/options.h"
#include "cli/texts.h"
#include "generate/read_texts.h"
#include "inspect/label_report.h"

namespace vitrine::cli {

/// Rows of a pass for each text of a batch: passes are bounded by rows, since lengths differ. 32 texts are
/// kReadingRows.
constexpr std::int64_t kRowsOfText = kReadingRows / 32;

/// The options of commands that read whole texts.
struct TextInputOptions : Options {
  std::string model;
  bool lines = false, no_truncate = false;
  std::int64_t batch = 32;
};

/// What is put before texts, and what they are read as, when vectors are made of them.
struct VectorInputOptions {
  std::optional<std::string> prompt;
  std::string prompt_name;
  bool query = false, document = false;
};
/// Adds --prompt, --prompt-name, --query and --document.
void add_vector_inputs(Command& command, VectorInputOptions& options);

/// Adds MODEL, --lines, --batch, --no-truncate, --no-special, --ids, --adapter and --control. `about_lines` says what a
/// line of stdin is.
void add_text_inputs(Command& command, TextInputOptions& options, const std::string& about_lines);

/// Texts that wait for a pass. Texts that are too long are cut as in sentence-transformers: those alone before what the
/// tokenizer puts at their end, pairs by their longer text.
class TextInputs {
 public:
  TextInputs(const Session& session, const TextInputOptions& options);

  /// Adds a text, or a pair. Throws BadInput for a text that is too long with --no-truncate.
  void add(const std::string& text, const std::optional<std::string>& pair = {});
  void add(std::vector<std::int32_t> ids) { put(std::move(ids), nullptr); }
  /// Adds what a line of --lines holds: a JSON string, a list of ids, a list of two strings, or {"text","text_pair"}.
  void add_line(const std::string& line, std::int64_t number);
  void clear();
  bool empty() const { return ids_.empty(); }

  const SentenceConfig& config() const { return config_; }
  /// What texts are read as from now on: with the folder's prompt for that.
  void use_role(TextRole role) { config_.use_role(role); }
  /// Reads texts as the options say. Throws UsageError for options that exclude each other, BadInput for a prompt that
  /// the folder does not have.
  void use(const VectorInputOptions& options);
  std::size_t size() const { return ids_.size(); }
  TextIds texts() const { return {ids_, types_, marks_}; }
  const std::vector<std::int32_t>& ids(std::size_t i) const { return ids_[i]; }
  const std::vector<std::int32_t>& types(std::size_t i) const { return types_[i]; }
  /// A text or a pair as add() reads it, with its words' places. Throws Unsupported where these are not known.
  LabelText placed(const std::string& text, const std::optional<std::string>& pair) const;
  /// Reports on stderr how many texts were cut, if any.
  void report_cut() const;

 private:
  /// `tokenizer`: of a text that begins with the folder's prompt; null: of ids.
  void put(std::vector<std::int32_t> ids, const Tokenizer* tokenizer);

  const Session& session_;
  const TextInputOptions& options_;
  SentenceConfig config_;
  std::optional<PairPrompt> chat_;  // of a model that reads pairs in a chat template
  std::vector<std::vector<std::int32_t>> ids_, types_;
  std::vector<TextMarks> marks_;
  std::int64_t n_cut_ = 0;
};

/// Calls read() whenever `inputs` has some of the lines of stdin, and clears them after it.
void for_each_batch(const TextInputOptions& options, TextInputs& inputs, const std::function<void()>& read);
/// The same for the lines of a reader, which are JSON with --lines, else the texts themselves.
void for_each_batch(const TextInputOptions& options, TextReader reader, TextInputs& inputs,
                    const std::function<void()>& read);

}  // namespace vitrine::cli
