#include "cli/vector_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/npy.h"
#include "cli/output.h"

namespace vitrine::cli {
namespace {

/// The numbers of a vector in a precision.
Json numbers_of(std::span<const float> vector, VectorPrecision precision, const VectorRanges& ranges) {
  if (precision == VectorPrecision::float32) return std::vector<float>(vector.begin(), vector.end());
  std::vector<int> numbers;
  for (const std::uint8_t byte : quantized(vector, precision, ranges)) {
    numbers.push_back(is_signed(precision) ? static_cast<int>(static_cast<std::int8_t>(byte)) : static_cast<int>(byte));
  }
  return numbers;
}

std::string line_of(const Json& numbers) {
  std::vector<std::string> words;
  for (const Json& x : numbers) {
    words.push_back(x.is_number_float() ? fmt::format("{}", x.get<float>()) : fmt::format("{}", x.get<int>()));
  }
  return fmt::format("{}\n", fmt::join(words, " "));
}

}  // namespace

VectorPrecision precision_named(std::string_view name) {
  constexpr auto kNames = words(VectorPrecision());
  return static_cast<VectorPrecision>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
}

void VectorOutput::add(std::vector<std::int32_t> ids, TextVectors vectors) {
  Text text{std::move(ids), std::move(vectors)};
  if (!needs_all()) return show(text);
  waiting_.push_back(std::move(text));
}

void VectorOutput::keep(const TextVectors& vectors) {
  const bool has_bits = o_.precision == VectorPrecision::binary || o_.precision == VectorPrecision::ubinary;
  width_ = has_bits ? (vectors.d + 7) / 8 : vectors.d;
  for (std::int64_t i = 0; i < vectors.n; ++i) {
    std::vector<std::uint8_t> codes;
    std::span<const std::byte> bytes = std::as_bytes(vectors.row(i));
    if (o_.precision != VectorPrecision::float32) {
      codes = quantized(vectors.row(i), o_.precision, o_.ranges);
      bytes = std::as_bytes(std::span(codes));
    }
    all_.insert(all_.end(), bytes.begin(), bytes.end());
    ++n_rows_;
  }
}

void VectorOutput::show(const Text& text) {
  const TextVectors& vectors = text.vectors;
  if (!o_.out.empty()) keep(vectors);
  if (!o_.out.empty() && !o_.json) return;
  if (o_.is_sparse) {
    const std::vector<WordWeight> weights = sparse_of(vectors.row(0));
    Json indices = Json::array(), values = Json::array(), tokens = Json::array();
    std::string line;
    for (const WordWeight& w : weights) {
      indices.push_back(w.id);
      values.push_back(w.weight);
      tokens.push_back(piece_(w.id));
      line += fmt::format("{}{}:{}", line.empty() ? "" : " ", piece_(w.id), w.weight);
    }
    if (!o_.json) return print(line + "\n");
    return print(Json({{"ids", text.ids}, {"indices", indices}, {"values", values}, {"tokens", tokens}}).dump() + "\n");
  }
  Json rows = Json::array();
  for (std::int64_t i = 0; i < vectors.n; ++i) rows.push_back(numbers_of(vectors.row(i), o_.precision, o_.ranges));
  if (o_.json) {
    const Json embedding = o_.has_tokens ? rows : rows[0];
    return print(Json({{"ids", text.ids}, {"embedding", embedding}}).dump() + "\n");
  }
  for (const Json& row : rows) print(line_of(row));
  if (o_.has_tokens) print("\n");
}

void VectorOutput::finish() {
  if (needs_all()) {
    std::int64_t n = 0;
    VectorRanges ranges;
    for (const Text& text : waiting_) {
      n += text.vectors.n;
      for (std::int64_t i = 0; i < text.vectors.n; ++i) ranges.add(text.vectors.row(i));
    }
    if (n == 1)
      throw BadInput("--precision", "expected --ranges, or several vectors whose ranges could be used, got 1");
    o_.ranges = std::move(ranges);
    for (const Text& text : waiting_) show(text);
  }
  if (o_.out.empty()) return;
  const NpyType type = o_.precision == VectorPrecision::float32 ? NpyType::float32
                       : is_signed(o_.precision)                ? NpyType::int8
                                                                : NpyType::uint8;
  NpyWriter writer(o_.out, n_rows_, width_, type);
  writer.add(all_);
  writer.commit();
  if (!o_.json) print(fmt::format("{}: {} {}\n", o_.out, name_of(type), to_string(Shape{n_rows_, width_})));
}

}  // namespace vitrine::cli
