// Quantization: every instruction set gives the same bytes, which are at least as close to the elements as those of
// ggml's own tools (tools/goldens quantized_blocks).
#include "kernels/quantize.h"

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "kernels/kernel_testing.h"
#include "quant/block_format.h"
#include "support/data.h"

namespace vitrine {
namespace {

std::vector<DType> formats() {
  std::vector<DType> out;
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (can_quantize(dtype) && dtype != DType::mxfp4) out.push_back(dtype);
  }
  return out;
}

struct Elements {
  std::vector<float> x;
  std::int64_t rows, cols;
};

std::vector<std::byte> quantized(const Kernels& k, DType dtype, const Elements& e, const float* importance) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(dtype, e.rows * e.cols)));
  quantize_rows(k, dtype, e.x.data(), e.rows, e.cols, importance, bytes.data(), "w");
  return bytes;
}

std::vector<float> dequantized(DType dtype, std::span<const std::byte> bytes, std::int64_t n) {
  std::vector<float> y(static_cast<std::size_t>(n));
  dequantize_row(dtype, bytes.data(), n, y.data());
  return y;
}

/// Σ w (x − y)² of one row.
double error_of(std::span<const float> x, std::span<const float> y, std::span<const float> w) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    sum += (w.empty() ? 1.0 : static_cast<double>(w[i])) * difference * difference;
  }
  return sum;
}

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> floats(tensor.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), tensor.bytes.data(), tensor.bytes.size());
  return floats;
}

struct Goldens {
  SafetensorsFile file = SafetensorsFile::open(test::source_dir() + "/tests/quant/blocks.safetensors");
  Elements source = {floats_of(file.tensors().at("source")), 12, 512};
  std::vector<float> importance = floats_of(file.tensors().at("importance"));

  std::span<const std::byte> of_ggml(DType dtype, bool weighted) const {
    return file.tensors().at(std::string(name_of(dtype)) + (weighted ? ".weighted" : ".quantized")).bytes;
  }
};

TEST(Quantize, SimpleFormatsHaveTheBytesOfGgml) {
  const Goldens goldens;
  for (const DType dtype : {DType::q8_0, DType::q4_0, DType::mxfp4}) {
    const std::vector<std::byte> bytes = quantized(default_kernels(), dtype, goldens.source, nullptr);
    const std::span<const std::byte> expected = goldens.of_ggml(dtype, false);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end())) << name_of(dtype);
  }
}

/// Over all rows, relative to their sizes. A single row of few different values may be a little worse: the search also
/// weighs large elements, as ggml does, and the measure here is the importance alone.
TEST(Quantize, IsAsCloseAsGgml) {
  const Goldens goldens;
  const auto cols = static_cast<std::size_t>(goldens.source.cols);
  for (const DType dtype : formats()) {
    for (const bool weighted : {false, true}) {
      const std::span<const float> w = weighted ? std::span<const float>(goldens.importance) : std::span<const float>();
      const std::int64_t n = goldens.source.rows * goldens.source.cols;
      const std::vector<float> y = dequantized(dtype, quantized(default_kernels(), dtype, goldens.source, w.data()), n);
      const std::vector<float> theirs = dequantized(dtype, goldens.of_ggml(dtype, weighted), n);
      double sum = 0, sum_of_theirs = 0;
      for (std::size_t row = 0; row < 12; ++row) {
        const auto part = [&](const std::vector<float>& v) { return std::span(v).subspan(row * cols, cols); };
        const double error = error_of(part(goldens.source.x), part(y), w);
        const double of_theirs = error_of(part(goldens.source.x), part(theirs), w);
        const double size = error_of(part(goldens.source.x), std::vector<float>(cols), w);
        EXPECT_LE(error, 1.2 * of_theirs + 1e-4 * size) << name_of(dtype) << ", row " << row << ", " << weighted;
        const bool is_lost = of_theirs >= 0.9 * size;  // zeros, and too small for the format
        if (!is_lost) sum += error / size, sum_of_theirs += of_theirs / size;
      }
      EXPECT_LE(sum, sum_of_theirs) << name_of(dtype) << ' ' << weighted;
    }
  }
}

class QuantizeIsas : public EachIsa {};

TEST_P(QuantizeIsas, GiveTheBytesOfTheScalarTable) {
  const Kernels& scalar = kernels_for(Isa::scalar);
  std::uint32_t seed = 20;
  for (const DType dtype : formats()) {
    for (const std::int64_t cols : {block_size(dtype).elements, std::int64_t{768}}) {
      Elements e = {numbers(5 * cols, Numbers::ordinary, ++seed), 5, cols};
      for (std::int64_t i = 0; i < cols; ++i) {
        e.x[static_cast<std::size_t>(i)] = 0;                            // a row of zeros,
        e.x[static_cast<std::size_t>(cols + i)] = i % 2 ? 1.5F : -1.5F;  // of two values,
        e.x[static_cast<std::size_t>(2 * cols + i)] *= 1e-30F;           // and of elements that are too small
      }
      std::vector<float> importance = numbers(cols, Numbers::ordinary, ++seed);
      for (float& w : importance) w = w < 0 ? 0 : w * 1e20F;
      for (const float* const w : {static_cast<const float*>(nullptr), static_cast<const float*>(importance.data())}) {
        EXPECT_EQ(quantized(kernels(), dtype, e, w), quantized(scalar, dtype, e, w)) << name_of(dtype) << ' ' << cols;
      }
    }
  }
}

