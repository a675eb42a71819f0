// Matrix products with the shapes of real models, compared with the machine's limits: the memory bandwidth and, if
// oneDNN is installed, its f32 product.
//
//   dense_bench [scalar|avx2|…|all] [f32|bf16|f16|all|q8_0|…|blocks|pairs] [threads|0] [rows|0]
//
// The defaults, all and 0, mean every vector instruction set, f32, bf16 and f16, one and two threads, and every number
// of rows; blocks means every block format, pairs bf16 weights times x rounded to bfloat16. Each figure is the best of
// many short runs. Long-running products are reduced to fewer outputs, so that at least some runs are not disturbed on
// a busy machine. Each run uses different weights out of 1 GiB, so the weights are read from memory, as those of a
// model are.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "parallel/thread_pool.h"
#ifdef VITRINE_ONEDNN
#include <dnnl.h>
#include <omp.h>
#endif

namespace vitrine {
namespace {

constexpr std::int64_t kMemory = std::int64_t{1} << 30;
constexpr double kSecondsEach = 0.25;
constexpr std::int64_t kProducts = std::int64_t{1} << 30;  // of one run at most, per thread

struct Shape {
  const char* name;
  std::int64_t out, in;
  bool transposed;
};
constexpr Shape kShapes[] = {{"2304>9216", 9216, 2304, false},
                             {"9216>2304", 2304, 9216, false},
                             {"2304>2048", 2048, 2304, false},
                             {"768>2304 T", 2304, 768, true}};
constexpr std::int64_t kRows[] = {1, 2, 4, 8, 16, 64, 256, 512};

double seconds_of(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The shortest time of one run, in seconds; at least three runs. With one thread, its CPU time.
template <class Run>
double best(int threads, Run&& run) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  double shortest = std::numeric_limits<double>::infinity();
  const double end = seconds_of(CLOCK_MONOTONIC) + kSecondsEach;
  for (int i = 0; i < 3 || seconds_of(CLOCK_MONOTONIC) < end; ++i) {
    const double begin = seconds_of(clock);
    run();
    shortest = std::min(shortest, seconds_of(clock) - begin);
  }
  return shortest;
}

/// Small positive numbers in every type: the upper byte of each pair of bytes is 0x3C.
std::vector<std::byte> weights() {
  std::vector<std::byte> bytes(static_cast<std::size_t>(kMemory));
  std::uint32_t random = 1;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    random = random * 1664525u + 1013904223u;
    bytes[i] = static_cast<std::byte>(random >> 24);
    bytes[i + 1] = std::byte{0x3C};
  }
  return bytes;
}

/// Bytes per second of reading all of the memory.
double read_bandwidth(ThreadPool& pool, const std::vector<std::byte>& memory) {
  const auto* words = reinterpret_cast<const float*>(memory.data());
  std::vector<float> largest(static_cast<std::size_t>(pool.size()));
  const Kernels& k = default_kernels();
  constexpr std::int64_t kPiece = 1 << 16;
  const double seconds = best(pool.size(), [&] {
    pool.parallel_for(kMemory / 4 / kPiece, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        largest[static_cast<std::size_t>(thread)] += k.all_finite(words + i * kPiece, kPiece) ? 1.0f : 0.0f;
      }
    });
  });
  return static_cast<double>(kMemory) / seconds;
}

/// Operations per second of oneDNN's f32 product, M 512, N 9216, K 2304; 0 if it is not installed.
double gemm_ceiling([[maybe_unused]] int threads) {
#ifdef VITRINE_ONEDNN
  constexpr std::int64_t kM = 512, kN = 9216, kK = 2304;
  omp_set_num_threads(threads);
  const std::vector<float> a(kM * kK, 0.5f), b(kN * kK, 0.25f);
  std::vector<float> c(kM * kN);
  const double seconds =
      best(threads, [&] { dnnl_sgemm('N', 'T', kM, kN, kK, 1.0f, a.data(), kK, b.data(), kK, 0.0f, c.data(), kN); });
  return 2.0 * kM * kN * kK / seconds;
#else
  return 0;
#endif
}

