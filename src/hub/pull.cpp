#include "hub/pull.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/mapped_file.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/header_bytes.h"

namespace vitrine {
namespace {

/// The files that a name means, with their sizes.
struct Plan {
  std::string commit;
  std::vector<RemoteFile> all;     ///< Of the commit, as far as it is known.
  std::vector<RemoteFile> wanted;  ///< In the order in which they are fetched: small ones first.
  std::string opened;
  std::map<std::string, std::string> contents{};  ///< Of files that have been read already.
};

class Puller {
 public:
  Puller(const HubName& name, HubWanted wanted, const HubAccess& access)
      : name_(name),
        wanted_(wanted),
        access_(access),
        settings_(HubSettings::from_environment()),
        cache_(settings_.cache, name.repository),
        http_(settings_, access.poll),
        repository_(http_, settings_, name_, 6) {}

  PullResult run(bool is_dry) {
    const bool is_offline = access_.offline || settings_.offline;
    Plan plan = is_offline ? offline_plan() : online_plan();
    PullResult result = outline(plan);
    if (is_dry) return result;
    if (is_offline || std::ranges::all_of(result.files, &PulledFile::cached)) {
      if (!is_offline) keep_tree(plan);
      finish(plan);
      return result;
    }
    if (access_.check && wanted_ == HubWanted::model && fetches_weights(plan)) {
      check(plan);
      result.fetched_bytes = outline(plan).fetched_bytes;  // with the configs, which are not fetched again
    }
    cache_.prepare();
    cache_.write_tree(plan.commit, plan.all);
    check_space(plan);
    total_ = result.bytes;
    for (const RemoteFile& file : plan.wanted) fetch(plan, file, result);
    finish(plan);
    return result;
  }

  ModelHeaders headers() {
    Plan plan = access_.offline || settings_.offline ? offline_plan() : online_plan();
    ModelHeaders result{outline(plan), std::make_unique<const TemporaryFolder>()};
    result.path = copy_headers(plan, result.folder->path(), result.remote);
    return result;
  }

 private:
  void fill(Plan& plan, const std::function<std::string(const RemoteFile&)>& read) const {
    std::map<std::string, RemoteFile> by_path;
    std::vector<std::string> paths;
    for (const RemoteFile& file : plan.all) {
      by_path[file.path] = file;
      paths.push_back(file.path);
    }
    const HubSelection selection = select_files(name_, wanted_, paths, [&](const std::string& path) {
      const RemoteFile& file = by_path.at(path);
      if (!cache_.has_file(plan.commit, file)) return plan.contents[path] = read(file);
      return std::string(MappedFile::open(cache_.snapshot(plan.commit) + "/" + path)->text());
    });
    for (const std::string& path : selection.files) plan.wanted.push_back(by_path.at(path));
    std::ranges::stable_sort(plan.wanted, {}, &RemoteFile::size);
    plan.opened = selection.opened;
  }

  /// Throws BadInput if the cache alone is not enough.
  Plan offline_plan() const {
    Plan plan;
    const auto commit = cache_.commit_of(name_.revision);
    const auto fail = [&](const std::string& what) -> BadInput {
      return BadInput(name_.text(), "offline, and {} in the cache {}", what, cache_.root());
    };
    if (!commit) throw fail("it is not");
    plan.commit = *commit;
    plan.all = cache_.files(*commit);
    if (plan.all.empty()) throw fail("commit " + *commit + " is not");
    fill(plan, [&](const RemoteFile& file) -> std::string { throw fail(file.path + " is not"); });
    for (const RemoteFile& file : plan.wanted) {
      if (!is_cached(plan, file)) throw fail(file.path + " is not");
    }
    return plan;
  }

  std::optional<Plan> copy() const {
    try {
      return offline_plan();
    } catch (const BadInput&) {
      return std::nullopt;
    } catch (const BadCheckpoint&) {
      return std::nullopt;
    }
  }

  /// The list of all files that the cache has; empty if it has none, or none that can be read.
  std::vector<RemoteFile> known_files(const std::string& commit) const {
    try {
      if (cache_.has_tree(commit)) return cache_.files(commit);
    } catch (const BadCheckpoint&) {  // it is replaced
    }
    return {};
  }

