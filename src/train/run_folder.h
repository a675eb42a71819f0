// The checkpoints of a training run: writing them, finding them, and deleting old ones.
//
//   FOLDER/checkpoints/step-000100/   model.safetensors, config.json, tokenizer, for load_checkpoint
//                                     trainer_state.json           step, losses, the program's version
//                                     trainer_state.safetensors    moments; masters of bf16 weights
//   FOLDER/last, FOLDER/best          links to the last checkpoint and the one with the lowest validation loss among
//                                     those that were validated at their step
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "metrics/metrics.h"
#include "train/optimizer.h"
#include "train/train_config.h"
#include "train/trainable.h"

namespace vitrine {

/// The part of a config that a checkpoint stores. A run can be resumed only with the same `fixed` values. Its `free`
/// values may differ, but then the steps are not those of an uninterrupted run.
struct RunWords {
  Json fixed, free;
};

RunWords words_of(const TrainConfig& config, const TrainingData& corpus);
/// The free values of the optimizer and the learning rate.
Json rate_words(const TrainConfig& config);

/// Compares a checkpoint's values with the config's. Throws BadInput, with the run's folder, if a fixed value differs;
/// reports each free value that differs to `tell`.
void check_words(const RunWords& before, const RunWords& now, const std::string& folder,
                 const std::function<void(const std::string&)>& tell);

/// The state of a run, without its arrays.
struct TrainerState {
  std::int64_t step = 0;             ///< Steps done; the number determines the place in the data.
  std::int64_t optimizer_steps = 0;  ///< Those that changed the parameters.
  double loss = 0;
  std::optional<double> val_loss;  ///< Of this step, if it was validated.
  std::string isa, build;          ///< If they differ, the bits of the results may differ.
  RunWords words;                  ///< Of the config.
  Json unfinished;                 ///< Metrics of the step, if the run ended before they were written; else null.
  Json more;                       ///< Of dictionaries: the numbers that are not in arrays; else null.
};

/// The masters of bf16 weights, and of the corrections of routers, which are float32; none of f32 weights, which are
/// their own.
std::vector<OptimizerArray> masters_of(const Trainable& trainable);
/// Fills a moment or a master from a checkpoint.
using ReadArray = std::function<void(const OptimizerArray& array)>;

/// The steps that have a checkpoint in a run's folder, ascending. Throws BadInput if the folder cannot be read.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);
std::string checkpoint_path(const std::string& folder, std::int64_t step);

/// A run's folder, locked against other processes.
class RunFolder {
 public:
  /// Changes nothing. Throws BadInput if another process trains into the folder, or if the path is not a folder.
  explicit RunFolder(std::string path);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  /// Creates the folder if necessary, and removes incomplete checkpoints of a process that was killed. Throws BadInput
  /// if this fails, or if `last` or `best` exists and is not a link.
  void prepare();

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::int64_t> steps() const { return checkpoint_steps(path_); }
  std::string checkpoint(std::int64_t step) const { return checkpoint_path(path_, step); }

  /// The step to continue from; none for a new run, and for one that has no checkpoint yet. Throws BadInput if
  /// `resumes` and there is no run, or not and there is one.
  std::optional<std::int64_t> step_to_resume(bool resumes) const;
  /// Writes a checkpoint, updates the links `last` and `best`, then removes all but the last `keep_last` checkpoints
  /// and the best.
  void save(const Trainable& trainable, const ModelFiles& files, Optimizer& optimizer, const TrainerState& state,
            std::int64_t keep_last, ThreadPool& pool, const Hold& hold = {});
  /// The same for any parameters: `write` writes the files of a checkpoint into a folder, `arrays` are the rest of the
  /// state.
  void save(const TrainerState& state, std::span<const OptimizerArray> arrays, std::int64_t keep_last,
            const std::function<void(const std::string& folder)>& write, const Hold& hold = {});
  /// Writes samples/step-….txt.
  void write_sample(std::int64_t step, const std::string& text) const;
  /// The state of a checkpoint. Throws BadCheckpoint if it is invalid.
  TrainerState read_state(std::int64_t step) const;
  /// Reads the moments, and the masters of bf16 weights, one by one. Throws BadCheckpoint if an array is missing or
  /// does not fit.
  ReadArray open_arrays(std::int64_t step, const Trainable& trainable, Optimizer& optimizer) const;
  ReadArray open_arrays(std::int64_t step, std::span<const OptimizerArray> arrays) const;

 private:
  void lock();
  std::optional<std::int64_t> best() const;
  void link(const std::string& name, std::int64_t step) const;

  std::string path_;
  int lock_ = -1;
};

/// The metrics of the last step, if the run ended before it wrote them. null represents a value that is not finite.
/// Throws BadCheckpoint, which `where` begins.
std::vector<Metric> metrics_of(const Json& unfinished, const std::string& where);

}  // namespace vitrine
