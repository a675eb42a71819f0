// Truncated GGUF files, false sizes and offsets, and split models with missing or swapped parts: each loads, or is
// rejected with a one-line message that names the file.
#include <gtest/gtest.h>

#include <chrono>

#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf_support.h"
#include "checkpoint/hostile_folder.h"
#include "support/gguf_file.h"

namespace vitrine::test {
namespace {

constexpr const char* kTensor = "blk.1.ffn_up.weight";

class HostileGguf : public testing::Test {
 protected:
  HostileGguf() {
    through_gguf(golden_checkpoint("llama_mha"), DType::f32, path);
    good = read_file(path);
  }

  std::string refusal_of(const std::string& bytes) const {
    write_file(path, bytes);
    return refusal(path);
  }
  /// The offset after the name of a tensor in its description.
  std::size_t after_name(std::string_view name) const { return good.find(GgufFile::string(name)) + 8 + name.size(); }
  template <class T>
  std::string patched(std::size_t at, T value) const {
    std::string bytes = good;
    return bytes.replace(at, sizeof value, raw(value));
  }
  void expect_refused(const std::string& bytes, std::initializer_list<std::string_view> parts) const {
    const std::string message = refusal_of(bytes);
    EXPECT_NE(message, "");
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    expect_all_in(message, {"[" + path});
    expect_all_in(message, parts);
  }

