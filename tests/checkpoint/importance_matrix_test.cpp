// Importance matrices: both formats, sums of several, and files that are broken.
#include "checkpoint/gguf/importance_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/gguf_writer.h"
#include "base/temp_folder.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

ImportanceMatrix example() {
  ImportanceMatrix matrix;
  matrix.tensors["blk.0.attn_q.weight"] = {{1.0, 2.5, 0.0, 1e6}, {10}};
  matrix.tensors["blk.0.ffn_up_exps.weight"] = {{1.0, 2.0, 0.0, 0.0, 8.0, 6.0}, {2, 0, 4}};
  matrix.datasets = {"stories.txt"};
  matrix.n_chunks = 3;
  matrix.chunk_size = 64;
  return matrix;
}

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void append_text(std::string& to, std::string_view text) {
  append(to, static_cast<std::int32_t>(text.size()));
  to += text;
}

/// A .dat with one entry of two columns.
std::string dat_file(std::int32_t n_chunks, float first, float second) {
  std::string bytes;
  append(bytes, std::int32_t{1});
  append_text(bytes, "blk.0.attn_q.weight");
  append(bytes, n_chunks);
  append(bytes, std::int32_t{2});
  append(bytes, first);
  append(bytes, second);
  append(bytes, n_chunks);
  append_text(bytes, "text.txt");
  return bytes;
}

TEST(ImportanceMatrix, IsReadAsItWasWritten) {
  const TempFolder folder;
  const std::string path = folder / "m.gguf";
  write_importance_matrix(path, example());
  const ImportanceMatrix back = read_importance_matrix(path), original = example();
  EXPECT_EQ(back.datasets, original.datasets);
  EXPECT_EQ(back.n_chunks, 3);
  EXPECT_EQ(back.chunk_size, 64);
  ASSERT_EQ(back.tensors.size(), 2U);
  for (const auto& [name, squares] : original.tensors) {
    EXPECT_EQ(back.tensors.at(name).sums, squares.sums) << name;
    EXPECT_EQ(back.tensors.at(name).counts, squares.counts) << name;
  }
}

TEST(ImportanceMatrix, WeightsAreMeansOfEachExpert) {
  ImportanceMatrix matrix = example();
  matrix.path = "m.gguf";
  EXPECT_THAT(matrix.weights_of("blk.0.attn_q.weight", 4, 1), testing::ElementsAre(0.1F, 0.25F, 0.0F, 1e5F));
  EXPECT_THAT(matrix.weights_of("blk.0.ffn_up_exps.weight", 2, 3), testing::ElementsAre(0.5F, 1.0F, 0, 0, 2.0F, 1.5F));
  EXPECT_TRUE(matrix.weights_of("blk.1.attn_q.weight", 4, 1).empty());
  EXPECT_THROW(matrix.weights_of("blk.0.attn_q.weight", 8, 1), BadInput);
  EXPECT_THROW(matrix.weights_of("blk.0.ffn_up_exps.weight", 3, 2), BadInput);
}

TEST(ImportanceMatrix, AreAdded) {
  ImportanceMatrix sum = example();
  ImportanceMatrix other = example();
  other.tensors["blk.7.attn_q.weight"] = {{5.0}, {1}};
  sum.add(other);
  EXPECT_THAT(sum.tensors.at("blk.0.attn_q.weight").sums, testing::ElementsAre(2.0, 5.0, 0.0, 2e6));
  EXPECT_THAT(sum.tensors.at("blk.0.ffn_up_exps.weight").counts, testing::ElementsAre(4, 0, 8));
  EXPECT_THAT(sum.tensors.at("blk.7.attn_q.weight").sums, testing::ElementsAre(5.0));
  EXPECT_EQ(sum.n_chunks, 6);
  EXPECT_EQ(sum.datasets.size(), 2U);
  other.tensors["blk.0.attn_q.weight"].sums.resize(3);
  EXPECT_THROW(sum.add(other), BadInput);
  other = example();
  other.tensors["blk.0.ffn_up_exps.weight"].counts = {2, 4};  // of two experts with three columns each
  EXPECT_THROW(sum.add(other), BadInput);
}

