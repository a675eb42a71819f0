#include "hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/version.h"

namespace vitrine {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr int kMaxRedirects = 10, kMaxFailures = 6;
constexpr std::size_t kMaxFields = 1 << 8, kMaxField = 1 << 16;
constexpr Milliseconds kPoll{100};

}  // namespace

struct HttpClient::Transfer {
  struct FreeList {
    void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
  };

  std::uint64_t id = 0;
  HttpRequest request;
  std::string url{};
  CURL* easy = nullptr;
  std::unique_ptr<curl_slist, FreeList> fields{};
  HttpHead head{};
  int redirects = 0;
  bool has_head = false;  // request.on_head was called
  Clock::time_point last_byte = Clock::now();
  std::exception_ptr error{};
  char reason[CURL_ERROR_SIZE] = "";  // libcurl's, of a failure

  /// Whether the answer is the result, and not the way to another place.
  bool is_answer() const { return !head.is_redirect(); }

  static std::size_t on_field(char* data, std::size_t size, std::size_t n, void* transfer) {
    static_cast<Transfer*>(transfer)->take_field({data, size * n});
    return size * n;
  }
  static std::size_t on_body(char* data, std::size_t size, std::size_t n, void* transfer) {
    const auto bytes = std::as_bytes(std::span(data, size * n));
    return static_cast<Transfer*>(transfer)->take_body(bytes) ? bytes.size() : CURL_WRITEFUNC_ERROR;
  }

  void take_field(std::string_view line) {
    last_byte = Clock::now();
    if (line.starts_with("HTTP/")) {
      head = {};
      head.url = url;
      if (const std::size_t space = line.find(' '); space != line.npos) {
        head.status = number_in<int>(line.substr(space + 1, 3)).value_or(0);
      }
      return;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos || head.fields.size() >= kMaxFields || line.size() > kMaxField) return;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    const std::size_t last = line.find_last_not_of(" \t\r\n");
    head.fields[name] = first == line.npos || last < first ? "" : std::string(line.substr(first, last + 1 - first));
  }

  /// Returns whether the request goes on.
  bool take_body(std::span<const std::byte> bytes) {
    last_byte = Clock::now();
    if (!is_answer()) return true;
    try {
      report_head();
      if (request.on_body) request.on_body(bytes);
      return true;
    } catch (...) {
      error = std::current_exception();
      return false;
    }
  }

  void report_head() {
    if (!std::exchange(has_head, true) && request.on_head) request.on_head(head);
  }
};

HttpClient::HttpClient(const HubSettings& settings, std::function<void()> poll)
    : settings_(settings), poll_(std::move(poll)), endpoint_(origin_of(settings.endpoint)) {
  static std::once_flag is_initialized;
  std::call_once(is_initialized, [] { ::curl_global_init(CURL_GLOBAL_DEFAULT); });
  multi_ = ::curl_multi_init();
  if (multi_ == nullptr) throw OutOfCapacity("hub", "libcurl cannot start");
}

HttpClient::~HttpClient() {
  cancel_all();
  ::curl_multi_cleanup(multi_);
}

void HttpClient::poll() {
  if (!poll_ || Clock::now() < next_poll_) return;
  poll_();
  next_poll_ = Clock::now() + kPoll;
}

std::uint64_t HttpClient::start(HttpRequest request) {
  auto transfer = std::make_unique<Transfer>();
  transfer->id = ++last_id_;
  transfer->request = std::move(request);
  transfer->easy = ::curl_easy_init();
  if (transfer->easy == nullptr) throw OutOfCapacity("hub", "libcurl cannot start a request");
  Transfer& kept = *transfers_.emplace(last_id_, std::move(transfer)).first->second;
  begin(kept, kept.request.url);
  return kept.id;
}

void HttpClient::begin(Transfer& t, const std::string& url) {
  ::curl_easy_reset(t.easy);
  t.url = url;
  t.head = {};
  t.last_byte = Clock::now();
  const auto set = [&](CURLoption option, auto value) { ::curl_easy_setopt(t.easy, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, t.reason);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_HEADERFUNCTION, &Transfer::on_field);
  set(CURLOPT_HEADERDATA, &t);
  set(CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(CURLOPT_WRITEDATA, &t);
  set(CURLOPT_BUFFERSIZE, 256L << 10);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(settings_.timeout.count()));
  // Ranges of one file would share a connection of HTTP/2, and with it the limit that servers set for each.
  if (t.request.range) set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  if (t.request.only_head) set(CURLOPT_NOBODY, 1L);
  // OpenSSL's variables, which libcurl itself does not read.
  if (const char* const file = std::getenv("SSL_CERT_FILE"); file != nullptr && *file != 0) set(CURLOPT_CAINFO, file);
  if (const char* const path = std::getenv("SSL_CERT_DIR"); path != nullptr && *path != 0) set(CURLOPT_CAPATH, path);
  curl_slist* fields = ::curl_slist_append(nullptr, "Accept-Encoding: identity");
  fields = ::curl_slist_append(fields, ("User-Agent: vitrine/" + version()).c_str());
  if (!settings_.token.empty() && is_endpoint(url)) {
    fields = ::curl_slist_append(fields, ("Authorization: Bearer " + settings_.token).c_str());
  }
  if (const auto& range = t.request.range) {
    fields = ::curl_slist_append(fields, fmt::format("Range: bytes={}-{}", range->begin, range->end - 1).c_str());
  }
  t.fields.reset(fields);
  set(CURLOPT_HTTPHEADER, fields);
  if (::curl_multi_add_handle(multi_, t.easy) != CURLM_OK) throw OutOfCapacity("hub", "libcurl cannot start a request");
}

