// Whole texts in passes: those of similar length share one, packed without padding.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "generate/context.h"
#include "model/text_steps.h"

namespace vitrine {

/// Ids of texts and, if any text is a pair, the types of their tokens; empty types are all 0. `marks`, if there are
/// any, say what steps after the stack know of each text.
struct TextIds {
  std::span<const std::vector<std::int32_t>> ids;
  std::span<const std::vector<std::int32_t>> types{};
  std::span<const TextMarks> marks{};
};

/// The rows of a pass over whole texts, unless a caller chooses another number. Their values stay in the second-level
/// cache: 2,048 rows take 8 % longer a row at widths of 384 and 768, and 140 MB more at 768.
constexpr std::int64_t kReadingRows = 384;

/// Receives a pass before it runs, to set what it delivers. `segments` are those of texts `numbers`, in this order.
using PreparePass =
    std::function<void(Pass& pass, const std::vector<Segment>& segments, std::span<const std::size_t> numbers)>;

/// Runs the model's first stack over all texts, in passes of at most `max_rows` rows, unless one text has more. No
/// value of a text depends on the others. Throws BadInput for a text that is empty or exceeds the context, or whose
/// types do not fit.
void read_texts(const GenerateContext& context, const TextIds& texts, std::int64_t max_rows,
                const PreparePass& prepare);

/// Throws NotFinite, with the row within the text, if the segment of a text has failed.
void check_text(const Segment& segment);

}  // namespace vitrine