TEST(ImportanceMatrix, TheOlderFormat) {
  const TempFolder folder;
  const std::string path = folder / "m.dat", bytes = dat_file(4, 2.0F, 6.0F);
  write_file(path, bytes);
  const ImportanceMatrix matrix = read_importance_matrix(path);
  EXPECT_THAT(matrix.weights_of("blk.0.attn_q.weight", 2, 1), testing::ElementsAre(0.5F, 1.5F));
  EXPECT_EQ(matrix.n_chunks, 4);
  EXPECT_THAT(matrix.datasets, testing::ElementsAre("text.txt"));
  write_file(path, bytes.substr(0, bytes.size() - 16));  // as files of 2023 end
  EXPECT_THAT(read_importance_matrix(path).weights_of("blk.0.attn_q.weight", 2, 1), testing::ElementsAre(0.5F, 1.5F));
}

TEST(ImportanceMatrix, BothFormatsOfLlamaCppAreTheSame) {
  const std::string folder = outside_data("quantized");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no quantized";
  const ImportanceMatrix gguf = read_importance_matrix(folder + "/default.imatrix.gguf");
  const ImportanceMatrix dat = read_importance_matrix(folder + "/default.imatrix.dat");
  EXPECT_EQ(gguf.n_chunks, 60);
  EXPECT_EQ(gguf.tensors.at("blk.0.attn_q.weight").counts, std::vector<std::int64_t>{60 * 512});
  ASSERT_EQ(gguf.tensors.size(), 42U);
  ASSERT_EQ(dat.tensors.size(), 42U);
  for (const auto& [name, squares] : gguf.tensors) {
    const auto n = static_cast<std::int64_t>(squares.sums.size());
    const std::vector<float> a = gguf.weights_of(name, n, 1), b = dat.weights_of(name, n, 1);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5F * a[i]) << name;
  }
}

std::string error_of(const std::string& path) {
  try {
    read_importance_matrix(path);
    return "";
  } catch (const BadCheckpoint& e) {
    return e.what();
  }
}

TEST(ImportanceMatrix, BrokenFilesAreRefusedInOneLine) {
  const TempFolder folder;
  const std::string path = folder / "m";
  write_importance_matrix(path, example());
  const std::string gguf = read_file(path), dat = dat_file(4, 2.0F, 6.0F);
  EXPECT_EQ(error_of(path), "");
  const auto refuse = [&](const std::string& bytes, const std::string& what) {
    write_file(path, bytes);
    const std::string error = error_of(path);
    EXPECT_NE(error, "") << what;
    EXPECT_EQ(error.find('\n'), error.npos) << error;
  };
  for (std::size_t size = 0; size < gguf.size() - 32; size += 7) refuse(gguf.substr(0, size), "a part of a GGUF file");
  for (std::size_t size = 0; size + 16 < dat.size(); ++size) refuse(dat.substr(0, size), "a part of a .dat");
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  refuse(dat_file(4, nan, 1), "NaN");
  refuse(dat_file(4, 1, infinity), "infinity");
  refuse(dat_file(4, -1, 1), "a negative sum");
  refuse(dat_file(-4, 1, 1), "a negative number of chunks");
  std::string lying = dat;
  lying[0] = 127;
  refuse(lying, "more entries than there are");
  ImportanceMatrix bad = example();
  for (const double sum : {static_cast<double>(nan), -1.0, static_cast<double>(infinity)}) {
    bad = example();
    bad.tensors["blk.0.attn_q.weight"].sums[1] = sum;
    write_importance_matrix(path, bad);
    EXPECT_NE(error_of(path), "") << sum;
  }
  bad = example();
  bad.n_chunks = std::int64_t{1} << 31;
  bad.chunk_size = std::int64_t{1} << 31;
  write_importance_matrix(path, bad);
  EXPECT_NE(error_of(path), "") << "more rows than can be counted";
  bad = example();
  bad.tensors["blk.0.attn_q.weight"].counts[0] = -1;
  write_importance_matrix(path, bad);
  EXPECT_NE(error_of(path), "");
}

}  // namespace
}  // namespace vitrine::test
