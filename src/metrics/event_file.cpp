#include "metrics/event_file.h"

#include <array>
#include <bit>
#include <cstring>

namespace vitrine {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

// Kinds of fields on the wire.
constexpr std::uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

void put_tag(std::string& out, std::uint64_t field, std::uint64_t kind) { put_varint(out, field << 3 | kind); }

void put_bytes(std::string& out, std::uint64_t field, const std::string& bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::uint32_t masked_crc(const std::string& bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

std::string record_of(const std::string& event) {
  std::string record;
  put(record, std::uint64_t{event.size()});
  put(record, masked_crc(record));
  record += event;
  put(record, masked_crc(event));
  return record;
}

std::string event_at(double wall_time) {
  std::string event;
  put_tag(event, 1, kFixed64);
  put(event, wall_time);
  return event;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const std::byte b : bytes) crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<std::uint32_t>(b)) & 0xFFu];
  return ~crc;
}

std::string first_event_record(double wall_time) {
  std::string event = event_at(wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return record_of(event);
}

std::string event_record(double wall_time, std::int64_t step, std::span<const Metric> metrics) {
  std::string event = event_at(wall_time);
  put_tag(event, 2, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  std::string summary;
  for (const Metric& metric : metrics) {
    std::string value;
    put_bytes(value, 1, metric.name);
    put_tag(value, 2, kFixed32);
    put(value, static_cast<float>(metric.value));
    put_bytes(summary, 1, value);
  }
  put_bytes(event, 5, summary);
  return record_of(event);
}

}  // namespace vitrine
