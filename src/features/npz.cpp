#include "features/npz.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/byte_reader.h"
#include "base/error.h"
#include "base/text.h"

namespace vitrine {
namespace {

constexpr std::uint16_t kStored = 0, kDeflated = 8;
constexpr std::size_t kMaxMembers = 64;
constexpr std::uint64_t kInflatedFreely = std::uint64_t{64} << 20, kMaxRatio = 50;
constexpr std::uint32_t kIn64 = std::numeric_limits<std::uint32_t>::max();  // the value is in the zip64 field

struct Member {
  std::string name;
  std::uint16_t flags = 0, method = 0;
  std::uint64_t compressed = 0, size = 0, header_at = 0;
};

/// Owns the file and what has been inflated.
struct NpzStorage {
  std::shared_ptr<const MappedFile> file;
  std::vector<std::vector<std::byte>> inflated;
};

std::span<const std::byte> part_of(const MappedFile& file, std::uint64_t at, std::uint64_t size) {
  if (at > file.bytes().size() || size > file.bytes().size() - at) {
    throw BadCheckpoint(file.path(), "the archive is truncated, or its directory is wrong");
  }
  return file.bytes().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

/// The sizes and the place that zip64 stores apart.
void read_zip64(ByteReader extra, Member& member, bool has_size, bool has_compressed, bool has_place) {
  while (extra.rest().size() >= 4) {
    const auto id = extra.number<std::uint16_t>("an extra field"), n = extra.number<std::uint16_t>("an extra field");
    ByteReader field(extra.take(n, "an extra field"), extra.path());
    if (id != 1) continue;
    if (has_size) member.size = field.number<std::uint64_t>("a size");
    if (has_compressed) member.compressed = field.number<std::uint64_t>("a size");
    if (has_place) member.header_at = field.number<std::uint64_t>("an offset");
  }
}

Member read_entry(ByteReader& in) {
  Member member;
  if (in.number<std::uint32_t>("the directory") != 0x02014b50) {
    throw BadCheckpoint(in.path(), "the directory of the archive is malformed");
  }
  in.take(4, "versions");
  member.flags = in.number<std::uint16_t>("flags");
  member.method = in.number<std::uint16_t>("a method");
  in.take(8, "a time and a checksum");
  const auto compressed = in.number<std::uint32_t>("a size"), size = in.number<std::uint32_t>("a size");
  const auto n_name = in.number<std::uint16_t>("a length"), n_extra = in.number<std::uint16_t>("a length"),
             n_comment = in.number<std::uint16_t>("a length");
  in.take(8, "attributes");
  const auto header_at = in.number<std::uint32_t>("an offset");
  member.name = std::string(in.text(n_name, "a name"));
  member.compressed = compressed;
  member.size = size;
  member.header_at = header_at;
  read_zip64(ByteReader(in.take(n_extra, "extra fields"), in.path()), member, size == kIn64, compressed == kIn64,
             header_at == kIn64);
  in.take(n_comment, "a comment");
  return member;
}

/// The members of the directory, which the end of the file points to.
std::vector<Member> read_directory(const MappedFile& file) {
  constexpr std::size_t kEnd = 22, kMaxComment = 65535;
  const std::string_view text = file.text();
  const std::size_t from = text.size() - std::min(text.size(), kEnd + kMaxComment);
  const std::size_t at = text.rfind("PK\x05\x06");
  if (at == text.npos || at < from || at + kEnd > text.size()) {
    throw BadCheckpoint(file.path(), "the archive is truncated: it has no directory");
  }
  ByteReader end(part_of(file, at + 10, 10), file.path());
  std::uint64_t count = end.number<std::uint16_t>("a count");
  std::uint64_t size = end.number<std::uint32_t>("a size"), place = end.number<std::uint32_t>("an offset");
  if (place == kIn64 && at >= 20) {  // zip64: a record whose place the locator before the end has
    ByteReader locator(part_of(file, at - 20, 16), file.path());
    if (locator.number<std::uint32_t>("a signature") != 0x07064b50) throw BadCheckpoint(file.path(), "no zip64 record");
    locator.take(4, "a disk");
    const auto record_at = locator.number<std::uint64_t>("an offset");
    ByteReader record(part_of(file, record_at, 56), file.path());
    record.take(32, "the zip64 record");
    count = record.number<std::uint64_t>("a count");
    size = record.number<std::uint64_t>("a size");
    place = record.number<std::uint64_t>("an offset");
  }
  if (count > kMaxMembers) throw Unsupported(file.path(), "expected at most {} arrays, got {}", kMaxMembers, count);
  ByteReader in(part_of(file, place, size), file.path());
  std::vector<Member> members;
  for (std::uint64_t i = 0; i < count; ++i) members.push_back(read_entry(in));
  return members;
}

std::span<const std::byte> compressed_bytes(const MappedFile& file, const Member& member) {
  constexpr std::uint64_t kHeader = 30;
  ByteReader header(part_of(file, member.header_at, kHeader), file.path());
  if (header.number<std::uint32_t>("a member") != 0x04034b50) {
    throw BadCheckpoint(file.path(), "{}: the member's header is malformed", member.name);
  }
  header.take(22, "a member's header");
  const auto n_name = header.number<std::uint16_t>("a length"), n_extra = header.number<std::uint16_t>("a length");
  return part_of(file, member.header_at + kHeader + n_name + n_extra, member.compressed);
}

std::vector<std::byte> inflated(const MappedFile& file, const Member& member, std::span<const std::byte> from) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 30;  // zlib counts in 32 bits
  std::vector<std::byte> to(static_cast<std::size_t>(member.size));
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw OutOfCapacity(file.path(), "zlib has no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  std::size_t n_read = 0, n_written = 0;
  for (int state = Z_OK; state == Z_OK;) {
    const std::size_t in = std::min(from.size() - n_read, kAtOnce), out = std::min(to.size() - n_written, kAtOnce);
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(from.data() + n_read));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(to.data() + n_written);
    stream.avail_out = static_cast<uInt>(out);
    state = inflate(&stream, Z_NO_FLUSH);
    n_read += in - stream.avail_in;
    n_written += out - stream.avail_out;
    if (state == Z_STREAM_END && n_written == to.size()) return to;
  }
  throw BadCheckpoint(file.path(), "{}: expected deflated data of {} bytes", member.name, to.size());
}

struct NpyType {
  std::string_view descr, dtype;
  std::optional<DType> type;
};
constexpr NpyType kNpyTypes[] = {{"<f4", "F32", DType::f32},
                                 {"<f2", "F16", DType::f16},
                                 {"<f8", "F64", std::nullopt},
                                 {"<i4", "I32", std::nullopt},
                                 {"<i8", "I64", std::nullopt}};

/// Refuses an archive that would inflate to much more than its size. Members may share bytes, so their sum counts.
void refuse_bomb(const MappedFile& file, const std::vector<Member>& members) {
  std::uint64_t total = 0;
  for (const Member& member : members) {
    if (member.method == kDeflated && __builtin_add_overflow(total, member.size, &total)) total = ~std::uint64_t{0};
    if (total <= kInflatedFreely || total / kMaxRatio <= file.bytes().size()) continue;
    throw Unsupported(file.path(), "{}: expected arrays of at most {} times the archive's {} bytes, got {} bytes",
                      member.name, kMaxRatio, file.bytes().size(), total);
  }
}

/// The text after `'key':` in the header of an array.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& where) {
  const std::size_t at = header.find("'" + std::string(key) + "':");
  if (at == header.npos) throw BadCheckpoint(where, "the header of the array has no {}", key);
  std::string_view value = header.substr(at + key.size() + 3);
  while (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

StoredTensor read_array(std::span<const std::byte> bytes, const std::string& where) {
  ByteReader in(bytes, where);
  if (in.text(6, "an array") != "\x93NUMPY") throw BadCheckpoint(where, "expected an array of NumPy");
  const auto version = in.number<std::uint8_t>("a version");
  in.take(1, "a version");
  if (version < 1 || version > 3) throw Unsupported(where, "version {} of the format", version);
  const std::uint64_t n = version == 1 ? in.number<std::uint16_t>("a length") : in.number<std::uint32_t>("a length");
  if (n > 65536) throw BadCheckpoint(where, "the header of the array is too long");
  const std::string_view header = in.text(n, "a header");
  std::string_view descr = value_of(header, "descr", where);
  if (!descr.starts_with('\'')) throw Unsupported(where, "an array of structures");
  descr = descr.substr(1, descr.find('\'', 1) - 1);
  if (descr.find('O') != descr.npos) throw Unsupported(where, "a Python pickle can run code; save it as safetensors");
  if (!value_of(header, "fortran_order", where).starts_with("False")) {
    throw Unsupported(where, "expected an array in C order");
  }
  const auto* const type = std::ranges::find(kNpyTypes, descr, &NpyType::descr);
  if (type == std::end(kNpyTypes)) throw Unsupported(where, "elements of type {}", descr);
  StoredTensor tensor{std::string(type->dtype), type->type, {}, {}, where};
  std::string_view shape = value_of(header, "shape", where);
  const std::size_t close = shape.find(')');
  if (!shape.starts_with('(') || close == shape.npos) throw BadCheckpoint(where, "the shape is malformed");
  shape = shape.substr(1, close - 1);
  std::uint64_t count = 1;
  while (!shape.empty()) {
    const std::size_t comma = std::min(shape.find(','), shape.size());
    std::string_view size = shape.substr(0, comma);
    shape.remove_prefix(std::min(comma + 1, shape.size()));
    while (size.starts_with(' ')) size.remove_prefix(1);
    if (size.empty()) continue;
    const auto number = number_in<std::int64_t>(size);
    const bool fits =
        number && *number >= 0 && !__builtin_mul_overflow(count, static_cast<std::uint64_t>(*number), &count);
    if (!fits || count > (std::uint64_t{1} << 48)) throw BadCheckpoint(where, "the shape is malformed");
    tensor.shape.push_back(*number);
  }
  const std::uint64_t size = descr.back() == '8' ? 8 : descr.back() == '4' ? 4 : 2;
  tensor.bytes = in.take(count * size, "elements");
  return tensor;
}

}  // namespace

TensorTable open_npz(const std::shared_ptr<const MappedFile>& file) {
  auto storage = std::make_shared<NpzStorage>(NpzStorage{file, {}});
  std::map<std::string, StoredTensor> tensors;
  const std::vector<Member> members = read_directory(*file);
  refuse_bomb(*file, members);
  for (const Member& member : members) {
    if (!member.name.ends_with(".npy")) throw Unsupported(file->path(), "the archive has {}, no array", member.name);
    if ((member.flags & 1) != 0) throw Unsupported(file->path(), "{}: it is encrypted", member.name);
    std::span<const std::byte> bytes = compressed_bytes(*file, member);
    if (member.method == kDeflated) {
      bytes = storage->inflated.emplace_back(inflated(*file, member, bytes));
    } else if (member.method != kStored) {
      throw Unsupported(file->path(), "{}: method {} of compression", member.name, member.method);
    }
    const std::string name = member.name.substr(0, member.name.size() - 4);
    const bool is_new = tensors.emplace(name, read_array(bytes, file->path() + ": " + member.name)).second;
    if (!is_new) throw BadCheckpoint(file->path(), "{} appears twice", member.name);
  }
  return {file->path(), std::move(tensors), storage};
}

}  // namespace vitrine
