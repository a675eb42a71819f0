// The time of one forward and backward over random tokens, without the update.
//   learn_bench MODEL BATCH LENGTH [THREADS] [recompute]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "checkpoint/load.h"

int main(int argc, char** argv) {
  using namespace vitrine;
  if (argc < 4) return 2;
  const Checkpoint checkpoint = load_checkpoint(argv[1]);
  const Model& model = *checkpoint.model;
  const std::int64_t batch = std::atoll(argv[2]), length = std::atoll(argv[3]), n = batch * length;
  ThreadPool pool(argc > 4 ? std::atoi(argv[4]) : default_thread_count());
  Gradients gradients;
  std::int64_t n_params = 0;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string&, const Shape& shape) {
    gradients.add(param);
    n_params += shape.count();
  });
  std::vector<std::int32_t> ids, targets;
  for (std::int64_t t = 0; t < n; ++t) {
    ids.push_back(static_cast<std::int32_t>(t * 7919 % model.config().vocab_size));
    targets.push_back(static_cast<std::int32_t>((t + 1) * 7919 % model.config().vocab_size));
  }
  Arena arena;
  Tape tape(gradients);
  for (int repeat = 0; repeat < 4; ++repeat) {
    LossRequest loss{targets, {}, 1.0f / static_cast<float>(n)};
    Pass pass{{pool, default_kernels(), arena}, {}, {}};
    for (std::int64_t b = 0; b < batch; ++b) pass.segments.push_back({b * length, length, 0, nullptr});
    pass.tape = &tape;
    pass.loss = &loss;
    pass.recompute = argc > 5;
    const auto start = std::chrono::steady_clock::now();
    const ArenaScope scope(arena);
    model.forward(pass, ids);
    const double forward = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    tape.unwind();
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("forward and head %.3f s, all %.3f s: %.1f tokens/s, %.1f GFLOP/s at 6 a parameter, loss %.4f\n",
                forward, s, static_cast<double>(n) / s,
                6e-9 * static_cast<double>(n) * static_cast<double>(n_params) / s,
                loss.cross_entropy / static_cast<double>(n));
  }
}
