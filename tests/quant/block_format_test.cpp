// Compares every block format with the results of ggml's own tools (tools/goldens quantized_blocks).
#include "quant/block_format.h"

#include <gtest/gtest.h>

#include <cstring>
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
    EXPECT_EQ(formats.contains(dtype), is_blocks(dtype) && dtype < DType::mxfp4_pairs) << name_of(dtype);
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

}  // namespace
}  // namespace vitrine::test
