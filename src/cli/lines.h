// Lines on stdin, each answered by a line on stdout: on several threads, in order, as soon as they come.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallel/thread_pool.h"
#include "tokenizer/function_ref.h"

namespace vitrine::cli {

/// Prints `answer(line, number)` for each line, numbered from 1, without its end. What has come is answered before more
/// is waited for, so memory is bounded by a batch and its answers, and somebody who types is answered at once. An
/// exception of one line is thrown when the answers to the lines before it have been printed. `answer` runs on the
/// threads of `pool`.
void answer_lines(ThreadPool& pool, FunctionRef<std::string(std::string_view line, std::int64_t number)> answer);

}  // namespace vitrine::cli
