#include "cli/row_range.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace vitrine::cli {

RowSelection parse_rows(const std::string& text, std::int64_t n) {
  const std::size_t colon = text.find(':');
  const auto place = [&](const std::string& part, std::int64_t otherwise) {
    if (part.empty()) return otherwise;
    const auto value = number_in<std::int64_t>(part);
    if (!value) throw BadInput("--rows", "expected A:B, got \"{}\"", text);
    return *value < 0 ? *value + n : *value;
  };
  RowSelection rows;
  if (text.empty()) throw BadInput("--rows", "expected A:B, got an empty text");
  if (colon == std::string::npos) {
    rows.begin = place(text, 0);
    rows.end = rows.begin + 1;
  } else {
    rows = {place(text.substr(0, colon), 0), place(text.substr(colon + 1), n)};
  }
  if (rows.begin < 0 || rows.end > n || rows.begin >= rows.end) {
    throw BadInput("--rows", "expected rows within a text of {} tokens, got {}", n, text);
  }
  return rows;
}

Tensor rows_of(const SiteId& id, const Tensor& value, const RowSelection& rows, std::int64_t n,
               std::vector<float>& memory) {
  const std::span<const Dim> dims = info(id).shape.dims();
  const bool by_head = dims.size() > 1 && dims[1] == dims::T;  // [H, T, S]
  const std::int64_t n_rows = by_head ? value.shape[1] : value.shape[0];
  const bool has_rows =
      (by_head || dims[0] == dims::T || dims[0] == dims::T_1 || dims[0] == dims::R) && n_rows >= n - 1 && n_rows <= n;
  if (!has_rows) return value;
  const std::int64_t end = std::min(rows.end, n_rows), begin = std::min(rows.begin, end);
  if (!by_head) return value.row_range(begin, end - begin);
  const std::int64_t size = value.shape[2];
  memory.clear();
  for (std::int64_t h = 0; h < value.shape[0]; ++h) {
    const float* const from = value.row(h);
    memory.insert(memory.end(), from + begin * size, from + end * size);
  }
  return {memory.data(), {value.shape[0], end - begin, size}};
}

}  // namespace vitrine::cli
