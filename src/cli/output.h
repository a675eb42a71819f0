// Results go to stdout, everything else to stderr.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "report/results.h"

namespace vitrine::cli {

/// Thrown if the reader of stdout has closed it, as `head` does. Not a std::exception, so that only main catches it,
/// after files that are being written have been removed.
struct ClosedPipe {};

/// Thrown after errors that have been reported: the exit status is 1.
struct Reported {};

/// Writes to stdout without buffering; of several processes of a run, only the first one writes. Throws ClosedPipe, or
/// BadInput if stdout is not open or its disk is full.
void print(std::string_view text);
/// Prints json_line() and a line break.
void print_json(const Json& object);
/// A word as shells read it, between single quotes.
std::string shell_quoted(std::string_view word);
/// Writes one line to stderr, after "vitrine: ".
void note(std::string_view text);
/// Writes bytes as they are, for a line that is redrawn.
void write_stderr(std::string_view text);
bool is_terminal(int fd);

}  // namespace vitrine::cli
