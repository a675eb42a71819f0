// What this machine can do at most: reading memory, and products by the best library at hand.
#pragma once

#include "parallel/thread_pool.h"

namespace vitrine::cli {

struct Ceilings {
  double read_bytes_per_s = 0;       ///< Of 1 GiB, by all threads.
  double f32_flops_per_s = 0;        ///< oneDNN, 512 × 2304 by 2304 × 9216, weights packed before, best of 9.
  double int8_operations_per_s = 0;  ///< The same, u8 × s8 → s32.
};

/// Runs for some seconds. Throws OutOfCapacity where memory is refused.
Ceilings measure_ceilings(ThreadPool& pool);
/// The bandwidth alone, and the f32 products alone.
double measure_reading(ThreadPool& pool);
/// The best of `runs`.
double measure_f32_products(ThreadPool& pool, int runs = 9);

}  // namespace vitrine::cli
