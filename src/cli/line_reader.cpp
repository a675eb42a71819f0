#include "cli/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "cli/lines.h"
#include "cli/options.h"
#include "cli/output.h"

#ifdef VITRINE_LIBEDIT
#include <histedit.h>

#include <clocale>
#endif

namespace vitrine::cli {
namespace {

/// Lines without editing: of a pipe or file, or of a terminal if libedit is missing.
class PlainLines : public LineReader {
 public:
  explicit PlainLines(std::string prompt) : prompt_(std::move(prompt)) {}

  LineKind next(std::string& line) override {
    write_stderr(prompt_);
    std::size_t end = input_.find('\n');
    while (end == input_.npos && is_open_) {
      const std::size_t n_seen = input_.size();
      is_open_ = read_stdin(input_);
      end = input_.find('\n', n_seen);
    }
    if (end == input_.npos && input_.empty()) return LineKind::end;
    line = input_.substr(0, end);
    input_.erase(0, end == input_.npos ? end : end + 1);
    if (line.ends_with('\r')) line.pop_back();
    return LineKind::line;
  }

 private:
  std::string prompt_, input_;
  bool is_open_ = true;
};

#ifdef VITRINE_LIBEDIT
class EditedLines : public LineReader {
 public:
  explicit EditedLines(std::string prompt) : prompt_(std::move(prompt)) {
    // libedit takes the encoding of characters from the locale.
    const char* const locale = std::setlocale(LC_CTYPE, "");
    if (locale == nullptr || std::string_view(locale) == "C") std::setlocale(LC_CTYPE, "C.UTF-8");
    history_ = history_init();
    editor_ = el_init("vitrine", stdin, stdout, stderr);
    if (editor_ == nullptr || history_ == nullptr) throw BadInput("terminal", "cannot be used to edit lines");
    HistEvent event;
    history(history_, &event, H_SETSIZE, 1000);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &prompt_of);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, history, history_);
    el_source(editor_, nullptr);  // the user's ~/.editrc
  }
  EditedLines(const EditedLines&) = delete;
  EditedLines& operator=(const EditedLines&) = delete;
  ~EditedLines() override {
    el_end(editor_);
    history_end(history_);
  }

  LineKind next(std::string& line) override {
    const CleanStop guard;  // a signal must not leave the terminal in the mode of libedit
    int n = 0;
    errno = 0;
    const char* const text = el_gets(editor_, &n);
    if (interrupted()) {
      print("\n");
      el_reset(editor_);
      if (!forget_interrupt()) throw Interrupted();
      return LineKind::interrupted;
    }
    if (text == nullptr || n <= 0) {
      print("\n");
      return LineKind::end;
    }
    line.assign(text, static_cast<std::size_t>(n));
    if (line.ends_with('\n')) line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
    return LineKind::line;
  }

 private:
  static char* prompt_of(EditLine* editor) {
    EditedLines* lines = nullptr;
    el_get(editor, EL_CLIENTDATA, &lines);
    return lines->prompt_.data();
  }

  std::string prompt_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
};
#endif

}  // namespace

std::unique_ptr<LineReader> open_line_reader(const std::string& prompt) {
  const bool has_person = is_terminal(STDIN_FILENO);
#ifdef VITRINE_LIBEDIT
  if (has_person && is_terminal(STDOUT_FILENO)) return std::make_unique<EditedLines>(prompt);
#endif
  return std::make_unique<PlainLines>(has_person ? prompt : "");
}

}  // namespace vitrine::cli
