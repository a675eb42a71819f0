// Measurements: the limits of this machine (memory bandwidth, and matrix products by oneDNN), the products of vitrine,
// and memory.
#pragma once

#include <cstdint>

#include "parallel/thread_pool.h"
#include "pass/compute.h"
#include "tensor/dtype.h"

namespace vitrine::cli {

struct Ceilings {
  double read_bytes_per_s = 0;       ///< 1 GiB read by all threads, in the fastest of 1, 4 and 8 streams per thread.
  double f32_flops_per_s = 0;        ///< 512 × 2304 by 2304 × 9216, weights packed beforehand, best of 9.
  double int8_operations_per_s = 0;  ///< The same, u8 × s8 → s32.
  double bf16_flops_per_s = 0;       ///< The same, bf16 × bf16 → f32; 0 if not measured, or if oneDNN has none.
};

/// Whether vitrine was built with oneDNN. Without it, the limits of products are 0.
bool has_onednn();
/// Takes a few seconds. Throws OutOfCapacity if 1 GiB cannot be allocated.
Ceilings measure_ceilings(ThreadPool& pool, bool with_bf16);
/// The memory bandwidth alone, in bytes per second. Throws OutOfCapacity if 1 GiB cannot be allocated.
double measure_reading(ThreadPool& pool);

/// The speed of the products with weights of one type (ops/linear.h).
struct ProductRates {
  double read_bytes_per_s = 0;  ///< Of the weight, multiplied by one row: 1 GiB of it, median of 3.
  double operations_per_s = 0;  ///< Two for each weight and row, with 256 rows: 4608 × 2304, median of 3.
};
/// Takes about half a second. Throws OutOfCapacity if 1 GiB cannot be allocated.
ProductRates measure_products(ThreadPool& pool, DType type, Compute compute);

/// The memory, in bytes, that this process can still use without swapping: what the system reports as available, or
/// less if the limit of a control group is lower.
std::int64_t available_memory();
/// Resets the peak memory of this process; without permission, the peak of the whole run remains.
void forget_peak_memory();
/// The peak memory in bytes; 0 if it cannot be read.
std::int64_t peak_memory();

}  // namespace vitrine::cli
