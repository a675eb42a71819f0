// Compares every block format with the results of ggml's own tools (tools/make_block_goldens.py).
#include "quant/block_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

SafetensorsFile block_goldens() { return SafetensorsFile::open(source_dir() + "/tests/quant/blocks.safetensors"); }

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> floats(tensor.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), tensor.bytes.data(), tensor.bytes.size());
  return floats;
}

TEST(BlockFormat, ExistsForEveryTypeOfBlocks) {
  std::set<DType> formats;
  for (const BlockFormat& format : all_block_formats()) formats.insert(format.dtype);
  EXPECT_EQ(formats.size(), all_block_formats().size());
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(formats.contains(dtype), is_blocks(dtype)) << name_of(dtype);
  }
  EXPECT_THROW(block_format(DType::f16), InternalError);
}

TEST(BlockFormat, DequantizesToTheSameBitsAsGgml) {
  const SafetensorsFile file = block_goldens();
  for (const BlockFormat& format : all_block_formats()) {
    const std::string name(name_of(format.dtype));
    const StoredTensor& blocks = file.tensors().at(name + ".blocks");
    const std::vector<float> expected = floats_of(file.tensors().at(name + ".values"));
    const auto n = static_cast<std::int64_t>(expected.size());
    ASSERT_EQ(bytes_of(format.dtype, n), static_cast<std::int64_t>(blocks.bytes.size())) << name;
    std::vector<float> values(expected.size());
    dequantize_row(format.dtype, blocks.bytes.data(), n, values.data());
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0) << name;
  }
}

TEST(BlockFormat, QuantizesToTheSameBytesAsGgml) {
  const SafetensorsFile file = block_goldens();
  int formats = 0;
  for (const BlockFormat& format : all_block_formats()) {
    if (format.quantize == nullptr) continue;
    ++formats;
    const std::string name(name_of(format.dtype));
    const std::vector<float> source = floats_of(file.tensors().at(name + ".source"));
    const StoredTensor& expected = file.tensors().at(name + ".quantized");
    std::vector<std::byte> bytes(expected.bytes.size());
    const auto n = static_cast<std::int64_t>(source.size());
    ASSERT_EQ(bytes_of(format.dtype, n), static_cast<std::int64_t>(bytes.size())) << name;
    quantize_row(format.dtype, source.data(), n, bytes.data(), "w");
    for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], expected.bytes[i]) << name << ", byte " << i;
  }
  EXPECT_GE(formats, 2);
}

TEST(BlockFormat, RefusesValuesOutOfRange) {
  for (const BlockFormat& format : all_block_formats()) {
    const auto n = static_cast<std::size_t>(block_size(format.dtype).elements);
    std::vector<std::byte> block(static_cast<std::size_t>(block_size(format.dtype).bytes));
    std::vector<float> x(n, 1.0F);
    const auto quantize = [&] {
      quantize_row(format.dtype, x.data(), static_cast<std::int64_t>(n), block.data(), "w");
    };
    if (format.quantize == nullptr) {
      EXPECT_THROW(quantize(), Unsupported) << name_of(format.dtype);
      continue;
    }
    EXPECT_NO_THROW(quantize());
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38F}) {
      x[n / 2] = bad;
      EXPECT_THROW(quantize(), BadInput) << name_of(format.dtype) << " " << bad;
    }
    x.assign(n, 1e-42F);  // the scale underflows to 0 as a half
    EXPECT_NO_THROW(quantize());
    std::vector<float> y(n, 1.0F);
    dequantize_row(format.dtype, block.data(), static_cast<std::int64_t>(n), y.data());
    EXPECT_EQ(y, std::vector<float>(n, 0.0F)) << name_of(format.dtype);
  }
}

}  // namespace
}  // namespace vitrine::test
