// llama2.c files with absurd headers: each loads and runs, or is rejected with an error that names the file.
#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"
#include "checkpoint/hostile_folder.h"

namespace vitrine::test {
namespace {

using Header = std::array<std::int32_t, 7>;  // dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len

constexpr Header kGood = {8, 12, 2, 2, 1, -11, 16};

std::string header_text(const Header& header) { return {reinterpret_cast<const char*>(header.data()), sizeof header}; }

/// A header and the small random weights that it requires.
std::string file_of(const Header& h) {
  const std::int64_t d = h[0], ff = h[1], layers = h[2], head = d / h[3], kv = head * h[4], vocab = std::abs(h[5]);
  const std::int64_t floats =
      vocab * d * (h[5] < 0 ? 2 : 1) + layers * (2 * d + 2 * d * d + 2 * kv * d + 3 * ff * d) + d + h[6] * head;
  std::string text = header_text(h);
  for (std::int64_t i = 0; i < floats; ++i) {
    const auto value = static_cast<float>(uniform(9, 0, static_cast<std::uint64_t>(i)) - 0.5);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return text;
}

class HostileLlama2c : public testing::Test {
 protected:
  std::string refusal_of(const std::string& bytes) {
    write_file(path, bytes);
    return refusal(path);
  }

  const TempFolder folder;
  const std::string path = folder / "model.bin";
};

TEST_F(HostileLlama2c, GoodFilesLoad) {
  EXPECT_EQ(refusal_of(file_of(kGood)), "");
  EXPECT_EQ(refusal_of(file_of({8, 12, 2, 2, 1, 11, 16})), "") << "a tied head";
  EXPECT_EQ(refusal_of(file_of({2, 1, 1, 1, 1, 1, 3})), "") << "the smallest";
}

TEST_F(HostileLlama2c, EveryFieldMayBeAbsurd) {
  const std::string good = file_of(kGood);
  for (std::size_t field = 0; field < kGood.size(); ++field) {
    for (const std::int32_t value :
         {0, -1, 1, 3, 7, 16, -8, -12, 10001, 65536, 1 << 30, INT32_MAX, INT32_MIN, INT32_MIN + 1}) {
      if (value == kGood[field]) continue;
      Header header = kGood;
      header[field] = value;
      const std::string message = refusal_of(header_text(header) + good.substr(sizeof header));
      expect_all_in(message, {"[" + path + "]"});
      if (testing::Test::HasFailure()) FAIL() << "field " << field << " is " << value;
    }
  }
}

TEST_F(HostileLlama2c, AllFieldsMayBeAbsurd) {
  const std::string rest = file_of(kGood).substr(sizeof(Header));
  constexpr std::int32_t kValues[] = {0, 1, 2, 4, -1, 10000, 1 << 20, 1 << 30, INT32_MAX, INT32_MAX - 1, INT32_MIN};
  for (std::uint64_t i = 0; i < 2000; ++i) {
    Header header;
    for (std::size_t field = 0; field < header.size(); ++field) {
      header[field] = kValues[static_cast<std::size_t>(uniform(i, field, 0) * std::size(kValues))];
    }
    expect_all_in(refusal_of(header_text(header) + rest), {"[" + path + "]"});
  }
}

TEST_F(HostileLlama2c, FilesThatEndEarlyOrLate) {
  const std::string good = file_of(kGood);
  write_file(path, good);
  for (std::size_t size = 0; size < good.size(); size += size < 32 ? 1 : 64) {
    std::filesystem::resize_file(path, size);
    expect_all_in(load_refusal(path),
                  {"[" + path + "]", std::to_string(size) + (size >= sizeof(Header) ? "" : " bytes")});
    write_file(path, good);
  }
  for (const char* more : {"x", "xxxx"}) {
    expect_all_in(refusal_of(good + more),
                  {"[" + path + "]", std::to_string(good.size()), std::to_string(good.size() + std::strlen(more))});
  }
}

TEST_F(HostileLlama2c, AHeaderBeyond63BitsIsRefused) {
  const Header header = {INT32_MAX - 1, INT32_MAX, 10000, 1, 1, INT32_MAX, INT32_MAX};
  expect_all_in(refusal_of(header_text(header) + std::string(100, '\0')), {"[" + path + "]", "128 bytes"});
}

/// A sparse file may have any size.
TEST_F(HostileLlama2c, AHugeSparseFileTakesNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers use additional memory";
#endif
  const std::int32_t d = 10000, layers = 9900;
  const Header header = {d, 1, layers, 1, 1, 1, 1};
  const std::int64_t floats = d + layers * (2 * d + std::int64_t{4} * d * d + 3 * d) + d + d;
  write_file(path, header_text(header));
  if (::truncate(path.c_str(), static_cast<off_t>(sizeof header) + 4 * floats) != 0)
    GTEST_SKIP() << "this file system has no such sparse files";
  EXPECT_LT(peak_growth_mb([&] { load_refusal(path); }), 300);
}

TEST_F(HostileLlama2c, WeightsThatAreNotFiniteNameTheLayer) {
  const std::string good = file_of(kGood);
  const std::int64_t d = 8, vocab = 11;
  const auto with_nan = [&](std::int64_t at) {
    std::string bytes = good;
    bytes.replace(sizeof(Header) + static_cast<std::size_t>(at) * 4, 4, std::string("\x00\x00\xc0\x7f", 4));
    return refusal_of(bytes);
  };
  expect_all_in(with_nan(0), {"[hook_embed]"});
  expect_all_in(with_nan(vocab * d), {"[blocks.0.hook_resid_post]"});
  expect_all_in(with_nan(vocab * d + d), {"[blocks.1.hook_resid_post]"});
  expect_all_in(with_nan(vocab * d + 2 * d + d * d), {"[blocks.1.hook_resid_post]"});
}

}  // namespace
}  // namespace vitrine::test
