#include "cli/lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <exception>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/output.h"

namespace vitrine::cli {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{1} << 20;    // read ahead if already available
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 30;  // of one line
constexpr std::size_t kLinesAtATime = 8;                     // per claim of a thread

bool has_more() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

/// The complete lines of a text; if `is_last`, also a last line without a newline.
std::vector<std::string_view> whole_lines(std::string_view text, bool is_last) {
  std::vector<std::string_view> lines = split(text, '\n');
  if (!is_last || lines.back().empty()) lines.pop_back();
  return lines;
}

struct Answer {
  std::string text;
  std::exception_ptr failure;
};

/// Writes lines in groups of at most PIPE_BUF bytes, which a pipe accepts atomically, so that Ctrl-C never leaves a
/// partial line, unless a line is longer. Throws the first failure after printing the answers before it.
void print_in_order(const std::vector<Answer>& answers) {
  std::string out;
  for (const Answer& a : answers) {
    if (a.failure || out.size() + a.text.size() > PIPE_BUF) {
      print(out);
      out.clear();
    }
    if (a.failure) std::rethrow_exception(a.failure);
    out += a.text;
  }
  print(out);
}

}  // namespace

bool read_stdin(std::string& input) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw BadInput("stdin", "cannot read: {}", std::generic_category().message(errno));
    input.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }
}

void answer_lines(ThreadPool& pool, FunctionRef<std::string(std::string_view line, std::int64_t number)> answer) {
  std::string input;        // not yet answered
  std::size_t n_seen = 0;   // bytes at its beginning that contain no newline
  std::int64_t number = 1;  // of its first line
  for (bool is_open = true; is_open;) {
    do {
      is_open = read_stdin(input);
    } while (is_open && input.size() < kBatchBytes && has_more());
    if (is_open && input.find('\n', n_seen) == input.npos) {
      if (input.size() > kMaxLineBytes) throw BadInput("stdin", "expected lines of at most {} bytes", kMaxLineBytes);
      n_seen = input.size();
      continue;
    }

    const std::vector<std::string_view> lines = whole_lines(input, !is_open);
    std::vector<Answer> answers(lines.size());
    std::atomic<std::size_t> next = 0;
    const auto answer_some = [&](std::int64_t, std::int64_t, int) {
      for (std::size_t begin = next.fetch_add(kLinesAtATime); begin < lines.size();
           begin = next.fetch_add(kLinesAtATime)) {
        for (std::size_t i = begin; i < std::min(begin + kLinesAtATime, lines.size()); ++i) {
          try {
            answers[i].text = answer(lines[i], number + static_cast<std::int64_t>(i)) + "\n";
          } catch (...) {
            answers[i].failure = std::current_exception();
            next = lines.size();  // earlier lines are already claimed
            return;
          }
        }
      }
    };
    const auto n_takes = static_cast<std::int64_t>((lines.size() + kLinesAtATime - 1) / kLinesAtATime);
    pool.parallel_for(std::min<std::int64_t>(pool.size(), n_takes), 1, answer_some);

    print_in_order(answers);
    number += static_cast<std::int64_t>(lines.size());
    input.erase(0, is_open ? input.rfind('\n') + 1 : input.size());
    n_seen = input.size();
  }
}

}  // namespace vitrine::cli
