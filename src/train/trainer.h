// Training: steps over a corpus, with checkpoints and a log.
//
//   step   batch(step) ─▶ micro-batches: forward, loss, backward ─▶ gradients ─▶ clip, update     (Learner)
//   run    plan ─▶ step, step, … with metrics, validation, samples and checkpoints in between        (train)
//
// A step is a pure function of the config, the parameters and its number, so a run that is resumed from a checkpoint
// computes the bits of a run that was never stopped.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "ranks/ranks.h"
#include "train/train_config.h"

namespace vitrine {

struct TrainProgress {
  std::int64_t step = 0, steps = 0;  ///< Steps done, and all steps of the run.
  double loss = 0;                   ///< Cross-entropy of the step, nats per token.
  double lr = 0;
  double grad_norm = 0;
  double tokens_per_s = 0;  ///< Over the steps since the last line of metrics.
  std::optional<double> val_loss;
};

struct TrainRun {
  int threads = 1;
  bool resume = false;
  std::string build;  ///< The program's version, for its checkpoints.
  const std::atomic<bool>* interrupt = nullptr;
  const std::atomic<bool>* enough = nullptr;  ///< When set, the run saves the step and ends, as if it had no more.
  Ranks* ranks = nullptr;                     ///< Null: this process alone.
  Shard shard = Shard::none;
  std::string config_file;                         ///< All ranks must have the same; "": not compared.
  std::function<void()> loaded;                    ///< Called when all inputs are read, before any file is written.
  std::function<void(const std::string&)> tell;    ///< Receives messages, one line at a time.
  std::function<void(const TrainProgress&)> show;  ///< Called after every step.
  std::function<void(const std::string& text)> show_text;  ///< Receives samples of generated text.
};

struct TrainResult {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> val_loss;  ///< The last one.
  std::string checkpoint;          ///< The folder of the last checkpoint.
  Json cluster;                    ///< Of several ranks: ClusterLog::summary(); else null.
};

/// Trains as `config` specifies, and writes to its folder:
///
///   metrics.jsonl, events.out.tfevents…   a line every log.every steps
///   checkpoints/step-000100/              a Hugging Face folder and trainer_state; the last few and the best
///   last, best                            links to them
///   samples/step-000100.txt, taps/        if the config enables them
///
/// A step whose values are not finite, or whose batch has no target, changes nothing and is reported. After 50 steps in
/// a row whose values are not finite, the run ends with BadInput.
///
/// Several ranks call train() with the same config. They share the micro-batches of each step and compute the bits of
/// one rank. Rank 0 alone writes files, and receives messages and progress; ranks.jsonl has a line per rank for each
/// line of metrics. A stop that any of them requests happens on all after the same step.
///
/// Throws BadInput for errors in the config or the data, OutOfCapacity, Interrupted, PeerLost. Before it throws, it
/// saves the last complete step, unless ranks that have parts of it are lost. If that also fails, it reports so or
/// throws that error. Older checkpoints remain complete.
TrainResult train(const TrainConfig& config, const TrainRun& run);

}  // namespace vitrine
