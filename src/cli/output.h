// stdout carries results, stderr everything else.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace vitrine::cli {

/// Writes to stdout at once. Throws BadInput where it is closed or full.
void print(std::string_view text);
/// One JSON object on one line. −inf and NaN are null; text that is no UTF-8 has its broken bytes replaced.
void print_json(const Json& object);
/// One line on stderr.
void note(std::string_view text);
/// Bytes as they are, for a line that is drawn again and again.
void write_stderr(std::string_view text);
bool is_terminal(int fd);

}  // namespace vitrine::cli
