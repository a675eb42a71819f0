// The checkpoints of a training run: written whole, found again, and thrown away when they are old.
//
//   FOLDER/checkpoints/step-000100/   model.safetensors, config.json, tokenizer: what load_checkpoint reads
//                                     trainer_state.json           step, losses, where it was made
//                                     trainer_state.safetensors    moments; masters of bf16 weights
//   FOLDER/last, FOLDER/best          links to two of them
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/optimizer.h"
#include "train/trainable.h"

namespace vitrine {

/// What a checkpoint says besides numbers of the model.
struct TrainerState {
  std::int64_t step = 0;             ///< Steps done; the data's place follows from it.
  std::int64_t optimizer_steps = 0;  ///< Those of them that moved the parameters.
  double loss = 0;
  std::optional<double> val_loss;
  std::string isa, build;  ///< Bits of a run that goes on elsewhere may differ.
  Json config;             ///< The config's words that the steps depend on.
};

class RunFolder {
 public:
  /// Makes the folder where it is not there. Throws BadInput where it cannot.
  explicit RunFolder(std::string path);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Steps of the checkpoints that are there, ascending.
  std::vector<std::int64_t> steps() const;
  std::string checkpoint(std::int64_t step) const;

  /// Writes a checkpoint, points `last` (and `best`) to it, then removes those beyond the last `keep_last` that are not
  /// the best.
  void save(const Trainable& trainable, const ModelFiles& files, Optimizer& optimizer, const TrainerState& state,
            std::int64_t keep_last, ThreadPool& pool);
  /// The state of a checkpoint. Throws BadCheckpoint where it is broken.
  TrainerState read_state(std::int64_t step) const;
  /// Fills moments, and masters beside bf16 weights. Throws BadCheckpoint.
  void read_arrays(std::int64_t step, const Trainable& trainable, Optimizer& optimizer) const;

 private:
  std::optional<std::int64_t> best() const;
  void link(const std::string& name, std::int64_t step) const;

  std::string path_;
};

}  // namespace vitrine