TEST_P(QuantizeIsas, ARowHasTheSameBytesAloneAndAmongOthers) {
  for (const DType dtype : formats()) {
    const std::int64_t cols = 768, rows = 7;
    const Elements all = {numbers(rows * cols, Numbers::ordinary, 4), rows, cols};
    std::vector<float> importance = numbers(cols, Numbers::ordinary, 5);
    for (float& w : importance) w *= w;
    const std::vector<std::byte> together = quantized(kernels(), dtype, all, importance.data());
    const auto bytes = static_cast<std::size_t>(bytes_of(dtype, cols));
    for (std::size_t r = 0; r < 7; ++r) {
      const auto first = all.x.begin() + static_cast<std::ptrdiff_t>(r) * cols;
      const std::vector<std::byte> alone =
          quantized(kernels(), dtype, {{first, first + cols}, 1, cols}, importance.data());
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<std::ptrdiff_t>(r * bytes)))
          << name_of(dtype) << ", row " << r;
    }
  }
}

/// An element whose importance is 0 is still stored, as well as the others allow; importances that are all 0, or too
/// small to be scaled, count as none.
TEST_P(QuantizeIsas, ZeroImportanceIsNoReasonForGarbage) {
  for (const DType dtype : formats()) {
    const std::int64_t cols = 512;
    const Elements e = {numbers(cols, Numbers::ordinary, 6), 1, cols};
    std::vector<float> importance(static_cast<std::size_t>(cols), 1.0F);
    std::fill(importance.begin() + 100, importance.begin() + 300, 0.0F);
    for (const float factor : {1.0F, 1e-38F, 0.0F}) {
      for (float& w : importance) w *= factor;
      const std::vector<float> y = dequantized(dtype, quantized(kernels(), dtype, e, importance.data()), cols);
      EXPECT_LT(error_of(e.x, y, {}), 0.25 * error_of(e.x, std::vector<float>(e.x.size()), {})) << name_of(dtype);
    }
  }
}

TEST_P(QuantizeIsas, RefuseElementsOutOfRange) {
  for (const DType dtype : formats()) {
    Elements e = {std::vector<float>(256, 1.0F), 1, 256};
    const std::vector<float> importance(256, 1.0F);
    const auto try_all = [&] {
      quantized(kernels(), dtype, e, nullptr);
      quantized(kernels(), dtype, e, importance.data());
    };
    EXPECT_NO_THROW(try_all()) << name_of(dtype);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), 3e38F, -3e38F, 1e12F}) {
      e.x[77] = bad;
      EXPECT_THROW(quantized(kernels(), dtype, e, nullptr), BadInput) << name_of(dtype) << ' ' << bad;
      EXPECT_THROW(quantized(kernels(), dtype, e, importance.data()), BadInput) << name_of(dtype) << ' ' << bad;
    }
    e.x.assign(256, 1e-42F);  // the scale underflows to 0 as a half
    EXPECT_NO_THROW(try_all());
    EXPECT_EQ(dequantized(dtype, quantized(kernels(), dtype, e, nullptr), 256), std::vector<float>(256, 0.0F));
  }
  std::byte block[17];
  const float zeros[32] = {};
  EXPECT_THROW(quantize_rows(kernels(), DType::mxfp4_pairs, zeros, 1, 32, nullptr, block, "w"), Unsupported);
}

/// As ggml's reference defines the bytes: the exponent follows from the largest magnitude, and the codes are tried in
/// their order.
TEST_P(QuantizeIsas, Mxfp4HasTheNearestOfTheSixteenValues) {
  constexpr float kValues[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  std::mt19937 random(2);
  for (int run = 0; run < 200; ++run) {
    float x[32];
    const float size = std::ldexp(1.0F, static_cast<int>(random() % 60) - 40);
    for (float& value : x) value = size * static_cast<float>(static_cast<int>(random() % 33) - 16) / 8.0F;
    if (run == 0) std::fill(std::begin(x), std::end(x), 0.0F);
    std::byte block[17];
    quantize_rows(kernels(), DType::mxfp4, x, 1, 32, nullptr, block, "w");
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::abs(value));
    const int e = largest > 0 ? static_cast<int>(std::floor(std::log2(largest))) + 125 : 0;
    ASSERT_EQ(std::to_integer<int>(block[0]), e);
    for (int i = 0; i < 32; ++i) {
      int best = 0;
      for (int code = 1; code < 16; ++code) {
        const auto error = [&](int of) { return std::abs(std::ldexp(kValues[of], e - 128) - x[i]); };
        if (error(code) < error(best)) best = code;
      }
      ASSERT_EQ(std::to_integer<int>(block[1 + i % 16]) >> (i / 16 * 4) & 15, best) << x[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, QuantizeIsas, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace vitrine
