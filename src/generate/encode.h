// Vectors of whole texts: the rows of a model's first stack, pooled.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "generate/context.h"
#include "generate/read_texts.h"

namespace vitrine {

/// mean, max: of all rows, element by element. cls: the first row. last: the last row. pooler: the model's pooler.
enum class Pooling : std::uint8_t { mean, cls, max, last, pooler };

/// The pooling of this name: mean, cls, max, last or pooler. Throws BadInput.
Pooling pooling_named(std::string_view name);

struct EncodeOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = true;                 ///< Divides a vector by its length, unless it is 0.
  std::int64_t max_rows = kReadingRows;  ///< Of a pass, unless one text has more.
};

/// Makes one vector of the rows of a text, which arrive in any parts.
class RowPooler {
 public:
  /// Not for Pooling::pooler.
  RowPooler(Pooling pooling, bool normalize) : pooling_(pooling), normalizes_(normalize) {}

  /// Takes rows `[n, d]`; parts arrive in the order of the text.
  void add(const Tensor& rows);
  /// `[d]`. There must be at least one row.
  std::vector<float> vector() const;

 private:
  Pooling pooling_;
  bool normalizes_;
  std::int64_t n_ = 0;
  std::vector<double> sums_;
  std::vector<float> row_;  // the first, the last or the largest elements
};

/// Receives the vector of text number `i`.
using ReceiveVector = std::function<void(std::size_t i, std::span<const float> vector)>;

/// Passes the vectors `[d_model]` of all texts to `receive`, in an order that depends on their lengths: texts of
/// similar length share a pass. A vector does not depend on the other texts. Throws BadInput for a text that is empty
/// or exceeds the context, Unsupported for a model without a pooler, NotFinite.
void encode(const GenerateContext& context, std::span<const std::vector<std::int32_t>> texts,
            const EncodeOptions& options, const ReceiveVector& receive);

}  // namespace vitrine