void HttpClient::cancel(std::uint64_t id) {
  const auto it = transfers_.find(id);
  if (it == transfers_.end()) return;
  ::curl_multi_remove_handle(multi_, it->second->easy);
  ::curl_easy_cleanup(it->second->easy);
  transfers_.erase(it);
}

void HttpClient::cancel_all() {
  ended_.clear();
  while (!transfers_.empty()) cancel(transfers_.begin()->first);
}

std::optional<HttpResult> HttpClient::finish(Transfer& t, int code) {
  HttpResult result{t.id, t.head, "", t.error};
  if (result.error) return result;
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
    result.error = std::make_exception_ptr(
        BadInput(shown_url(t.url), "its certificate is not trusted: {} (SSL_CERT_FILE names the file of others)",
                 t.reason[0] != 0 ? t.reason : ::curl_easy_strerror(static_cast<CURLcode>(code))));
    return result;
  }
  if (code != CURLE_OK) {
    result.failure = ::curl_easy_strerror(static_cast<CURLcode>(code));
    return result;
  }
  try {
    const std::string* const location = t.head.find("location");
    if (t.head.is_redirect() && location != nullptr) {
      const std::string next = redirected(t.url, *location);
      result.head.fields["location"] = next;
      if (t.request.stops_at_other_host && origin_of(next) != origin_of(t.url)) return result;
      if (++t.redirects > kMaxRedirects) {
        throw BadInput(shown_url(t.request.url), "expected at most {} redirects, got more", kMaxRedirects);
      }
      ::curl_multi_remove_handle(multi_, t.easy);
      begin(t, next);
      return std::nullopt;
    }
    t.report_head();
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

std::vector<HttpResult> HttpClient::run(Milliseconds wait) {
  poll();
  if (!ended_.empty()) return std::exchange(ended_, {});
  int n_running = 0;
  ::curl_multi_poll(multi_, nullptr, 0, static_cast<int>(std::min(wait, kPoll).count()), nullptr);
  ::curl_multi_perform(multi_, &n_running);
  std::vector<HttpResult> results;
  const auto end = [&](Transfer& t, int code) {
    if (auto result = finish(t, code)) {
      results.push_back(std::move(*result));
      cancel(results.back().id);
    }
  };
  int n_left = 0;
  while (const CURLMsg* const message = ::curl_multi_info_read(multi_, &n_left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const auto is_it = [&](const auto& entry) { return entry.second->easy == message->easy_handle; };
    const CURLcode code = message->data.result;
    const auto it = std::ranges::find_if(transfers_, is_it);
    if (it != transfers_.end()) end(*it->second, code);
  }
  std::vector<std::uint64_t> stalled;
  for (const auto& [id, t] : transfers_) {
    if (Clock::now() - t->last_byte > settings_.timeout) stalled.push_back(id);
  }
  for (const std::uint64_t id : stalled) {
    const Transfer& t = *transfers_.at(id);
    const double seconds = static_cast<double>(settings_.timeout.count()) / 1000;
    results.push_back({id, t.head, fmt::format("no byte for {} s (HF_HUB_DOWNLOAD_TIMEOUT)", seconds), {}});
    cancel(id);
  }
  return results;
}

HttpResult HttpClient::perform(HttpRequest request) {
  const std::uint64_t id = start(std::move(request));
  try {
    std::optional<HttpResult> own;
    std::vector<HttpResult> others;  // which run() returns later
    while (!own) {
      for (HttpResult& result : run(kPoll)) {
        if (result.id == id) {
          own = std::move(result);
        } else {
          others.push_back(std::move(result));
        }
      }
    }
    ended_ = std::move(others);
    return std::move(*own);
  } catch (...) {
    cancel(id);
    throw;
  }
}

void HttpClient::sleep(Milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  for (poll(); Clock::now() < end; poll()) {
    std::this_thread::sleep_for(std::min<Clock::duration>(kPoll, end - Clock::now()));
  }
}

std::optional<Milliseconds> retry_delay(const HttpResult& result, int failures) {
  constexpr int kLongest = 300;  // seconds that a server may ask for
  if (result.error || failures >= kMaxFailures) return std::nullopt;
  const int status = result.head.status;
  const bool is_passing =
      status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
  if (result.failure.empty() && !is_passing) return std::nullopt;
  if (const std::string* const after = result.head.find("retry-after"); is_passing && after != nullptr) {
    std::int64_t seconds = -1;
    if (const auto number = number_in<std::int64_t>(*after)) {
      seconds = *number;
    } else if (const std::time_t date = ::curl_getdate(after->c_str(), nullptr); date >= 0) {
      seconds = std::max<std::int64_t>(0, date - std::time(nullptr));
    }
    if (seconds > kLongest) return std::nullopt;
    if (seconds >= 0) return Milliseconds(1000 * seconds);
  }
  // A random part keeps clients apart that have failed together.
  static thread_local std::minstd_rand random{std::random_device{}()};
  const int longest = 250 << std::min(failures, 5);
  return Milliseconds(longest / 2 + static_cast<int>(random() % static_cast<unsigned>(longest / 2)));
}

}  // namespace vitrine
