#include "base/gguf_writer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kAlignment = 32;  // the format's default
constexpr std::uint32_t kVersion = 3;

template <class T>
void append_raw(std::string& bytes, T value) {
  std::array<char, sizeof(T)> raw{};
  std::memcpy(raw.data(), &value, sizeof(T));
  bytes.append(raw.data(), raw.size());
}

void append_text(std::string& bytes, std::string_view text) {
  append_raw(bytes, std::uint64_t{text.size()});
  bytes += text;
}

}  // namespace

void GgufKeys::begin(std::string_view key, GgufType type) {
  append_text(bytes_, key);
  append_raw(bytes_, static_cast<std::uint32_t>(type));
  ++count_;
}

void GgufKeys::begin_array(std::string_view key, GgufType element, std::size_t count) {
  begin(key, GgufType::array);
  append_raw(bytes_, static_cast<std::uint32_t>(element));
  append_raw(bytes_, std::uint64_t{count});
}

void GgufKeys::add(std::string_view key, std::string_view text) {
  begin(key, GgufType::string);
  append_text(bytes_, text);
}

void GgufKeys::add(std::string_view key, std::uint32_t number) {
  begin(key, GgufType::u32);
  append_raw(bytes_, number);
}

void GgufKeys::add(std::string_view key, float number) {
  begin(key, GgufType::f32);
  append_raw(bytes_, number);
}

void GgufKeys::add(std::string_view key, bool flag) {
  begin(key, GgufType::boolean);
  append_raw(bytes_, static_cast<std::uint8_t>(flag ? 1 : 0));
}

void GgufKeys::add(std::string_view key, const std::vector<std::string>& texts) {
  begin_array(key, GgufType::string, texts.size());
  for (const std::string& text : texts) append_text(bytes_, text);
}

void GgufKeys::add(std::string_view key, const std::vector<float>& numbers) {
  begin_array(key, GgufType::f32, numbers.size());
  for (const float number : numbers) append_raw(bytes_, number);
}

void GgufKeys::add(std::string_view key, const std::vector<std::int32_t>& numbers) {
  begin_array(key, GgufType::i32, numbers.size());
  for (const std::int32_t number : numbers) append_raw(bytes_, number);
}

void GgufKeys::add(std::string_view key, const std::vector<bool>& flags) {
  begin_array(key, GgufType::boolean, flags.size());
  for (const bool flag : flags) append_raw(bytes_, static_cast<std::uint8_t>(flag ? 1 : 0));
}

void GgufKeys::add(std::string_view key, const GgufValue& value) {
  if (value.type == GgufType::array) {
    begin_array(key, value.element, static_cast<std::size_t>(value.count));
  } else {
    begin(key, value.type);
  }
  if (value.type == GgufType::string) append_raw(bytes_, std::uint64_t{value.bytes.size()});
  bytes_.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
}

void GgufKeys::add(const GgufKeys& others) {
  count_ += others.count_;
  bytes_ += others.bytes_;
}

void GgufWriter::add_tensor(std::string_view name, const std::vector<std::int64_t>& shape, std::uint32_t type,
                            std::int64_t bytes) {
  append_text(list_, name);
  append_raw(list_, static_cast<std::uint32_t>(shape.size()));
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) append_raw(list_, static_cast<std::uint64_t>(*size));
  append_raw(list_, type);
  append_raw(list_, static_cast<std::uint64_t>(data_bytes_));
  data_bytes_ += round_up(bytes, kAlignment);
  sizes_.push_back(bytes);
}

std::string GgufWriter::header(const GgufKeys& keys) const {
  std::string header = "GGUF";
  append_raw(header, kVersion);
  append_raw(header, std::uint64_t{sizes_.size()});
  append_raw(header, keys.count());
  header += keys.bytes() + list_;
  header.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(header.size()), kAlignment)), '\0');
  return header;
}

void GgufWriter::begin(const GgufKeys& keys) {
  const std::string bytes = header(keys);
  writer_.write(std::as_bytes(std::span(bytes)));
}

void GgufWriter::append(std::span<const std::byte> bytes) {
  constexpr std::array<std::byte, kAlignment> kZeros{};
  while (!bytes.empty()) {
    if (current_ == sizes_.size()) throw InternalError(path_, "expected no bytes after the last tensor");
    const auto n =
        static_cast<std::size_t>(std::min(static_cast<std::int64_t>(bytes.size()), sizes_[current_] - written_));
    writer_.write(bytes.first(n));
    bytes = bytes.subspan(n);
    written_ += static_cast<std::int64_t>(n);
    if (written_ < sizes_[current_]) continue;
    writer_.write(std::span(kZeros).first(static_cast<std::size_t>(round_up(written_, kAlignment) - written_)));
    ++current_;
    written_ = 0;
  }
}

void GgufWriter::commit() {
  if (current_ != sizes_.size()) {
    throw InternalError(path_, "expected {} tensors, got {} complete ones", sizes_.size(), current_);
  }
  writer_.commit();
}

}  // namespace vitrine
