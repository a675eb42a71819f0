// Threads with small stacks, because a library does not control the stack size of its host.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <thread>

namespace vitrine::test {

/// Runs function() on a thread of `bytes` of stack, or as few as the system allows; threads that it starts get no more.
template <class Function>
void on_small_stack(std::size_t bytes, Function function) {
  pthread_attr_t before, small;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&small), 0);
  const std::size_t fewest = PTHREAD_STACK_MIN;
  ASSERT_EQ(pthread_attr_setstacksize(&small, std::max(fewest, bytes * VITRINE_SLOWDOWN)),
            0);  // sanitizers widen frames
  ASSERT_EQ(pthread_setattr_default_np(&small), 0);
  std::thread(function).join();
  EXPECT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&small);
}

}  // namespace vitrine::test
