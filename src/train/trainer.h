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
#include <memory>
#include <optional>
#include <string>

#include "base/caller_poll.h"
#include "ranks/ranks.h"
#include "train/progress.h"
#include "train/start.h"
#include "train/train_config.h"

namespace vitrine {

struct TrainRun {
  int threads = 1;
  bool resume = false;
  std::string build;  ///< The program's version, for its checkpoints.
  const std::atomic<bool>* interrupt = nullptr;
  const std::atomic<bool>* enough = nullptr;  ///< When set, the run saves the step and ends, as if it had no more.
  CallerPoll* poll = nullptr;                 ///< Of the thread that runs the steps.
  Ranks* ranks = nullptr;                     ///< Null: this process alone.
  Shard shard = Shard::none;
  std::string config_file;                         ///< All ranks must have the same; "": not compared.
  std::function<void()> loaded;                    ///< Called when all inputs are read, before any file is written.
  std::function<void(const std::string&)> tell;    ///< Receives messages, one line at a time.
  std::function<void(const TrainProgress&)> show;  ///< Called after every step.
  std::function<void(const std::string& text)> show_text;  ///< Receives samples of generated text.
};

/// A run, step by step:
///
///   Trainer trainer(config, run);
///   while (trainer.step()) show(trainer.progress());
///   const TrainResult result = trainer.finish();
///
/// Between two steps, passes may run on the model. The functions throw as train() does.
class Trainer {
 public:
  /// Reads all inputs. The first step writes the first file. Throws Unsupported for [sae] and [lens], which train()
  /// runs.
  Trainer(const TrainConfig& config, TrainRun run);
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  bool step();           ///< Runs one step. Returns false, without effect, if the run has no further one.
  TrainResult finish();  ///< Saves a checkpoint of the last step, unless it has one.
  const TrainProgress& progress() const;  ///< Of the last step.
  const Start& start() const;             ///< The model, which every step changes, and the files of its checkpoints.
  /// Writes the model as it is into `folder`, which must exist.
  void save(const std::string& folder);

 private:
  class Run;
  std::unique_ptr<Run> run_;
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
