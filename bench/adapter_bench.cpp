// Whole training steps of a model, and of an adapter of rank 16 on all of its linear maps: tokens per second, with all
// targets counted and with every second half of a sequence.
//   adapter_bench MODEL BATCH LENGTH [THREADS] [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "checkpoint/load.h"
#include "train/learner.h"

namespace {

using namespace vitrine;

Batch batch_of(const ModelConfig& config, std::int64_t n_sequences, std::int64_t length, bool half) {
  Batch batch;
  for (std::int64_t i = 0; i < n_sequences * length; ++i) {
    batch.inputs.push_back(static_cast<std::int32_t>((i * 7919 + 13) % config.vocab_size));
    batch.targets.push_back(static_cast<std::int32_t>(((i + 1) * 7919 + 13) % config.vocab_size));
    batch.counts.push_back(half && i % length < length / 2 ? 0 : 1);
    if (i % length == 0) batch.pieces.push_back({i, length});
  }
  return batch;
}

struct Measured {
  const char* name;
  Learner& learner;
  const Batch& batch;
  std::vector<double> speeds{};

  void step(std::int64_t number) {
    const auto start = std::chrono::steady_clock::now();
    Learner::Step step = learner.forward_backward(batch, number);
    learner.update(step, 1e-4);
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (number > 0) speeds.push_back(static_cast<double>(batch.inputs.size()) / s);  // the first warms up
  }
  double median() {
    std::sort(speeds.begin(), speeds.end());
    return speeds[speeds.size() / 2];
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const Checkpoint checkpoint = load_checkpoint(argv[1]);
  const std::int64_t n_sequences = std::atoll(argv[2]), length = std::atoll(argv[3]);
  const std::int64_t rounds = argc > 5 ? std::atoll(argv[5]) : 5;
  ThreadPool pool(argc > 4 ? std::atoi(argv[4]) : default_thread_count());
  const Kernels& kernels = default_kernels();
  StepOptions options;
  options.batch = n_sequences;
  options.seq_len = length;
  const Trainable whole = copy_trainable(checkpoint.model, DType::f32, pool, kernels);
  NewAdapter low_rank;
  low_rank.rank = 16;
  const Trainable adapter(checkpoint, new_adapter(checkpoint, low_rank, 1));
  Optimizer of_whole({}, whole.params()), of_adapter({}, adapter.params());
  Learner learns_whole(whole, of_whole, options, pool, kernels, nullptr);
  Learner learns_adapter(adapter, of_adapter, options, pool, kernels, nullptr);
  const Batch all = batch_of(checkpoint.model->config(), n_sequences, length, false);
  const Batch half = batch_of(checkpoint.model->config(), n_sequences, length, true);
  Measured runs[] = {{"model, all targets", learns_whole, all},
                     {"adapter, all targets", learns_adapter, all},
                     {"model, half of them", learns_whole, half},
                     {"adapter, half of them", learns_adapter, half}};
  for (std::int64_t i = 0; i <= rounds; ++i) {
    for (Measured& run : runs) run.step(i);
  }
  const double first = runs[0].median();
  for (Measured& run : runs) {
    std::printf("%-22s %8.1f tokens/s  %.2f\n", run.name, run.median(), run.median() / first);
  }
}
