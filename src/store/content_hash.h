// What is in files, as a hash.
#pragma once

#include <memory>
#include <span>

#include "base/digest.h"
#include "base/mapped_file.h"
#include "parallel/thread_pool.h"
#include "store/prefix_store.h"

namespace vitrine {

/// A hash of all bytes of the files, in this order. Those of a file that the store has seen are not read again: it
/// keeps their hash, by device, inode, size and times.
Sha256 content_hash(std::span<const std::shared_ptr<const MappedFile>> files, ThreadPool& pool, PrefixStore& store);

}  // namespace vitrine