  Plan online_plan() {
    std::optional<Plan> kept = copy();
    if (kept && is_commit(name_.revision) && cache_.has_tree(kept->commit)) return std::move(*kept);
    try {
      const HubRepository repository(http_, settings_, name_, kept ? 0 : 3);
      Plan plan;
      plan.commit = is_commit(name_.revision) ? name_.revision : repository.commit();
      plan.all = known_files(plan.commit);
      if (plan.all.empty()) plan.all = repository.files(plan.commit);
      fill(plan, [&](const RemoteFile& file) { return repository.read(plan.commit, file); });
      return plan;
    } catch (const HubUnreachable& e) {
      if (!kept) throw;
      report({HubProgress::Event::note, std::string(e.what()) + "; the copy in the cache is used"});
      return std::move(*kept);
    }
  }

  bool is_cached(const Plan& plan, const RemoteFile& file) const {
    return cache_.has_file(plan.commit, file) || (!file.blob_id.empty() && cache_.has_blob(file));
  }

  PullResult outline(const Plan& plan) const {
    PullResult result;
    result.name = name_.text();
    result.commit = plan.commit;
    result.path = cache_.snapshot(plan.commit);
    if (!plan.opened.empty()) result.path += "/" + plan.opened;
    for (const RemoteFile& file : plan.wanted) {
      result.bytes += file.size;
      result.files.push_back({file.path, file.size, is_cached(plan, file)});
    }
    for (const auto& [path, content] : plan.contents) result.fetched_bytes += static_cast<std::int64_t>(content.size());
    return result;
  }

  static bool is_weights(const RemoteFile& file) {
    return file.path.ends_with(".safetensors") || file.path.ends_with(".gguf");
  }
  bool fetches_weights(const Plan& plan) const {
    return std::ranges::any_of(plan.wanted,
                               [&](const RemoteFile& file) { return is_weights(file) && !is_cached(plan, file); });
  }

  void check(Plan& plan) {
    const TemporaryFolder folder;
    std::string path;
    try {
      PullResult not_counted;
      path = copy_headers(plan, folder.path(), not_counted);
    } catch (const OutOfCapacity&) {  // no room for a file of that size, even with holes: the pull says what is missing
      return;
    }
    access_.check(path);
  }

  /// Returns the path of what is opened. Adds what is fetched to the result.
  std::string copy_headers(Plan& plan, const std::string& folder, PullResult& result) {
    for (const RemoteFile& file : plan.wanted) {
      if (is_of_tokenizer(file.path)) continue;
      const std::string to = folder + "/" + file.path;
      std::filesystem::create_directories(std::filesystem::path(to).parent_path());
      if (is_cached(plan, file)) {
        const bool is_linked = cache_.has_file(plan.commit, file);
        const std::string from = is_linked ? cache_.snapshot(plan.commit) + "/" + file.path : cache_.blob(file.etag());
        std::filesystem::create_symlink(std::filesystem::absolute(from), to);
      } else {
        copy_header(plan, file, to, result);
      }
    }
    return plan.opened.empty() ? folder : folder + "/" + plan.opened;
  }

  void copy_header(Plan& plan, const RemoteFile& file, const std::string& to, PullResult& result) {
    const bool is_text = file.path.ends_with(".json") || file.path.ends_with(".txt");
    const auto known = plan.contents.find(file.path);
    if (known != plan.contents.end()) return write_file(to, known->second);
    std::string bytes;
    if (is_weights(file)) {
      constexpr std::int64_t kFirst = std::int64_t{16} << 10;
      for (std::int64_t wanted = kFirst; wanted > std::ssize(bytes);) {
        const std::int64_t end = std::min(wanted, file.size);
        if (end > std::ssize(bytes)) bytes += repository_.read(plan.commit, file, {std::ssize(bytes), end});
        if (end == file.size) break;
        wanted = header_bytes(file.path, std::as_bytes(std::span(bytes)));
      }
    } else if (is_text) {
      bytes = plan.contents[file.path] = repository_.read(plan.commit, file);
    }
    result.fetched_bytes += std::ssize(bytes);
    write_file(to, bytes);
    std::error_code error;
    if (!is_text) std::filesystem::resize_file(to, static_cast<std::uintmax_t>(file.size), error);
    if (error) throw OutOfCapacity(to, "cannot make a file with holes of {} bytes: {}", file.size, error.message());
  }

