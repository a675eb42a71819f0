#include "generate/quantize_vectors.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

/// The bytes of a vector as numbers of their type.
std::vector<int> numbers_of(std::span<const float> vector, VectorPrecision precision, const VectorRanges& ranges) {
  std::vector<int> numbers;
  for (const std::uint8_t byte : quantized(vector, precision, ranges)) {
    numbers.push_back(is_signed(precision) ? static_cast<std::int8_t>(byte) : byte);
  }
  return numbers;
}

TEST(QuantizeVectors, EqualsSentenceTransformers) {
  const std::string path = goldens() + "/vector_precisions.json";
  const Json golden = parse_json(read_file(path), path);
  const auto vectors = golden["vectors"].get<std::vector<std::vector<float>>>();
  VectorRanges own;
  for (const auto& vector : vectors) own.add(vector);
  const auto given = golden["ranges"].get<std::vector<std::vector<float>>>();
  for (const auto precision :
       {VectorPrecision::int8, VectorPrecision::uint8, VectorPrecision::binary, VectorPrecision::ubinary}) {
    const std::string name(words(precision)[static_cast<std::size_t>(precision)]);
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      EXPECT_EQ(Json(numbers_of(vectors[i], precision, own)), golden["own"][name][i]) << name << ", vector " << i;
      if (!has_ranges(precision)) continue;
      EXPECT_EQ(Json(numbers_of(vectors[i], precision, {given[0], given[1]})), golden["given"][name][i]) << name;
    }
  }
}

TEST(QuantizeVectors, RangesHaveTheSizeOfTheVector) {
  const std::vector<float> vector = {1, 2};
  EXPECT_THROW(quantized(vector, VectorPrecision::int8, {{0}, {1}}), BadInput);
  EXPECT_EQ(quantized(vector, VectorPrecision::ubinary, {}), std::vector<std::uint8_t>{0xC0});
}

}  // namespace
}  // namespace vitrine::test
