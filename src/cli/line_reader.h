// The lines that a person types, with editing and history, or those of a pipe or file.
#pragma once

#include <memory>
#include <string>

namespace vitrine::cli {

/// interrupted: Ctrl-C at the prompt; the line is discarded.
enum class LineKind : std::uint8_t { line, interrupted, end };

class LineReader {
 public:
  virtual ~LineReader() = default;
  /// Waits for the next line and stores it without its line break. Throws BadInput if stdin cannot be read.
  virtual LineKind next(std::string& line) = 0;
};

/// Reads stdin. If it is a terminal, shows `prompt` and offers the keys and the history of libedit. A signal other than
/// Ctrl-C ends the program there; without a terminal, Ctrl-C does so, too.
std::unique_ptr<LineReader> open_line_reader(const std::string& prompt);

}  // namespace vitrine::cli
