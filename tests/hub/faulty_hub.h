// A hub and its store in this process, which misbehave as a test wants.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/json.h"

namespace vitrine::test {

struct HubRequest {
  bool at_store = false;  ///< Else at the hub itself.
  std::string method, path, range;
  bool has_token = false;
};

struct HubReply {
  int status = 200;
  std::map<std::string, std::string> fields{};
  std::string body{};
  std::string length{};          ///< Content-Length, if it is not that of the body.
  std::size_t cut = SIZE_MAX;    ///< The connection closes after so many bytes of the body.
  std::size_t stall = SIZE_MAX;  ///< Nothing more comes after so many bytes of the body.
};

inline std::string hash_of(const std::string& text, bool is_large) {
  Digest digest = is_large ? Digest::sha256() : Digest::git_blob(static_cast<std::int64_t>(text.size()));
  digest.update(std::as_bytes(std::span(text)));
  return digest.finish();
}

/// Has the repository o/n with the files that a test adds. Those whose names end in .safetensors or .gguf are large:
/// they come from the store, at another host. `change` may change every reply before it is sent.
class FaultyHub {
 public:
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  /// Files go into `folder`, which is empty.
  explicit FaultyHub(std::string folder) : folder_(std::move(folder)), hub_(listen()), store_(listen()) {
    hub_thread_ = std::thread([this] { accept_all(hub_, false); });
    store_thread_ = std::thread([this] { accept_all(store_, true); });
    set("HF_ENDPOINT", endpoint());
    set("HF_HUB_CACHE", cache());
    set("HF_TOKEN", "");
    set("HF_TOKEN_PATH", folder_ + "/no-token");
    set("HF_HUB_DOWNLOAD_TIMEOUT", "1");
    for (const char* const name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "http_proxy", "all_proxy"}) set(name, "");
  }
  FaultyHub(const FaultyHub&) = delete;
  FaultyHub& operator=(const FaultyHub&) = delete;
  ~FaultyHub() {
    stops_ = true;
    for (const int fd : {hub_, store_}) ::shutdown(fd, SHUT_RDWR);
    hub_thread_.join();
    store_thread_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : connections_) ::shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    for (const int fd : {hub_, store_}) ::close(fd);
    for (const auto& [name, value] : saved_) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }

  void set(const std::string& name, const std::string& value) {
    const char* const old = std::getenv(name.c_str());
    if (!saved_.contains(name)) saved_[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  void add(const std::string& name, std::string content) {
    const std::lock_guard lock(mutex_);
    files_[name] = std::move(content);
  }
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_of(hub_)); }
  std::string store() const { return "http://localhost:" + std::to_string(port_of(store_)); }
  std::string cache() const { return folder_ + "/cache"; }
  const std::string& folder() const { return folder_; }
  std::string repository() const { return cache() + "/models--o--n"; }
  std::string etag(const std::string& name) const { return hash_of(files_.at(name), is_large(name)); }

  /// The requests so far.
  std::vector<HubRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::ptrdiff_t count(const std::string& path_end, const std::string& method = "GET") {
    const auto all = requests();
    return std::ranges::count_if(all,
                                 [&](const HubRequest& r) { return r.path.ends_with(path_end) && r.method == method; });
  }
  std::int64_t sent() const { return sent_; }  ///< Bytes of bodies.

  std::function<void(const HubRequest&, HubReply&)> change{};
  std::int64_t rate = 0;  ///< Bytes per second and connection; 0: no limit.

 private:
  static bool is_large(const std::string& name) { return name.ends_with(".safetensors") || name.ends_with(".gguf"); }
  static int listen() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
    EXPECT_EQ(::listen(fd, 64), 0);
    return fd;
  }
  static int port_of(int fd) {
    sockaddr_in place{};
    socklen_t size = sizeof place;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&place), &size);
    return ntohs(place.sin_port);
  }

  void accept_all(int listening, bool at_store) {
    while (!stops_) {
      const int fd = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const std::lock_guard lock(mutex_);
      connections_.push_back(fd);
      threads_.emplace_back([this, fd, at_store] {
        while (!stops_ && answer(fd, at_store)) continue;
        const std::lock_guard guard(mutex_);
        std::erase(connections_, fd);
        ::close(fd);
      });
    }
  }

  static std::string field(const std::string& head, const std::string& name) {
    const std::size_t at = head.find("\r\n" + name + ": ");
    if (at == head.npos) return "";
    const std::size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }

  /// One request and its answer. Returns whether the connection stays.
  bool answer(int fd, bool at_store) {
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
      char c = 0;
      if (::recv(fd, &c, 1, 0) != 1) return false;
      head += c;
    }
    HubRequest request{
        at_store, head.substr(0, head.find(' ')), {}, field(head, "Range"), !field(head, "Authorization").empty()};
    const std::size_t begin = head.find(' ') + 1;
    request.path = head.substr(begin, head.find(' ', begin) - begin);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    HubReply reply = honest(request);
    if (change) change(request, reply);
    return send(fd, request, reply);
  }

  HubReply honest(const HubRequest& request) const {
    const std::string tree = "/api/models/o/n/tree/", resolve = std::string("/o/n/resolve/") + kCommit + "/";
    if (request.path.starts_with("/api/models/o/n/revision/")) return {200, {}, Json{{"sha", kCommit}}.dump()};
    if (request.path.starts_with(tree)) {
      Json rows = Json::array();
      for (const auto& [name, content] : files_) {
        Json row = {{"type", "file"}, {"path", name}, {"size", content.size()}, {"oid", hash_of(content, false)}};
        if (is_large(name)) row["lfs"] = {{"oid", hash_of(content, true)}, {"size", content.size()}};
        rows.push_back(std::move(row));
      }
      return {200, {}, rows.dump()};
    }
    if (!request.path.starts_with(resolve)) return {404, {{"X-Error-Code", "RepoNotFound"}}};
    const std::string name = request.path.substr(resolve.size(), request.path.find('?') - resolve.size());
    const auto file = files_.find(name);
    if (file == files_.end()) return {404, {{"X-Error-Code", "EntryNotFound"}}};
    if (request.at_store || !is_large(name)) return content(request, file->second);
    return {302, {{"X-Linked-ETag", '"' + etag(name) + '"'}, {"Location", store() + request.path}}};
  }

  static HubReply content(const HubRequest& request, const std::string& text) {
    if (request.range.empty()) return {200, {}, text};
    const std::size_t dash = request.range.find('-');
    const std::size_t begin = std::stoul(request.range.substr(6)), end = std::stoul(request.range.substr(dash + 1)) + 1;
    const std::string shown =
        "bytes " + std::to_string(begin) + "-" + std::to_string(end - 1) + "/" + std::to_string(text.size());
    return {206, {{"Content-Range", shown}}, text.substr(begin, end - begin)};
  }

  bool send(int fd, const HubRequest& request, const HubReply& reply) {
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\n";
    for (const auto& [name, value] : reply.fields) head += name + ": " + value + "\r\n";
    head += "Content-Length: " + (reply.length.empty() ? std::to_string(reply.body.size()) : reply.length) + "\r\n\r\n";
    if (::send(fd, head.data(), head.size(), MSG_NOSIGNAL) < 0) return false;
    if (request.method == "HEAD") return true;
    const std::size_t n = std::min({reply.body.size(), reply.cut, reply.stall});
    const auto begun = std::chrono::steady_clock::now();
    for (std::size_t done = 0; done < n && !stops_;) {
      const std::size_t piece = std::min<std::size_t>(n - done, 1 << 15);
      if (::send(fd, reply.body.data() + done, piece, MSG_NOSIGNAL) != static_cast<ssize_t>(piece)) return false;
      done += piece;
      sent_ += static_cast<std::int64_t>(piece);
      if (rate > 0) {
        std::this_thread::sleep_until(begun +
                                      std::chrono::microseconds(static_cast<std::int64_t>(done) * 1000000 / rate));
      }
    }
    if (reply.stall < reply.body.size()) {
      char c = 0;
      (void)!::recv(fd, &c, 1, 0);  // until the client gives up
      return false;
    }
    return reply.cut >= reply.body.size();
  }

  std::string folder_;
  std::map<std::string, std::string> files_;
  std::map<std::string, std::optional<std::string>> saved_;  // variables of the environment
  int hub_, store_;
  std::atomic<bool> stops_ = false;
  std::atomic<std::int64_t> sent_ = 0;
  std::mutex mutex_;
  std::vector<HubRequest> requests_;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
  std::thread hub_thread_, store_thread_;
};

}  // namespace vitrine::test