  void check_space(const Plan& plan) const {
    std::int64_t needed = 0;
    for (const RemoteFile& file : plan.wanted) {
      if (!is_cached(plan, file)) needed += std::max<std::int64_t>(0, file.size - part_bytes(cache_.part(file.etag())));
    }
    struct statvfs disk {};
    if (::statvfs(cache_.root().c_str(), &disk) != 0) return;
    const auto free = static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
    if (needed <= free) return;
    throw OutOfCapacity(name_.text(), "{} more bytes are needed, but the disk of {} has {} bytes left", needed,
                        cache_.root(), free);
  }

  void fetch(const Plan& plan, const RemoteFile& file, PullResult& result) {
    if (is_cached(plan, file)) return advance(plan, file);
    const HubLock lock(cache_, file.etag(), access_.poll);
    if (cache_.has_blob(file)) return advance(plan, file);  // another process has fetched it
    report({HubProgress::Event::begin, file.path, 0, file.size, done_, total_});
    const auto known = plan.contents.find(file.path);
    if (known != plan.contents.end()) {
      write_file(cache_.blob(file.etag()), known->second);
    } else {
      download(plan, file, result);
    }
    advance(plan, file);
    report({HubProgress::Event::end, file.path, file.size, file.size, done_, total_});
  }

  void advance(const Plan& plan, const RemoteFile& file) {
    cache_.link(plan.commit, file);
    done_ += file.size;
  }

  void download(const Plan& plan, const RemoteFile& file, PullResult& result) {
    while (true) {
      PartFile part(cache_.part(file.etag()), file.size);
      const std::int64_t resumed = part.present().total();
      Download download(http_, repository_, plan.commit, file, part, access_.jobs);
      std::string hash;
      try {
        hash = download.run([&](std::int64_t present) {
          report({HubProgress::Event::bytes, file.path, present, file.size, done_ + present, total_});
        });
      } catch (const BadCheckpoint&) {  // the server has another file
        part.remove();
        throw;
      }
      result.fetched_bytes += download.fetched();
      if (hash == file.etag()) {
        result.resumed_bytes += resumed;
        return part.commit(cache_.blob(file.etag()));
      }
      part.remove();
      if (resumed > 0) continue;  // what an earlier pull has left may be what is wrong
      throw BadCheckpoint(name_.text(), "{}: expected content with the hash {}, got {}; it was deleted", file.path,
                          file.etag(), hash);
    }
  }

  void keep_tree(const Plan& plan) const {
    try {
      if (known_files(plan.commit).empty()) cache_.write_tree(plan.commit, plan.all);
    } catch (const Error&) {  // a cache may be read-only once it has everything
    }
  }

  /// The snapshot has all files; the revision is known without the hub from now on.
  void finish(const Plan& plan) const {
    for (const RemoteFile& file : plan.wanted) cache_.link(plan.commit, file);
    try {
      cache_.write_ref(name_.revision, plan.commit);
    } catch (const Error&) {  // a cache may be read-only once it has everything
    }
  }

  void report(const HubProgress& progress) const {
    if (access_.report) access_.report(progress);
  }

  const HubName& name_;
  HubWanted wanted_;
  const HubAccess& access_;
  HubSettings settings_;
  HubCache cache_;
  HttpClient http_;
  HubRepository repository_;
  std::int64_t done_ = 0, total_ = 0;  // bytes of all files
};

}  // namespace

PullResult pull(const HubName& name, HubWanted wanted, const HubAccess& access, bool is_dry) {
  return Puller(name, wanted, access).run(is_dry);
}

ModelHeaders fetch_headers(const HubName& name, const HubAccess& access) {
  return Puller(name, HubWanted::model, access).headers();
}

RemoteTokenizer remote_tokenizer(const HubName& name, const HubAccess& access) {
  const PullResult plan = pull(name, HubWanted::tokenizer, access, true);
  const bool has_weights = std::ranges::any_of(
      plan.files, [](const PulledFile& file) { return file.name.ends_with(".gguf") && !file.cached; });
  if (!has_weights) return {pull(name, HubWanted::tokenizer, access).path};
  ModelHeaders headers = fetch_headers(name, access);
  return {std::move(headers.path), std::move(headers.folder)};
}

std::string local_path(const std::string& given, HubWanted wanted, const HubAccess& access) {
  return is_hub_name(given) ? pull(parse_hub_name(given), wanted, access).path : given;
}

}  // namespace vitrine
