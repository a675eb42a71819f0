#include "cli/measure.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#ifdef VITRINE_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include "base/error.h"
#include "kernels/kernels.h"
#include "ops/linear.h"

namespace vitrine::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMemory = std::int64_t{1} << 30;
constexpr std::int64_t kM = 512, kN = 9216, kK = 2304;
constexpr int kRuns = 9;

/// The shortest time of kRuns, in seconds.
template <class Run>
double best(Run&& run) {
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) {
    const auto start = Clock::now();
    run();
    shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return shortest;
}

/// Memory in huge pages if the system provides them.
class Pages {
 public:
  /// All words are `word`: pages never written to are not backed by memory.
  explicit Pages(std::int64_t size, std::uint64_t word = 1) : size_(static_cast<std::size_t>(size)) {
    void* const data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw OutOfCapacity("bench", "cannot allocate {} bytes to measure the bandwidth", size);
    data_ = static_cast<std::uint64_t*>(data);
    ::madvise(data, size_, MADV_HUGEPAGE);
    std::fill_n(data_, size_ / sizeof *data_, word);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(data_, size_); }

  const std::uint64_t* data() const { return data_; }

 private:
  std::uint64_t* data_;
  std::size_t size_;
};

#ifdef VITRINE_ONEDNN
using dnnl::memory;
using Type = memory::data_type;

/// Operations per second of a oneDNN product; 0 if oneDNN has none for these types and this processor.
double product(Type x_type, Type w_type, Type y_type) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc x_rows({kM, kK}, x_type, memory::format_tag::ab);
  const memory::desc w_any({kK, kN}, w_type, memory::format_tag::any);
  const memory::desc y_rows({kM, kN}, y_type, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc chosen({x_rows, w_any, y_rows}, dnnl::primitive_attr(), engine, true);
  if (chosen.get(true) == nullptr) return 0;
  memory x(x_rows, engine), w(chosen.weights_desc(), engine), y(y_rows, engine);
  const auto fill = [](memory& m) {
    auto* const bytes = static_cast<std::uint8_t*>(m.get_data_handle());
    for (std::size_t i = 0; i < m.get_desc().get_size(); ++i) bytes[i] = i % 4 == 3 ? 0x3C : 1;  // small numbers
  };
  fill(x);
  fill(w);
  dnnl::matmul matmul(chosen);
  const double seconds = best([&] {
    matmul.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    stream.wait();
  });
  return 2.0 * kM * kN * kK / seconds;
}

/// oneDNN takes its threads from OpenMP.
void use_threads(int count) {
  if (void* const found = ::dlsym(RTLD_DEFAULT, "omp_set_num_threads")) reinterpret_cast<void (*)(int)>(found)(count);
}
#else
enum class Type { f32, bf16, u8, s8, s32 };
double product(Type, Type, Type) { return 0; }
void use_threads(int) {}
#endif

/// Bytes per second when every thread reads its part as kStreams streams, which are kStreams equal parts. A single
/// stream is prefetched; processors follow several of them by themselves.
template <int kStreams>
double measure_streams(ThreadPool& pool, const Pages& pages) {
  constexpr std::int64_t kLine = 8, kAhead = 8192 / 8, kLines = kMemory / 64;
  std::atomic<std::uint64_t> sink = 0;
  const double seconds = best([&] {
    const std::int64_t n_parts = pool.size(), all = kLines / kStreams;
    pool.parallel_for(n_parts, 1, [&](std::int64_t first_part, std::int64_t end_part, int) {
      const std::int64_t begin = all * first_part / n_parts, end = all * end_part / n_parts;
      std::uint64_t sums[kLine] = {};
      const std::uint64_t* const first = pages.data() + begin * kStreams * kLine;
      const std::int64_t apart = (end - begin) * kLine;
      for (std::int64_t at = 0; at < apart; at += kLine) {
        for (int stream = 0; stream < kStreams; ++stream) {
          const std::uint64_t* const line = first + stream * apart + at;
          if constexpr (kStreams == 1) __builtin_prefetch(line + kAhead, 0, 2);
          for (int i = 0; i < kLine; ++i) sums[i] += line[i];
        }
      }
      for (const std::uint64_t sum : sums) sink += sum;
    });
  });
  return static_cast<double>(kMemory) / seconds;
}

}  // namespace

