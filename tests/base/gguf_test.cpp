// GGUF metadata: values of every type, and files with wrong lengths.
#include "base/gguf.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/gguf_file.h"

namespace vitrine {
namespace {

using test::GgufFile;
using test::raw;
using testing::HasSubstr;
using testing::ThrowsMessage;

GgufMetadata parse(const std::string& file) { return GgufMetadata::parse(std::as_bytes(std::span(file)), "f"); }

template <class E>
void expect_refused(const std::string& file, const char* message) {
  EXPECT_THAT([&] { parse(file); }, ThrowsMessage<E>(HasSubstr(message)));
}

TEST(Gguf, ReadsValuesOfEveryType) {
  GgufFile file;
  file.add("s", "text").add("yes", true).add("n", std::uint32_t{7});
  file.add("neg", GgufType::i8, raw(std::int8_t{-3})).add("big", GgufType::u64, raw(~std::uint64_t{0}));
  file.add("f", GgufType::f32, raw(0.5F)).add("d", GgufType::f64, raw(0.25));
  file.add("strings", std::vector<std::string>{"a", "", "bc"}).add("floats", std::vector<float>{1, 2});
  file.add("ints", std::vector<std::int32_t>{-1, 5});
  const std::string nested = raw(std::uint32_t{0}) + raw(std::uint64_t{2}) + "xy";
  file.add_array("nested", GgufType::array, 1, nested);
  for (const std::uint32_t version : {2U, 3U}) {
    const std::string bytes = file.bytes(version);
    const GgufMetadata metadata = parse(bytes);
    EXPECT_EQ(metadata.string("s"), "text");
    EXPECT_EQ(metadata.boolean("yes"), true);
    EXPECT_EQ(metadata.integer("n"), 7);
    EXPECT_EQ(metadata.integer("neg"), -3);
    EXPECT_EQ(metadata.real("f"), 0.5);
    EXPECT_EQ(metadata.real("d"), 0.25);
    EXPECT_EQ(metadata.strings("strings"), (std::vector<std::string_view>{"a", "", "bc"}));
    EXPECT_EQ(metadata.floats("floats"), (std::vector<float>{1, 2}));
    EXPECT_EQ(metadata.integers("ints"), (std::vector<std::int64_t>{-1, 5}));
    EXPECT_EQ(metadata.string("none"), std::nullopt);
    EXPECT_EQ(metadata.values().size(), 11U);
    EXPECT_TRUE(metadata.contents().tensors.empty());
    EXPECT_THROW(metadata.integer("s"), BadCheckpoint);
    EXPECT_THROW(metadata.integer("big"), BadCheckpoint);
    EXPECT_THROW(metadata.string("n"), BadCheckpoint);
    EXPECT_THROW(metadata.floats("ints"), BadCheckpoint);
    EXPECT_THROW(metadata.strings("s"), BadCheckpoint);
  }
}

TEST(Gguf, RefusesMalformedFiles) {
  expect_refused<BadCheckpoint>("GGML", "magic");
  expect_refused<Unsupported>(GgufFile().bytes(1), "version 1");
  expect_refused<Unsupported>(GgufFile().bytes(0x03000000), "big-endian");
  expect_refused<BadCheckpoint>("GGUF" + raw(3U) + raw(std::uint64_t{0}) + raw(~std::uint64_t{0}), "keys");
  expect_refused<BadCheckpoint>(GgufFile().add("a", 1U).add("a", 2U).bytes(), "key a appears twice");
  expect_refused<BadCheckpoint>(GgufFile().add("a", static_cast<GgufType>(13), "").bytes(), "type from 0 to 12");
  expect_refused<BadCheckpoint>(GgufFile().add("", 1U).bytes(), "a key of 1 to");
  const auto huge = ~std::uint64_t{0};
  expect_refused<BadCheckpoint>(GgufFile().add_array("a", GgufType::f64, huge, "").bytes(), "truncated");
  expect_refused<BadCheckpoint>(GgufFile().add_array("a", GgufType::f64, 3, "12345678").bytes(), "truncated");
  expect_refused<BadCheckpoint>(GgufFile().add("a", GgufType::string, raw(huge)).bytes(), "truncated");
  std::string nested = raw(std::uint32_t{0}) + raw(std::uint64_t{0});
  for (int i = 0; i < 10; ++i) nested = raw(std::uint32_t{9}) + raw(std::uint64_t{1}) + nested;
  expect_refused<BadCheckpoint>(GgufFile().add("a", GgufType::array, nested).bytes(), "levels of arrays");
}

}  // namespace
}  // namespace vitrine
