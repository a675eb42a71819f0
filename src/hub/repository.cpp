#include "hub/repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxAnswer = std::size_t{32} << 20, kMaxPages = 10000;
constexpr int kMostLinks = 4;  // to another host, which may have expired

/// The URL of the next page, as `Link: <URL>; rel="next"` names it; "" if there is none.
std::string next_page(const HttpHead& head) {
  const std::string* const link = head.find("link");
  if (link == nullptr) return "";
  for (std::string_view rest = *link;;) {  // a URL may have commas
    const std::size_t begin = rest.find('<'), end = rest.find('>', begin);
    if (begin == rest.npos || end == rest.npos) return "";
    const std::string_view parameters = rest.substr(end, rest.find('<', end) - end);
    const bool is_next = parameters.find("rel=\"next\"") != rest.npos || parameters.find("rel=next") != rest.npos;
    if (is_next) return redirected(head.url, std::string(rest.substr(begin + 1, end - begin - 1)));
    rest.remove_prefix(end + 1);
  }
}

std::string text_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

std::int64_t size_at(const Json& object, const std::string& where) {
  const auto it = object.find("size");
  if (it == object.end() || !it->is_number_unsigned() || it->get<std::uint64_t>() > std::uint64_t{1} << 50) {
    throw BadInput(where, "expected a size");
  }
  return it->get<std::int64_t>();
}

RemoteFile file_of(const Json& row, const std::string& where) {
  RemoteFile file;
  file.path = text_at(row, "path");
  check_path_inside(file.path, where);
  const std::string place = where + ", " + file.path;
  file.size = size_at(row, place);
  file.blob_id = text_at(row, "oid");
  check_hexadecimal(file.blob_id, 40, place + ": oid");
  if (const auto lfs = row.find("lfs"); lfs != row.end() && lfs->is_object()) {
    file.sha256 = text_at(*lfs, "oid");
    check_hexadecimal(*file.sha256, 64, place + ": lfs.oid");
    file.size = size_at(*lfs, place);
  }
  return file;
}

/// An etag without quotes and without the mark of a weak one.
std::string plain_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

}  // namespace

std::string HubRepository::url(const std::string& commit, const std::string& path) const {
  return settings_.endpoint + "/" + name_.repository + "/resolve/" + commit + "/" + url_escaped(path, true);
}

void HubRepository::refuse(const HttpResult& result, const std::string& what) const {
  if (result.error) std::rethrow_exception(result.error);
  const std::string where = name_.text();
  const std::string page = settings_.endpoint + "/" + name_.repository;
  if (!result.failure.empty()) {
    throw HubUnreachable(where, "cannot fetch {} from {}: {}", what, settings_.endpoint, result.failure);
  }
  if (result.head.status != 0 && !http_.is_endpoint(result.head.url)) {
    throw HubUnreachable(where, "cannot fetch {}: {} answers with status {}", what, shown_url(result.head.url),
                         result.head.status);
  }
  const std::string* const field = result.head.find("x-error-code");
  const std::string code = field == nullptr ? "" : *field;
  const int status = result.head.status;
  const bool has_token = !settings_.token.empty();
  if (code == "GatedRepo") {
    throw BadInput(where, "access is restricted: accept the terms at {}{}", page,
                   has_token ? ", with the account of the token" : ", then set HF_TOKEN to a token of your account");
  }
  if (code == "RevisionNotFound") throw BadInput(where, "{} has no revision \"{}\"", page, name_.revision);
  if (code == "EntryNotFound") throw BadInput(where, "{} has no {}", page, what);
  if (code == "RepoNotFound" || (code.empty() && status == 404)) {
    throw BadInput(where, "there is no {}, or it is private: check the name, or set HF_TOKEN to {}", page,
                   has_token ? "the token of an account that may read it" : "a token of an account that may read it");
  }
  if (status == 401 && !has_token) throw BadInput(where, "{} needs a token: set HF_TOKEN", page);
  if (status == 401) throw BadInput(where, "{} does not accept the token: it is wrong or has expired (HF_TOKEN)", page);
  if (status == 403) throw BadInput(where, "access is refused: the terms must be accepted at {}", page);
  const std::string* const after = result.head.find("retry-after");
  throw HubUnreachable(where, "cannot fetch {}: {} answers with status {}{}", what, shown_url(result.head.url), status,
                       after == nullptr ? "" : ", Retry-After: " + *after);
}

