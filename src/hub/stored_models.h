// The models in a hub's cache.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vitrine {

struct StoredRevision {
  std::string commit;
  std::vector<std::string> refs;   ///< Branches and tags that mean it.
  std::vector<std::string> files;  ///< Paths in the repository.
};

/// A repository in the cache.
struct StoredModel {
  std::string name;             ///< ORG/NAME
  std::int64_t bytes = 0;       ///< Of its blobs.
  std::int64_t part_bytes = 0;  ///< Of files that have not arrived as a whole.
  std::vector<StoredRevision> revisions;
};

/// The folder of the cache, as HubSettings says.
std::string hub_cache_folder();

/// All models of a cache, by name. A cache that does not exist has none.
std::vector<StoredModel> stored_models(const std::string& cache);

/// What a deletion would free.
struct StoredDeletion {
  std::vector<std::string> paths;  ///< Files and links, and folders that are then empty.
  std::int64_t bytes = 0;
};

/// The files of NAME or NAME@REVISION, with hf: in front or not, that no other revision uses. Throws BadInput if the
/// cache does not have it, or if another process is fetching it.
StoredDeletion plan_deletion(const std::string& cache, const std::string& name);
/// Deletes them. Throws BadInput for one that cannot be deleted.
void delete_stored(const StoredDeletion& deletion);

}  // namespace vitrine
