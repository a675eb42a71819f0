// Where the rows come from that dictionaries learn: a file, or the forward of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace vitrine {

/// Batches of rows. A row has the values of several sites, one after another.
class ActivationSource {
 public:
  virtual ~ActivationSource() = default;

  /// The widths of the values, in the order in which a row has them.
  virtual const std::vector<std::int64_t>& widths() const = 0;
  std::int64_t row_size() const {
    std::int64_t n = 0;
    for (const std::int64_t width : widths()) n += width;
    return n;
  }
  /// Fills `[batch, row_size()]` with the rows of step number `step`. Steps ascend by one, from any first one. Throws
  /// what a forward throws.
  virtual void read(std::int64_t step, const Tensor& rows) = 0;
  /// A number that identifies the data.
  virtual std::uint64_t fingerprint() const = 0;
  /// For the run's first message.
  virtual std::string plan() const = 0;

 protected:
  ActivationSource() = default;
};

}  // namespace vitrine