HttpResult HubRepository::ask(HttpRequest request, const std::string& what, std::string* body, std::size_t most) const {
  bool takes = false;
  request.on_head = [&](const HttpHead& head) { takes = head.status == 200; };
  request.on_body = [&](std::span<const std::byte> bytes) {
    if (!takes || body == nullptr) return;
    if (body->size() + bytes.size() > most)
      throw BadInput(name_.text(), "{}: expected at most {} bytes, got more", what, most);
    body->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (int failures = 0;; ++failures) {
    if (body != nullptr) body->clear();
    HttpResult result = http_.perform(request);
    const bool is_link = request.stops_at_other_host && result.head.is_redirect();
    if (!result.error && result.failure.empty() && (result.head.status == 200 || is_link)) return result;
    const auto delay = retry_delay(result, failures);
    if (!delay || failures >= most_retries_) refuse(result, what);
    http_.sleep(*delay);
  }
}

std::string HubRepository::commit() const {
  std::string body;
  const std::string url =
      settings_.endpoint + "/api/models/" + name_.repository + "/revision/" + url_escaped(name_.revision, false);
  ask({url}, "the revision", &body, kMaxAnswer);
  const Json json = parse_json(body, shown_url(url));
  std::string sha = json.is_object() ? text_at(json, "sha") : "";
  check_hexadecimal(sha, 40, shown_url(url) + ": sha");
  return sha;
}

std::vector<RemoteFile> HubRepository::files(const std::string& commit) const {
  std::vector<RemoteFile> files;
  std::set<std::string> seen;
  std::string url = settings_.endpoint + "/api/models/" + name_.repository + "/tree/" + commit + "?recursive=true";
  for (std::size_t page = 0; !url.empty(); ++page) {
    const std::string where = shown_url(url);
    if (page == kMaxPages) throw BadInput(where, "expected at most {} pages", kMaxPages);
    std::string body;
    const HttpResult result = ask({url}, "the list of files", &body, kMaxAnswer);
    const Json rows = parse_json(body, where);
    if (!rows.is_array()) throw BadInput(where, "expected a list of files");
    for (const Json& row : rows) {
      if (!row.is_object()) throw BadInput(where, "expected a list of files");
      if (text_at(row, "type") != "file") continue;
      files.push_back(file_of(row, where));
      if (!seen.insert(files.back().path).second) throw BadInput(where, "{} appears twice", files.back().path);
    }
    url = next_page(result.head);
    if (!url.empty() && !http_.is_endpoint(url)) {
      throw BadInput(where, "refused the next page at another host, {}", shown_url(url));
    }
  }
  return files;
}

void HubRepository::check_head(const HttpHead& head, const std::string& commit, const RemoteFile& file) const {
  if (!http_.is_endpoint(head.url)) return;                                     // other hosts have etags of their own
  if (head.status != 200 && head.status != 206 && !head.is_redirect()) return;  // errors have etags of their own
  const std::string where = name_.text() + ", " + file.path;
  if (const std::string* const given = head.find("x-repo-commit")) {
    check_hexadecimal(*given, 40, where + ": X-Repo-Commit");
    if (*given != commit) throw BadInput(where, "expected the file of commit {}, got that of {}", commit, *given);
  }
  const std::string* const linked = head.find("x-linked-etag");
  const std::string* const etag = linked != nullptr ? linked : head.find("etag");
  if (etag != nullptr) {
    const std::string plain = plain_etag(*etag);
    check_hexadecimal(plain, 0, where + ": ETag");
    if (plain != file.etag()) throw BadInput(where, "expected the etag {}, got {}", file.etag(), plain);
  }
  if (const std::string* const size = head.find("x-linked-size"); size != nullptr) {
    if (number_in<std::int64_t>(*size) != file.size) {
      throw BadInput(where, "expected {} bytes, got {} (X-Linked-Size)", file.size, *size);
    }
  }
}

std::string HubRepository::link(const std::string& commit, const RemoteFile& file) const {
  HttpRequest request{url(commit, file.path)};
  request.only_head = true;
  request.stops_at_other_host = true;
  const HttpResult result = ask(std::move(request), file.path, nullptr, 0);
  check_head(result.head, commit, file);
  if (!result.head.is_redirect()) return result.head.url;
  const std::string* const location = result.head.find("location");
  if (location == nullptr) throw BadInput(name_.text(), "{}: expected the place of a redirect", file.path);
  return *location;
}

std::string HubRepository::read(const std::string& commit, const RemoteFile& file) const {
  std::string body;
  const HttpResult result = ask({url(commit, file.path)}, file.path, &body, kMaxAnswer);
  check_head(result.head, commit, file);
  Digest digest = file.digest();
  digest.update(std::as_bytes(std::span(body)));
  const std::string hash = digest.finish();
  if (hash != file.etag()) {
    throw BadCheckpoint(name_.text(), "{}: expected content with the hash {}, got {} bytes with {}", file.path,
                        file.etag(), body.size(), hash);
  }
  return body;
}

std::string HubRepository::read(const std::string& commit, const RemoteFile& file, ByteRange range) const {
  struct Enough {};
  std::string body;
  std::int64_t at = 0;  // of the next byte in the file
  bool takes = false;
  HttpRequest request{url(commit, file.path)};
  request.range = range;
  request.on_head = [&](const HttpHead& head) {
    check_head(head, commit, file);
    takes = head.status == 206 || head.status == 200;
    at = head.status == 200 ? 0 : range.begin;
  };
  request.on_body = [&](std::span<const std::byte> bytes) {
    if (!takes) return;
    const auto skip = std::min(std::max<std::int64_t>(range.begin - at, 0), std::ssize(bytes));
    at += std::ssize(bytes);
    bytes = bytes.subspan(static_cast<std::size_t>(skip));
    const auto n = std::min(range.size() - std::ssize(body), std::ssize(bytes));
    body.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(n));
    if (std::ssize(body) == range.size() && n < std::ssize(bytes)) throw Enough();
  };
  for (int failures = 0;; ++failures) {
    body.clear();
    takes = false;
    HttpResult result = http_.perform(request);
    if (std::ssize(body) == range.size()) return body;
    if (takes && !result.error && result.failure.empty()) result.failure = "the answer ended early";
    auto delay = retry_delay(result, failures);
    const bool is_link = !http_.is_endpoint(result.head.url) && result.failure.empty() && !result.error;
    const bool has_expired = is_link && (result.head.status == 403 || result.head.status == 410);
    if (has_expired && failures < kMostLinks) delay = std::chrono::milliseconds(0);  // another link may be valid
    if (!delay || (failures >= most_retries_ && !has_expired)) refuse(result, file.path);
    http_.sleep(*delay);
  }
}

}  // namespace vitrine
