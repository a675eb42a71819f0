// The checkpoints of a training run: written whole, found again, and thrown away when they are old.
//
//   FOLDER/checkpoints/step-000100/   model.safetensors, config.json, tokenizer: what load_checkpoint reads
//                                     trainer_state.json           step, losses, where it was made
//                                     trainer_state.safetensors    moments; masters of bf16 weights
//   FOLDER/last, FOLDER/best          links to the last one, and to that with the least validation loss of those
//                                     that were validated at their step
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/optimizer.h"
#include "train/run_words.h"
#include "train/trainable.h"

namespace vitrine {

/// What a checkpoint says besides numbers of the model.
struct TrainerState {
  std::int64_t step = 0;             ///< Steps done; the data's place follows from it.
  std::int64_t optimizer_steps = 0;  ///< Those of them that moved the parameters.
  double loss = 0;
  std::optional<double> val_loss;  ///< Of this step, where there was a validation.
  std::string isa, build;          ///< Bits of a run that goes on elsewhere may differ.
  RunWords words;                  ///< The config's, which the steps depend on.
  Json unfinished;  ///< Metrics of the step, where it was interrupted before they were written; else null.
};

/// One process at a time: whoever holds one has the folder for itself.
class RunFolder {
 public:
  /// Changes nothing. Throws BadInput where another process trains into the folder, or it is none.
  explicit RunFolder(std::string path);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  /// Makes the folder where it is not there, and removes what a process that was killed has left half done. Throws
  /// BadInput where it cannot, or where something else stands in the way.
  void prepare();

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Steps of the checkpoints that are there, ascending.
  std::vector<std::int64_t> steps() const;
  std::string checkpoint(std::int64_t step) const;

  /// Writes a checkpoint, points `last` (and `best`) to it, then removes those beyond the last `keep_last` that are not
  /// the best.
  void save(const Trainable& trainable, const ModelFiles& files, Optimizer& optimizer, const TrainerState& state,
            std::int64_t keep_last, ThreadPool& pool);
  /// Writes samples/step-….txt.
  void write_sample(std::int64_t step, const std::string& text) const;
  /// The state of a checkpoint. Throws BadCheckpoint where it is broken.
  TrainerState read_state(std::int64_t step) const;
  /// Fills moments, and masters beside bf16 weights. Throws BadCheckpoint.
  void read_arrays(std::int64_t step, const Trainable& trainable, Optimizer& optimizer) const;

 private:
  void lock();
  std::optional<std::int64_t> best() const;
  void link(const std::string& name, std::int64_t step) const;

  std::string path_;
  int lock_ = -1;
};

}  // namespace vitrine
