// Products with the shapes of decode (one row with a large matrix, in bytes per second) and of prefill (many rows, in
// operations per second). Run with VITRINE_ISA to compare instruction sets.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/kernels.h"

namespace vitrine {
namespace {

MatrixView matrix(const std::vector<std::byte>& data, DType dtype, std::int64_t rows, std::int64_t cols) {
  return {data.data(), dtype, rows, cols, cols, 1};
}

/// rows × cols weights, `tokens` rows of x; range(0) tokens, range(1) the type.
void product(benchmark::State& state) {
  const std::int64_t tokens = state.range(0), rows = tokens == 1 ? 65536 : 4608, cols = 2304;
  const auto dtype = static_cast<DType>(state.range(1));
  const std::vector<std::byte> weights(static_cast<std::size_t>(rows * cols * size_of(dtype)));
  const std::vector<float> x(static_cast<std::size_t>(tokens * cols), 1.0f);
  std::vector<float> y(static_cast<std::size_t>(tokens * rows)), scratch(kScratchFloats);
  for (auto _ : state) {
    default_kernels().matmul(x.data(), cols, tokens, matrix(weights, dtype, rows, cols), y.data(), rows,
                             scratch.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] =
      benchmark::Counter(runs * 2e-9 * static_cast<double>(tokens * rows * cols), benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(runs * 1e-9 * static_cast<double>(weights.size()), benchmark::Counter::kIsRate);
  state.SetLabel(std::string(name_of(dtype)));
}
BENCHMARK(product)
    ->ArgsProduct({{1, 256}, {static_cast<int>(DType::f32), static_cast<int>(DType::bf16)}})
    ->UseRealTime();

}  // namespace
}  // namespace vitrine

BENCHMARK_MAIN();