/// The seconds of a product with a quantized matrix, rounding x included.
double blocks_seconds(const Kernels& k, ThreadPool& pool, const std::vector<std::byte>& memory, const Shape& s,
                      DType dtype, std::int64_t rows) {
  constexpr std::int64_t kPart = 32, kUnit = 64;
  const std::vector<float> x(static_cast<std::size_t>(rows * s.in), 0.5f);
  std::vector<float> y(static_cast<std::size_t>(rows * s.out));
  std::vector<RoundedPart> parts(static_cast<std::size_t>(rows * s.in / kPart));
  const std::int64_t bytes = bytes_of(dtype, s.out * s.in);
  std::int64_t at = 0;
  return best(pool.size(), [&] {
    at = at + 2 * bytes > kMemory ? 0 : at + bytes;
    const MatrixView w = {memory.data() + at, dtype, s.out, s.in, s.in, 1};
    pool.parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end, int) {
      k.blocks.round_to_int8(x.data() + begin * s.in, (end - begin) * s.in, dtype, parts.data() + begin * s.in / kPart);
    });
    pool.parallel_for(s.out / kUnit, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      k.blocks.multiply(parts.data(), rows, w.row_range(begin * kUnit, (end - begin) * kUnit), y.data() + begin * kUnit,
                        s.out, reinterpret_cast<float*>(pool.scratch(thread)));
    });
  });
}

/// The seconds of a product in the pair order, rounding x included.
double pairs_seconds(const Kernels& k, ThreadPool& pool, const std::vector<std::byte>& memory, const Shape& s,
                     std::int64_t rows) {
  const std::vector<float> x(static_cast<std::size_t>(rows * s.in), 0.5f);
  std::vector<float> y(static_cast<std::size_t>(rows * s.out));
  const PairKernels& pairs = k.pairs(s.transposed);
  const std::int64_t n = rounded_size(pairs, s.in), stride = rounded_stride(pairs, s.in), bytes = s.out * s.in * 2;
  std::vector<float> rounded(static_cast<std::size_t>(rows * stride));
  std::vector<float> packed(static_cast<std::size_t>(packed_size(k, rows, n)));
  std::int64_t at = 0;
  return best(pool.size(), [&] {
    at = at + 2 * bytes > kMemory ? 0 : at + bytes;
    const MatrixView w = {memory.data() + at,      DType::bf16, s.out, s.in, s.transposed ? 1 : s.in,
                          s.transposed ? s.out : 1};
    const bool packs = worth_packing(pairs.pack_above, rows, w);
    pool.parallel_for(rows, 8, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = begin; t < end; ++t) pairs.round(x.data() + t * s.in, s.in, rounded.data() + t * stride);
    });
    if (packs) {
      k.pack({reinterpret_cast<const std::byte*>(rounded.data()), DType::f32, rows, n, stride, 1}, packed.data());
    }
    pool.parallel_for(s.out, 48, [&](std::int64_t begin, std::int64_t end, int thread) {
      auto* const scratch = reinterpret_cast<float*>(pool.scratch(thread));
      const MatrixView some = w.row_range(begin, end - begin);
      if (packs) {
        pairs.matmul_packed(packed.data(), rows, some, y.data() + begin, s.out, scratch);
      } else {
        pairs.matmul(rounded.data(), stride, rows, some, y.data() + begin, s.out, scratch);
      }
    });
  });
}

