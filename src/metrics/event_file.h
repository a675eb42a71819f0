// TensorBoard's event files: records of events, each with a step and scalars.
//
//   record  uint64 length, uint32 masked crc32c of these 8 bytes, the event, uint32 masked crc32c of it; little endian
//   event   a protocol buffer: 1 wall_time (double), 2 step (varint), 3 file_version (text, only in the first event),
//           5 summary { 1 value { 1 tag (text), 2 simple_value (float) } … }
//
// Sources: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto, framework/summary.proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vitrine {

struct Metric {
  std::string name;
  double value = 0;
};

/// CRC-32C (Castagnoli) of the bytes.
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// The first record of an event file. `wall_time` is in seconds since 1970, here and below.
std::string first_event_record(double wall_time);
/// The scalars of one step; infinite values and NaN are kept.
std::string event_record(double wall_time, std::int64_t step, std::span<const Metric> metrics);

}  // namespace vitrine
