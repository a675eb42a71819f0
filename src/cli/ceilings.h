// The limits of this machine: memory bandwidth, and matrix products by oneDNN.
#pragma once

#include "parallel/thread_pool.h"

namespace vitrine::cli {

struct Ceilings {
  double read_bytes_per_s = 0;       ///< 1 GiB read by all threads.
  double f32_flops_per_s = 0;        ///< 512 × 2304 by 2304 × 9216, weights packed beforehand, best of 9.
  double int8_operations_per_s = 0;  ///< The same, u8 × s8 → s32.
};

/// Takes some seconds. Throws OutOfCapacity if 1 GiB cannot be allocated.
Ceilings measure_ceilings(ThreadPool& pool);
/// The bandwidth alone.
double measure_reading(ThreadPool& pool);
/// The f32 products alone, best of `runs`.
double measure_f32_products(ThreadPool& pool, int runs = 9);

}  // namespace vitrine::cli
