// From the name of a model on a hub to its files on this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hub/access.h"
#include "hub/name.h"
#include "hub/select.h"
#include "hub/temporary_folder.h"

namespace vitrine {

/// A file that a name means.
struct PulledFile {
  std::string name;  ///< Its path in the repository.
  std::int64_t bytes = 0;
  bool cached = false;  ///< It was in the cache before.
};

/// What a name means, and how much of it came over the network.
struct PullResult {
  std::string name;  ///< As HubName::text().
  std::string commit;
  std::string path;  ///< What a command opens: a folder of the cache, or a file in it.
  std::int64_t bytes = 0;
  std::int64_t fetched_bytes = 0;  ///< Without the headers of weights that HubAccess::check has read before.
  std::int64_t resumed_bytes = 0;  ///< Of parts that an earlier pull has left.
  std::vector<PulledFile> files;

  std::int64_t cached_bytes() const {
    std::int64_t cached = 0;
    for (const PulledFile& file : files) cached += file.cached ? file.bytes : 0;
    return cached;
  }
};

/// Fetches what the cache lacks of the files that a name means, or with `is_dry` only says what that is. Where the hub
/// is and where the cache is, HubSettings says. If the hub cannot be reached, a complete copy in the cache is enough.
///
/// Throws BadInput for what the hub or the cache does not have and for what is not allowed, Unsupported for weights in
/// pickles alone, BadCheckpoint for content whose size or hash is wrong, which is not kept, OutOfCapacity for a disk
/// that is full, HubUnreachable; and what the functions of `access` throw.
PullResult pull(const HubName& name, HubWanted wanted, const HubAccess& access, bool is_dry = false);

/// What says what a model is, without its weights and its tokenizer.
struct ModelHeaders {
  PullResult remote;  ///< As of a pull that is not made; `fetched_bytes` is what was fetched for the headers.
  std::unique_ptr<const TemporaryFolder> folder;
  std::string path{};  ///< What is opened, in the folder.
};

/// Copies the configs of a model into a folder, and the headers of its weights into files there that have the full size
/// and are otherwise holes, which take no space: every reader reads them as it reads the whole files. What the cache
/// has is linked. Throws as pull().
ModelHeaders fetch_headers(const HubName& name, const HubAccess& access);

/// The path of a tokenizer, and the folder that has it until it is no longer needed; null: it is in the cache.
struct RemoteTokenizer {
  std::string path;
  std::shared_ptr<const TemporaryFolder> folder{};
};

/// The files that a name means for a tokenizer, after a pull. Of a repository that has a tokenizer only within GGUF
/// files with weights, which the cache lacks, the headers alone are fetched. Throws as pull().
RemoteTokenizer remote_tokenizer(const HubName& name, const HubAccess& access);

/// The path of what is opened: of a name that begins with hf:, after a pull; any other text as it is.
std::string local_path(const std::string& given, HubWanted wanted, const HubAccess& access);

}  // namespace vitrine
