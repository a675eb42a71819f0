// The speed of this machine's memory and of vitrine's products on it, measured once and kept in a file.
#pragma once

#include <string>

#include "base/json.h"
#include "cli/measure.h"

namespace vitrine::cli {

/// Rates by processor, number of threads, instruction set and build. They are kept in `vitrine/rates.json` in
/// $XDG_CACHE_HOME, or in ~/.cache: what is there is not measured again. A file that cannot be read or written changes
/// nothing else; deleting it measures anew.
class MachineRates {
 public:
  explicit MachineRates(ThreadPool& pool);

  /// The memory bandwidth (measure_reading), in bytes per second.
  double read_bytes_per_s();
  ProductRates products(DType type, Compute compute);

 private:
  void forget_busy();
  void keep();

  ThreadPool& pool_;
  std::string path_;  // "": nowhere
  std::string machine_;
  Json own_;  // the rates of this machine
};

}  // namespace vitrine::cli
