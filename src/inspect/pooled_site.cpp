#include "inspect/pooled_site.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "inspect/text_pass.h"

namespace vitrine {
namespace {

/// Writes the vector of the rows [first, first + n) of a value to `to`.
void pool(const Tensor& value, std::int64_t first, std::int64_t n, bool is_mean, std::span<float> to) {
  if (!is_mean) {
    std::copy_n(value.row(first + n - 1), to.size(), to.begin());
    return;
  }
  std::vector<double> sum(to.size());
  for (std::int64_t t = first; t < first + n; ++t) {
    for (std::size_t i = 0; i < to.size(); ++i) sum[i] += static_cast<double>(value.row(t)[i]);
  }
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(sum[i] / static_cast<double>(n));
}

}  // namespace

std::vector<float> pooled_site(const GenerateContext& context, const SiteId& site, std::int64_t width, bool is_mean,
                               const TextIds& texts) {
  const auto size = static_cast<std::size_t>(width);
  std::vector<float> vectors(texts.ids.size() * size);
  std::span<const std::size_t> numbers;
  const std::vector<Segment>* segments = nullptr;
  bool is_met = false;
  SiteReader reader({site}, [&](Pass&, const SiteId&, const Tensor& value) {
    is_met = true;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const Segment& own = (*segments)[i];
      pool(value, own.first_row, own.length, is_mean, std::span(vectors).subspan(numbers[i] * size, size));
    }
  });
  read_texts(context, texts, kReadingRows,
             [&](Pass& pass, const std::vector<Segment>& of_pass, std::span<const std::size_t> own) {
               pass.taps = &reader;
               segments = &of_pass;
               numbers = own;
             });
  if (!is_met && !texts.ids.empty()) throw Unsupported(name_of(site), "a text alone does not reach the site");
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    if (std::isfinite(vectors[i])) continue;
    throw NotFinite(name_of(site), "text {}: the vector is infinite or NaN", i / size + 1);
  }
  return vectors;
}

}  // namespace vitrine