bool has_onednn() {
#ifdef VITRINE_ONEDNN
  return true;
#else
  return false;
#endif
}

double measure_reading(ThreadPool& pool) {
  const Pages pages(kMemory);
  return std::max({measure_streams<1>(pool, pages), measure_streams<4>(pool, pages), measure_streams<8>(pool, pages)});
}

Ceilings measure_ceilings(ThreadPool& pool, bool with_bf16) {
  use_threads(pool.size());
  return {measure_reading(pool), product(Type::f32, Type::f32, Type::f32), product(Type::u8, Type::s8, Type::s32),
          with_bf16 ? product(Type::bf16, Type::bf16, Type::f32) : 0};
}

ProductRates measure_products(ThreadPool& pool, DType type, Compute compute) {
  constexpr std::int64_t kRows = 256, kProductRows = 4608, kGroup = 128;
  // A small normal number in every type, and a small scale in every block format.
  const Pages pages(kMemory, 0x2C2C2C2C2C2C2C2C);
  const std::byte* const data = reinterpret_cast<const std::byte*>(pages.data());
  const std::int64_t row_bytes = bytes_of(type, kK);
  MatrixView weight{data, type, kMemory / row_bytes, kK, kK, 1};
  if (type == DType::f8_e4m3) weight.scales = {data, weight.rows, kK};
  if (type == DType::mxfp4_pairs) weight.scales = {data, 1, 32, kK / 32};
  const GroupTables groups{{}, reinterpret_cast<const float*>(data)};
  if (has_groups(type)) weight.scales = {data, 1, kGroup, kK / kGroup, 1, 0, 0, &groups};
  const std::vector<float> x(static_cast<std::size_t>(kRows * kK), 1.0F);
  std::vector<float> y(static_cast<std::size_t>(std::max(weight.rows, kRows * kProductRows)));
  Arena arena;
  Pass pass{{pool, default_kernels(), arena, nullptr, false, compute}, {}, {}};
  const auto seconds = [&](std::int64_t rows, const MatrixView& w) {
    std::array<double, 3> runs;
    for (double& run : runs) {
      const PassScope scope(pass);
      const auto start = Clock::now();
      multiply(pass, view_of(x.data(), rows, kK, kK), w, y.data(), w.rows);
      run = std::chrono::duration<double>(Clock::now() - start).count();
    }
    std::sort(runs.begin(), runs.end());
    return runs[1];
  };
  const double read = static_cast<double>(weight.rows * row_bytes) / seconds(1, weight);
  return {read, 2.0 * kRows * kProductRows * kK / seconds(kRows, weight.row_range(0, kProductRows))};
}

std::int64_t available_memory() {
  const auto number_in = [](const char* path, std::string_view name) -> std::optional<std::int64_t> {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with(name)) continue;
      char* end = nullptr;
      const char* const digits = line.c_str() + name.size();
      const long long number = std::strtoll(digits, &end, 10);
      if (end != digits) return number;  // a limit may be the word max
    }
    return {};
  };
  constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
  const auto system = number_in("/proc/meminfo", "MemAvailable:");
  const std::int64_t available = system ? *system * 1024 : kUnlimited;
  const auto limit = number_in("/sys/fs/cgroup/memory.max", "");
  if (!limit) return available;
  const std::int64_t used = number_in("/sys/fs/cgroup/memory.current", "").value_or(0);
  const std::int64_t cached = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ").value_or(0);
  return std::min(available, std::max<std::int64_t>(0, *limit - used + cached));
}

void forget_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

std::int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

}  // namespace vitrine::cli
