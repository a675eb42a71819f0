// Requests over HTTP and HTTPS, several at a time, on the thread that makes the call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hub/access.h"
#include "hub/byte_ranges.h"
#include "hub/settings.h"
#include "hub/url.h"

namespace vitrine {

/// Status line and fields of an answer.
struct HttpHead {
  int status = 0;
  std::string url;                            ///< That has answered.
  std::map<std::string, std::string> fields;  ///< Names in lower case.

  const std::string* find(const std::string& name) const {
    const auto it = fields.find(name);
    return it == fields.end() ? nullptr : &it->second;
  }
  bool is_redirect() const { return status == 301 || status == 302 || status == 303 || status == 307 || status == 308; }
};

struct HttpRequest {
  std::string url;
  bool only_head = false;
  bool stops_at_other_host = false;  ///< A redirect to another host is the answer.
  std::optional<ByteRange> range{};
  /// Of an answer that is not a redirect. An exception of either ends the request and is its result.
  std::function<void(const HttpHead&)> on_head{};
  std::function<void(std::span<const std::byte>)> on_body{};
};

/// How a request ended.
struct HttpResult {
  std::uint64_t id = 0;
  HttpHead head;               ///< Status 0: no answer has come.
  std::string failure;         ///< Why the connection failed; "": it did not.
  std::exception_ptr error{};  ///< What the request's functions threw, or a redirect that is refused.
};

/// Follows redirects by hand: at most 10, never from https to http. The token goes to the endpoint's scheme, host and
/// port alone. A request without a byte for the time that the settings allow fails.
class HttpClient {
 public:
  HttpClient(const HubSettings& settings, std::function<void()> poll);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  /// Begins a request and returns its id.
  std::uint64_t start(HttpRequest request);
  /// Ends a request, which then has no result.
  void cancel(std::uint64_t id);
  void cancel_all();
  /// Waits until something happens, at most `wait`, and returns the requests that have ended.
  std::vector<HttpResult> run(std::chrono::milliseconds wait);
  /// One request, alone.
  HttpResult perform(HttpRequest request);
  /// Waits; the caller's poll may end it.
  void sleep(std::chrono::milliseconds time);
  /// Calls the caller's poll, at most ten times a second.
  void poll();
  bool is_endpoint(const std::string& url) const { return origin_of(url) == endpoint_; }

 private:
  struct Transfer;
  void begin(Transfer& transfer, const std::string& url);
  /// The result of a request that libcurl has ended; nothing if it goes on at another place.
  std::optional<HttpResult> finish(Transfer& transfer, int code);

  const HubSettings& settings_;
  std::function<void()> poll_;
  std::chrono::steady_clock::time_point next_poll_{};
  UrlOrigin endpoint_;
  void* multi_ = nullptr;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Transfer>> transfers_;
  std::vector<HttpResult> ended_;  // while perform() was waiting for another request
};

/// How long to wait before a request is made again that has failed `failures` times in a row: as long as the server
/// says in Retry-After (seconds or a date), else twice as long each time. Nothing if it is useless to try again.
std::optional<std::chrono::milliseconds> retry_delay(const HttpResult& result, int failures);

}  // namespace vitrine
