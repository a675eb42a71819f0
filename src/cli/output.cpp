#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "cli/options.h"

namespace vitrine::cli {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR && !interrupted()) continue;  // Ctrl-C ends the wait for a reader
    if (n < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
    if (!text.empty() && interrupted()) {  // the signal came after a part had been written
      errno = EINTR;
      return false;
    }
  }
  return true;
}

}  // namespace

void print(std::string_view text) {
  static const bool is_first = is_first_process();
  if (!is_first) return;
  const CleanStop guard;  // lines and characters are printed whole
  if (!write_all(STDOUT_FILENO, text)) {
    if (errno == EINTR) throw Interrupted();
    if (errno == EPIPE) throw ClosedPipe();
    throw BadInput("stdout", "cannot write: {}", std::generic_category().message(errno));
  }
  if (guard.is_outermost() && interrupted()) throw Interrupted();
}

void print_json(const Json& object) { print(json_line(object) + "\n"); }

void note(std::string_view text) {
  std::string line = "vitrine: " + std::string(text);
  for (char& c : line) {
    if ((c >= 0 && c < ' ') || c == '\x7F') c = ' ';  // file names may contain escape sequences
  }
  write_all(STDERR_FILENO, line + "\n");
}

void write_stderr(std::string_view text) { write_all(STDERR_FILENO, text); }

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

std::string shell_quoted(std::string_view word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

}  // namespace vitrine::cli
