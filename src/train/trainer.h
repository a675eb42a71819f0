// Training: steps over a corpus, checkpoints, and a log of both.
//
//   step   batch(step) ─▶ micro-batches: forward, loss, backward ─▶ gradients ─▶ clip, update     (Learner)
//   run    plan ─▶ step, step, … with lines of metrics, validation, samples, checkpoints between     (train)
//
// A step is a pure function of the config, the parameters and its number: whoever goes on from a checkpoint gets the
// bits of a run that never stopped.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "train/train_config.h"

namespace vitrine {

/// How a run stands, for whoever watches.
struct TrainProgress {
  std::int64_t step = 0, steps = 0;  ///< Done, and to do in all.
  double loss = 0;                   ///< Cross-entropy of the step, nats a token.
  double lr = 0;
  double grad_norm = 0;
  double tokens_per_s = 0;  ///< Of the steps since the line before.
  double flops_per_s = 0;   ///< At 6 a multiplied parameter and token.
  std::optional<double> val_loss;
};

struct TrainRun {
  int threads = 1;
  bool resume = false;
  std::string build;  ///< The program's version, for its checkpoints.
  const std::atomic<bool>* interrupt = nullptr;
  std::function<void()> loaded;                            ///< All is read; from now on the run's folder is written.
  std::function<void(const std::string&)> tell;            ///< What is about to happen, a line at a time.
  std::function<void(const TrainProgress&)> show;          ///< After every step.
  std::function<void(const std::string& text)> show_text;  ///< A sample of what the model writes.
};

struct TrainResult {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> val_loss;  ///< The last that was computed.
  std::string checkpoint;          ///< The folder of the last one.
};

/// Trains as `config` says, into its folder:
///
///   metrics.jsonl, events.out.tfevents…   a line for every log.every steps
///   checkpoints/step-000100/              a Hugging Face folder and trainer_state; the last few and the best
///   last, best                            links to them
///   samples/step-000100.txt, taps/        where they are asked for
///
/// A step whose values are not finite moves nothing and is told of; after 50 of them in a row the run ends.
///
/// Throws BadInput where something in the config or the data is at fault, Interrupted after a checkpoint was saved,
/// OutOfCapacity. Whatever happens, checkpoints that were there stay whole.
TrainResult train(const TrainConfig& config, const TrainRun& run);

}  // namespace vitrine
