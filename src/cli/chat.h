// A chat: a conversation with a model, the options of its answers, and the commands that change both.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_answers.h"
#include "chat/chat_session.h"
#include "cli/speculation_options.h"
#include "cli/store_options.h"

namespace vitrine::cli {

struct ChatOptions : Options, SpeculationOptions, StoreOptions {
  std::string model, tools, now, messages, session, template_path, overflow = "error";
  std::optional<std::string> system;
  std::vector<std::string> variables;
  GenerateOptions answers;
};

class Chat {
 public:
  explicit Chat(const ChatOptions& options);

  /// Answers the messages of --messages. Throws Interrupted after Ctrl-C.
  void answer_file();
  /// Takes one turn after another from stdin. Returns whether all of them succeeded; throws Interrupted if Ctrl-C ended
  /// the last answer of a pipe.
  bool converse();

 private:
  ChatFormat open_format() const;
  void open_conversation();
  void take(const std::string& line);
  void say(const std::string& text);
  void answer(ChatHistory otherwise);
  bool try_answer();
  ChatRendering rendering() const;
  GenerateOptions options_of_answer() const;
  std::shared_ptr<const ChatAnswers> answers_to(const ChatPrompt& prompt, const GenerateOptions& options) const;
  GenerateRequest request_for(const ChatPrompt& prompt, const GenerateOptions& options) const;
  void print_answer(const ChatAnswer& answer, const ChatPrompt& prompt, const OrderedJson& message,
                    std::uint64_t seed) const;
  void save() const;
  void tell(const std::string& text) const;

  // The commands that begin with a slash; `rest` is what follows the name.
  struct Command;
  static const std::vector<Command>& commands();
  void run_command(const std::string& line);
  void help(const std::string& rest);
  void set_system(const std::string& rest);
  void undo(const std::string& rest);
  void retry(const std::string& rest);
  void save_as(const std::string& rest);
  void load(const std::string& rest);
  template <class Applied, class Use>
  void change_modifiers(const std::string& rest, std::vector<std::string>& of_options, Applied& applied, Use use,
                        const char* what);
  void change_adapters(const std::string& rest);
  void change_controls(const std::string& rest);
  void set(const std::string& rest);
  void show_context(const std::string& rest);
  std::string context_in_words() const;
  void exit(const std::string& rest);

  ChatOptions options_;
  Session model_;
  OpenedSpeculation speculation_;
  std::optional<OpenedStore> store_;
  std::optional<ChatSession> chat_;
  ChatHistory conversation_;
  std::uint64_t n_retries_ = 0;  ///< Of the last answer; each takes another seed.
  bool is_interactive_ = false, is_over_ = false, was_interrupted_ = false;
};

}  // namespace vitrine::cli
