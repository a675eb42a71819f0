// Whether the calling thread runs the body of a loop.
#pragma once

namespace vitrine {

/// Whether the calling thread is within ThreadPool::parallel_for: a worker always is, the caller until the loop ends,
/// also with one thread. What must not happen in several threads at once can refuse it on one.
bool in_parallel_loop();

}  // namespace vitrine
