#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "cli/options.h"
#include "cli/output.h"

namespace vitrine::cli {
namespace {

constexpr int kBarWidth = 24;

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

ProgressBar::ProgressBar(std::string what) : what_(std::move(what)), on_terminal_(is_terminal(STDERR_FILENO)) {}

ProgressBar::~ProgressBar() {
  if (visible_) write_stderr("\r\x1B[K");
}

void ProgressBar::update(std::int64_t done, std::int64_t total) {
  if (interrupted()) throw Interrupted();
  const auto now = Clock::now();
  if (!on_terminal_ || now - begun_ < std::chrono::seconds(1) || now - shown_ < std::chrono::milliseconds(100)) return;
  shown_ = now;
  visible_ = true;
  const double part = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0;
  const double elapsed = std::chrono::duration<double>(now - begun_).count();
  const auto full = static_cast<int>(part * kBarWidth);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) bar += i < full ? "━" : "─";
  const std::string left = part > 0 ? duration_text(elapsed / part - elapsed) + " left" : "";
  write_stderr(fmt::format("\r{} {} {:3.0f} %  {}\x1B[K", what_, bar, 100 * part, left));
}

LiveLine::LiveLine() : on_terminal_(is_terminal(STDERR_FILENO)) {}

LiveLine::~LiveLine() {
  if (on_terminal_ && !shown_.empty()) write_stderr("\n");
}

void LiveLine::show(const std::string& line, bool is_due) {
  if (!on_terminal_) {
    if (is_due) write_stderr(line + "\n");
    return;
  }
  shown_ = line;
  write_stderr("\r" + line + "\x1B[K");
}

void LiveLine::keep(const std::string& line) {
  write_stderr(on_terminal_ ? "\r\x1B[K" + line + "\n" + shown_ : line + "\n");
}

}  // namespace vitrine::cli
