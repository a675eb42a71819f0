// Models of tests/goldens with schedulers of their own, in one loop.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "generate/generator.h"
#include "serve/model_registry.h"
#include "serve/round_loop.h"
#include "serve/scheduler.h"
#include "serve/served_model.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {

class LoadedGolden : public LoadedModel {
 public:
  LoadedGolden(const std::string& name, ThreadPool& pool, RoundLoop& loop) : checkpoint_(golden_checkpoint(name)) {
    served_.names = {name};
    const GenerateContext context{checkpoint_.model.get(), &pool, &default_kernels()};
    scheduler_ = std::make_shared<Scheduler>(context, memory_, SchedulerConfig{}, metrics, loop);
  }
  const ServedModel& served() const override { return served_; }
  const std::shared_ptr<Scheduler>& scheduler() const override { return scheduler_; }
  const Model& model() const { return *checkpoint_.model; }

  Metrics metrics{};

 private:
  Checkpoint checkpoint_;
  KvPool memory_{std::int64_t{1} << 28};
  ServedModel served_;
  std::shared_ptr<Scheduler> scheduler_;
};

inline GenerateRequest golden_request(const Model& model, std::size_t seed, std::int64_t n_tokens) {
  GenerateRequest request;
  request.prompt = some_ids(model, 12, seed);
  request.max_tokens = n_tokens;
  request.sampling = {.temperature = 1, .top_k = 0, .top_p = 1};
  request.seed = seed;
  return request;
}

inline std::shared_ptr<Job> golden_job(const GenerateRequest& request, std::size_t client = 0) {
  return std::make_shared<Job>(client, std::vector<GenerateRequest>{request}, false, [] {});
}

/// Waits for the result, or the error, of a job of one sequence.
inline GenerateResult result_of(Job& job) {
  const auto deadline = ServerClock::now() + std::chrono::seconds(60) * kSlowdown;
  while (ServerClock::now() < deadline) {
    for (SequenceStep& step : job.take()) {
      if (step.error) std::rethrow_exception(step.error);
      if (step.result) return std::move(*step.result);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw std::runtime_error("the job does not end");
}

inline std::vector<std::int32_t> ids_alone(const Model& model, const GenerateRequest& request) {
  ThreadPool pool(1);
  return generate({&model, &pool, &default_kernels()}, {&request, 1})[0].ids;
}

/// A loop in a thread of its own.
class LoopTest : public testing::Test {
 protected:
  ~LoopTest() override { end(); }
  void begin() {
    thread_ = std::thread([this] { loop_.run(); });
  }
  void end() {
    loop_.drain();
    if (thread_.joinable()) thread_.join();
  }

  ThreadPool pool_{2};
  RoundLoop loop_;

 private:
  std::thread thread_;
};

}  // namespace vitrine::test