  const TempFolder folder;
  const std::string path = folder / "model.gguf";
  std::string good;
};

TEST_F(HostileGguf, TruncatedAnywhere) {
  ASSERT_EQ(refusal_of(good), "");
  const auto begun = std::chrono::steady_clock::now();
  const double grown = peak_growth_mb([&] {
    for (std::size_t size = 0; size < good.size(); size += 64) {
      SCOPED_TRACE(size);
      const std::string message = refusal_of(good.substr(0, size));
      ASSERT_NE(message, "");
      ASSERT_EQ(message.find("[" + path), 0U) << message;
    }
  });
  EXPECT_LT(grown, 300);
  const auto cuts = static_cast<long>(good.size() / 64);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(2000 * cuts));
}

TEST_F(HostileGguf, FalseSizesAndOffsets) {
  const std::size_t sizes = after_name(kTensor), type = sizes + 4 + 16, offset = type + 4;
  const auto place_of = [&](std::string_view name) {
    std::uint64_t place = 0;
    std::memcpy(&place, good.data() + after_name(name) + 4 + 16 + 4, sizeof place);
    return place;
  };
  for (const std::uint32_t rank : {0U, 5U, 0xFFFFFFFFU}) expect_refused(patched(sizes, rank), {kTensor, "sizes"});
  for (const std::uint64_t size : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    expect_refused(patched(sizes + 4, size), {kTensor, "sizes"});
    expect_refused(patched(sizes + 12, size), {kTensor, "sizes"});
  }
  for (const std::uint64_t size : {std::uint64_t{1} << 62, std::uint64_t{1} << 33, std::uint64_t{1} << 20}) {
    expect_refused(patched(sizes + 12, size), {kTensor, "bytes"});
  }
  expect_refused(patched(sizes + 12, std::uint64_t{1}), {kTensor, "shape"});
  for (const std::uint32_t unknown : {4U, 31U, 99U, 0xFFFFFFFFU}) {
    expect_refused(patched(type, unknown), {kTensor, "type " + std::to_string(unknown)});
  }
  const std::pair<std::uint32_t, const char*> unknown[] = {
      {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},
      {29, "IQ1_M"},   {34, "TQ1_0"},  {35, "TQ2_0"},   {40, "NVFP4"}, {41, "Q1_0"},  {42, "Q2_0"}};
  for (const auto& [number, name] : unknown) expect_refused(patched(type, number), {kTensor, name});
  expect_refused(patched(type, 8U), {kTensor, "whole blocks of Q8_0"});
  for (const std::uint64_t place : {std::uint64_t{good.size()}, ~std::uint64_t{0}, ~std::uint64_t{0} - 31}) {
    expect_refused(patched(offset, place), {kTensor, "bytes"});
  }
  const std::string other = "blk.0.ffn_up.weight";
  expect_refused(patched(offset, place_of(other)), {"overlap", kTensor, other});
  expect_refused(patched(offset, place_of(other) + 32), {"overlap"});
  std::string twice = good;
  twice.replace(twice.find(kTensor), other.size(), other);
  expect_refused(twice, {"appears twice", other});
}

TEST_F(HostileGguf, FalseCounts) {
  for (const std::uint64_t count : {std::uint64_t{1} << 20, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    expect_refused(patched(8, count), {"at most 65536 tensors"});
    expect_refused(patched(16, count), {"at most 65536 keys"});
  }
  expect_refused(patched(8, std::uint64_t{65536}), {});  // a valid count, but the file has fewer
  expect_refused(patched(8, std::uint64_t{0}), {"token_embd.weight is missing"});
  expect_refused(patched(4, std::uint32_t{0x03000000}), {"big-endian"});
  expect_refused(patched(4, std::uint32_t{1}), {"version 1"});
}

/// Sets every numeric key of the architecture to wrong values.
class KeysOfGguf : public testing::TestWithParam<std::string> {};

TEST_P(KeysOfGguf, MayBeFalse) {
  const TempFolder folder;
  const std::string path = folder / "model.gguf";
  through_gguf(golden_checkpoint(GetParam()), DType::f32, path);
  const std::string good = read_file(path);
  const auto file = MappedFile::open(path);
  const GgufMetadata metadata = GgufMetadata::parse(file->bytes(), path);
  const std::string prefix = std::string(metadata.string("general.architecture").value()) + ".";
  int changed = 0;
  for (const auto& [key, value] : metadata.values()) {
    if (!key.starts_with(prefix) || value.bytes.size() != 4) continue;
    const auto at = static_cast<std::size_t>(value.bytes.data() - file->bytes().data());
    for (const std::uint32_t bits : {0U, 1U, 3U, 10001U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU, 0x7F800000U}) {
      std::string bytes = good;
      write_file(folder / "changed.gguf", bytes.replace(at, 4, raw(bits)));
      const std::string message = refusal(folder / "changed.gguf");
      EXPECT_EQ(message.find('\n'), message.npos) << key << " " << bits << ": " << message;
      ++changed;
    }
    std::string unknown = good;
    unknown[unknown.find(key) + key.size() - 1] = '~';
    write_file(folder / "changed.gguf", unknown);
    const std::string name = std::string(key.substr(0, key.size() - 1)) + "~";
    EXPECT_NE(refusal(folder / "changed.gguf"), "") << name;
  }
  EXPECT_GT(changed, 60);
}

INSTANTIATE_TEST_SUITE_P(All, KeysOfGguf,
                         testing::Values("llama_mha", "llama_yarn_rope", "qwen2_moe", "granite", "gpt_neox",
                                         "falcon_new", "cohere", "cohere2", "phi3_long"),
                         [](const auto& param_info) { return param_info.param; });

TEST_F(HostileGguf, UnknownKeysAreRefusedByName) {
  std::string bytes = good;
  const std::string key = "llama.vocab_size", other = "llama.vocab_tize";
  bytes.replace(bytes.find(key), key.size(), other);
  expect_refused(bytes, {"unknown key " + other, "--allow-config-key"});
  EXPECT_EQ(refusal(path, {{other}}), "");
}

/// A model in two files, as llama.cpp splits them.
class SplitGguf : public HostileGguf {
 protected:
  SplitGguf() {
    write_part(first, 0, 2);
    write_part(second, 1, 2);
  }

  void write_part(const std::string& to, std::uint32_t number, std::uint32_t count) const {
    const GgufModelFile model = open_gguf(MappedFile::open(path));
    GgufKeys keys;
    if (number == 0) {
      for (const auto& [key, value] : model.metadata.values()) keys.add(key, value);
      keys.add("split.tensors.count", static_cast<std::uint32_t>(model.tensors.all.size()));
    }
    keys.add("split.no", number);
    keys.add("split.count", count);
    GgufWriter writer(to);
    std::vector<std::span<const std::byte>> data;
    for (const auto& [name, tensor] : model.tensors.all) {
      if (name.starts_with("blk.1.") != (number > 0)) continue;
      writer.add_tensor(name, tensor.shape, 0, static_cast<std::int64_t>(tensor.bytes.size()));
      data.push_back(tensor.bytes);
    }
    writer.begin(keys);
    for (const auto bytes : data) writer.append(bytes);
    writer.commit();
  }

  const std::string first = folder / "m-00001-of-00002.gguf", second = folder / "m-00002-of-00002.gguf";
};

TEST_F(SplitGguf, IsTheSameModel) {
  const Checkpoint whole = load_checkpoint(path), split = load_checkpoint(first);
  const std::vector<std::int32_t> ids = some_ids(*whole.model, 9);
  EXPECT_TRUE(same_bits(logits_of(*split.model, ids), logits_of(*whole.model, ids)));
}

TEST_F(SplitGguf, PartsMissingOrExchangedAreRefused) {
  expect_all_in(refusal(second), {second, "the first of them"});
  const std::string part = read_file(second);
  std::filesystem::remove(second);
  expect_all_in(refusal(first), {second});
  std::filesystem::copy_file(first, second);  // both parts have the same number
  expect_all_in(refusal(first), {second, "split.no"});
  write_file(second, part.substr(0, part.size() / 2));
  expect_all_in(refusal(first), {second});
  write_part(second, 2, 3);
  expect_all_in(refusal(first), {second, "split.no"});
  write_file(second, part);
  EXPECT_EQ(refusal(first), "");
  const std::string renamed = folder / "other.gguf";
  std::filesystem::rename(first, renamed);
  expect_all_in(refusal(renamed), {renamed, "-00001-of-00002.gguf"});
}

}  // namespace
}  // namespace vitrine::test
