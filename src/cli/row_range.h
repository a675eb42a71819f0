// A range of positions on the command line, A:B, and the part of a value that it selects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pass/sites.h"
#include "tensor/tensor.h"

namespace vitrine::cli {

/// Positions [begin, end) of a text.
struct RowSelection {
  std::int64_t begin = 0, end = 0;
};

/// Parses A:B, :B, A: or a single position; negative numbers count from the end of the `n` positions. Throws BadInput
/// if it selects nothing or is out of range.
RowSelection parse_rows(const std::string& text, std::int64_t n);

/// The part of the value at a site that belongs to the rows, copied into `memory`. Values without rows of the text
/// (those of experts, and of whole texts) are returned as they are.
Tensor rows_of(const SiteId& id, const Tensor& value, const RowSelection& rows, std::int64_t n,
               std::vector<float>& memory);

}  // namespace vitrine::cli
