#include "store/content_hash.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace vitrine {
namespace {

std::optional<FileStamp> stamp_of_path(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(stamp_of(info)) : std::nullopt;
}

/// Of the hash of a file that is as the stamp says.
BlockName name_of(const FileStamp& stamp) {
  Digest digest = Digest::sha256();
  digest.update_text("vitrine content of a file 1");
  for (const std::uint64_t part : {stamp.device, stamp.inode, stamp.size}) digest.update(part);
  for (const std::int64_t time : {stamp.modified_ns, stamp.changed_ns}) digest.update(static_cast<std::uint64_t>(time));
  return digest.finish_sha256();
}

/// The hash of the hashes of parts, which threads compute.
Sha256 hash_of(std::span<const std::byte> bytes, ThreadPool& pool) {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  std::vector<Sha256> parts((bytes.size() + kBytes - 1) / kBytes);
  pool.parallel_for(std::ssize(parts), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      Digest digest = Digest::sha256();
      digest.update(bytes.subspan(i * kBytes, std::min(kBytes, bytes.size() - i * kBytes)));
      parts[i] = digest.finish_sha256();
    }
  });
  Digest digest = Digest::sha256();
  digest.update(std::uint64_t{bytes.size()});
  for (const Sha256& part : parts) digest.update(part);
  return digest.finish_sha256();
}

Sha256 hash_of(const MappedFile& file, ThreadPool& pool, PrefixStore& store) {
  const UseTime now = std::chrono::system_clock::now();
  const FileStamp& stamp = file.stamp();
  const BlockName name = name_of(stamp);
  Sha256 hash{};
  const bool is_known = stamp != FileStamp() && stamp_of_path(file.path()) == stamp;
  if (is_known && store.read(name, hash, now)) return hash;
  hash = hash_of(file.bytes(), pool);
  // A file that has changed a moment ago may change again within the resolution of its times.
  constexpr std::int64_t kMoment = 2'000'000'000;
  const std::int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  const bool is_old = std::max(stamp.modified_ns, stamp.changed_ns) < now_ns - kMoment;
  if (is_known && is_old && stamp_of_path(file.path()) == stamp) {
    BlockBytes content(hash.size());
    std::ranges::copy(hash, content.span().begin());
    store.write(name, std::move(content), now);
  }
  return hash;
}

}  // namespace

Sha256 content_hash(std::span<const std::shared_ptr<const MappedFile>> files, ThreadPool& pool, PrefixStore& store) {
  Digest digest = Digest::sha256();
  for (const auto& file : files) digest.update(hash_of(*file, pool, store));
  return digest.finish_sha256();
}

}  // namespace vitrine
