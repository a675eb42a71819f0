// TOML configs of training: reads them and computes learning rates from the schedule.
#include "fuzzing.h"
#include "train/train_config.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::answer([&] {
    const TrainConfig config = parse_train_config(fuzz::text_of(data, size), "run.toml");
    fuzz::expect(config.train.batch % config.train.micro_batches == 0, "micro-batches have one size");
    for (const std::int64_t step : {std::int64_t{0}, config.train.steps / 2, config.train.steps}) {
      const double lr = learning_rate(config.schedule, step);
      fuzz::expect(lr >= 0 && lr <= config.schedule.peak, "a learning rate is at most its peak");
    }
  });
}