double product_seconds(const Kernels& k, ThreadPool& pool, const std::vector<std::byte>& memory, const Shape& s,
                       DType dtype, std::int64_t rows) {
  if (is_blocks(dtype)) return blocks_seconds(k, pool, memory, s, dtype, rows);
  const std::vector<float> x(static_cast<std::size_t>(rows * s.in), 0.5f);
  std::vector<float> y(static_cast<std::size_t>(rows * s.out));
  std::vector<float> packed(static_cast<std::size_t>(packed_size(k, rows, s.in)));
  const std::int64_t bytes = s.out * s.in * size_of(dtype);
  std::int64_t at = 0;
  return best(pool.size(), [&] {
    at = at + 2 * bytes > kMemory ? 0 : at + bytes;
    const MatrixView w = {memory.data() + at, dtype, s.out, s.in, s.transposed ? 1 : s.in, s.transposed ? s.out : 1};
    if (worth_packing(k.pack_above, rows, w)) {
      k.pack({reinterpret_cast<const std::byte*>(x.data()), DType::f32, rows, s.in, s.in, 1}, packed.data());
    }
    pool.parallel_for(s.out, 48, [&](std::int64_t begin, std::int64_t end, int thread) {
      auto* const scratch = reinterpret_cast<float*>(pool.scratch(thread));
      const MatrixView some = w.row_range(begin, end - begin);
      if (worth_packing(k.pack_above, rows, w)) {
        k.matmul_packed(packed.data(), rows, some, y.data() + begin, s.out, false, scratch);
      } else {
        k.matmul(x.data(), s.in, rows, some, y.data() + begin, s.out, scratch);
      }
    });
  });
}

void show_products(const Kernels& k, DType dtype, bool in_pairs, ThreadPool& pool, const std::vector<std::byte>& memory,
                   std::int64_t only_rows) {
  for (Shape s : kShapes) {
    if (s.transposed && is_blocks(dtype)) continue;
    const std::int64_t out = s.out;
    for (const std::int64_t rows : kRows) {
      if (only_rows != 0 && rows != only_rows) continue;
      if (!s.transposed) s.out = std::min(out, pool.size() * std::max<std::int64_t>(96, kProducts / (s.in * rows)));
      const double seconds =
          in_pairs ? pairs_seconds(k, pool, memory, s, rows) : product_seconds(k, pool, memory, s, dtype, rows);
      const auto weights = static_cast<double>(s.out * s.in);
      fmt::print("{:7} {:5} {} threads  {:11} rows {:4}  {:7.1f} GFLOP/s  {:6.2f} GB/s\n", name_of(k.isa),
                 in_pairs ? "pairs" : name_of(dtype), pool.size(), s.name, rows,
                 2e-9 * weights * static_cast<double>(rows) / seconds,
                 1e-9 * static_cast<double>(bytes_of(dtype, s.out * s.in)) / seconds);
      std::fflush(stdout);
    }
  }
}

void run(std::string_view isa, std::string_view dtype, int only_threads, std::int64_t only_rows) {
  const std::vector<std::byte> memory = weights();
  for (const int threads : {1, 2}) {
    if (only_threads != 0 && threads != only_threads) continue;
    ThreadPool pool(threads);
    fmt::print("ceilings, {} threads: reading {:.2f} GB/s, f32 product {:.1f} GFLOP/s\n", threads,
               1e-9 * read_bandwidth(pool, memory), 1e-9 * gemm_ceiling(threads));
    for (const Isa each : available_isas()) {
      if (isa == "all" ? each == Isa::scalar : isa != name_of(each)) continue;
      for (std::size_t i = 0; i < kDTypes; ++i) {
        const auto type = static_cast<DType>(i);
        const std::string_view kind = is_blocks(type) ? "blocks" : "all";
        const bool in_pairs = dtype == "pairs" && type == DType::bf16;
        if (dtype != kind && dtype != name_of(type) && !in_pairs) continue;
        show_products(kernels_for(each), type, in_pairs, pool, memory, only_rows);
      }
    }
  }
}

}  // namespace
}  // namespace vitrine

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) { return argc > i ? argv[i] : otherwise; };
  vitrine::run(argument(1, "all"), argument(2, "all"), std::atoi(argument(3, "0")), std::atoll(argument(4, "0")));
}
