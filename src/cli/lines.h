// Reads stdin, and answers each of its lines with a line on stdout: in order, without delay, on several threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallel/thread_pool.h"
#include "tokenizer/function_ref.h"

namespace vitrine::cli {

/// Waits for input on stdin and appends it to `input`. Returns false at the end. Throws BadInput if it cannot be read.
bool read_stdin(std::string& input);

/// Prints `answer(line, number)` for each line; `line` excludes the newline; numbers begin at 1. All lines that have
/// arrived are answered before the next read, so interactive input is answered at once and memory is bounded by a batch
/// and its answers. If `answer` throws, the exception is rethrown after the answers to all lines before it have been
/// printed. `answer` runs on the threads of `pool`.
void answer_lines(ThreadPool& pool, FunctionRef<std::string(std::string_view line, std::int64_t number)> answer);

}  // namespace vitrine::cli
