// A connection of the HTTP server: reads requests one after the other and answers them. A part of http.cpp, the only
// translation unit with Boost.Beast, which takes long to compile.
#pragma once

#include <poll.h>

#include <utility>

// <utility> comes first: the coroutines of Boost 1.74 use std::exchange without it.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <limits>
#include <random>
#include <thread>

#include "serve/access_log.h"
#include "serve/http.h"
#include "serve/request_fields.h"
#include "serve/routes.h"

namespace vitrine::http_server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::awaitable;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr std::uint32_t kMaxHeaderBytes = 16 << 10;
constexpr auto kHeaderTime = 10s, kBodyTime = 30s, kWriteTime = 30s, kIdleTime = 60s, kFinishTime = 5s;
constexpr auto kPollTime = 200ms;                // how often a waiting request looks whether its client is still there
constexpr auto kFullTime = 20ms;                 // how often a full server looks whether a connection has ended
constexpr std::chrono::seconds kRetryTime = 5s;  // after which a client of a server that starts or ends may try again
constexpr std::size_t kMaxIgnoredBytes = 8 << 20;

/// The client went away.
struct Disconnected {};

/// An error in the form of the door.
inline HttpReply reply_of(const RequestError& error, const Door& door = kMainDoor) {
  HttpReply reply{door.status(error), json_text(door.error(error))};
  reply.retry_after = error.retry_after();
  return reply;
}

inline std::string random_id() {
  static thread_local std::mt19937_64 numbers{std::random_device{}()};
  return fmt::format("{:016x}", numbers());
}

/// The values of a field, joined as HTTP allows it.
inline std::string value_of(const http::fields& fields, http::field name) {
  std::string all;
  const auto [begin, end] = fields.equal_range(name);
  for (auto at = begin; at != end; ++at) all += (at == begin ? "" : ", ") + std::string(at->value());
  return all;
}

inline RequestHead head_of(const http::request_parser<http::empty_body>& parser) {
  const http::request<http::empty_body>& message = parser.get();
  RequestHead head;
  head.method = std::string(message.method_string());
  RequestTarget target = parse_target(std::string_view(message.target().data(), message.target().size()));
  head.path = std::move(target.path);
  head.host = target.host ? std::move(*target.host) : value_of(message, http::field::host);
  head.origin = value_of(message, http::field::origin);
  head.authorization = value_of(message, http::field::authorization);
  head.content_type = value_of(message, http::field::content_type);
  head.content_encoding = value_of(message, http::field::content_encoding);
  head.transfer_encoding = value_of(message, http::field::transfer_encoding);
  head.asked_headers = value_of(message, http::field::access_control_request_headers);
  const auto value_or_none = [&](const char* name) {
    const auto at = message.find(name);
    return at == message.end() ? "" : std::string(at->value());
  };
  head.api_key = value_or_none("x-api-key");
  head.request_id = value_or_none("x-request-id");
  head.asks_private_network = value_or_none("access-control-request-private-network");
  const auto length = parser.content_length();
  if (length) head.content_length = *length;
  head.n_fields = static_cast<std::size_t>(std::distance(message.begin(), message.end()));
  head.is_http_1_0 = message.version() < 11;
  return head;
}

/// What requests are served with.
struct Backend {
  ModelRegistry* models = nullptr;
  RoundLoop* loop = nullptr;
};

/// What all connections share. Except for the atomic members, it belongs to the server's thread.
struct ServerState {
  explicit ServerState(HttpConfig c) : config(std::move(c)), log(config.access_log) {}

  const HttpConfig config;
  AccessLog log;
  asio::io_context io{1};
  asio::thread_pool workers{1};
  std::atomic<const Backend*> backend = nullptr;
  std::atomic<std::int64_t> n_exchanges = 0;   // requests whose response is not complete
  std::atomic<std::size_t> n_connections = 0;  // a notifier may hold the last reference to one
  std::int64_t body_bytes = 0;
};

template <class F>
awaitable<std::invoke_result_t<F&>> called(F f) {
  co_return f();
}

class Connection;

/// Counts the bytes of a body as long as it is in memory.
class BodyBytes {
 public:
  BodyBytes() = default;
  BodyBytes(std::int64_t& total, std::int64_t bytes) : total_(&total), bytes_(bytes) { total += bytes; }
  BodyBytes(BodyBytes&& other) noexcept : total_(std::exchange(other.total_, nullptr)), bytes_(other.bytes_) {}
  BodyBytes& operator=(BodyBytes&& other) noexcept {
    std::swap(total_, other.total_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BodyBytes() {
    if (total_ != nullptr) *total_ -= bytes_;
  }

 private:
  std::int64_t* total_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// A request that is being answered.
struct Exchange {
  RequestHead head;
  AdmittedHead admitted;
  AccessRecord record;
  std::string body;
  BodyBytes body_bytes;
  std::optional<ModelRegistry::Use> use;  // of the model that answers it
  unsigned version = 11;
  bool keeps_alive = false;
};

/// Of a server with one model, a full queue refuses a request before its body is read: the model is known.
inline void check_space(ModelRegistry& models, std::size_t client) {
  if (models.size() > 1) return;
  const auto use = models.look_at(*models.find(""));
  if (use) use->model().scheduler()->check_space(client);
}

/// Answers a request whose body has been read. Throws what becomes an error response.
awaitable<void> answer_request(Connection& connection, Exchange& x, const Backend& backend);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, ServerState& state) : state_(state), stream_(std::move(socket)), timer_(state.io) {
    ++state_.n_connections;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { --state_.n_connections; }

  /// Answers requests until the connection ends; an exception ends it, too. Whoever spawns it keeps the connection.
  awaitable<void> run() {
    bool stays_open = true;
    while (stays_open) stays_open = co_await exchange();  // GCC 12 makes wrong code of co_await in a condition
    co_await linger();
  }

  /// Calls `f` on the thread that prepares requests and responses, so that long ones keep nobody waiting.
  template <class F>
  auto on_worker(F f) {
    return asio::co_spawn(state_.workers.get_executor(), called(std::move(f)), use_awaitable);
  }

  /// What a job calls, on the scheduler's thread, when it has new steps.
  std::function<void()> notifier();
  /// Waits until the notifier is called, or for kPollTime. Throws Disconnected if the client has gone away.
  awaitable<void> wait();
  bool is_draining() const { return *state_.config.interrupt; }
  RouteRequest request_of(const Exchange& x) {
    return {x.body, x.admitted.name, x.record.request_id, x.admitted.client, notifier()};
  }

  /// Writes a response.
  awaitable<void> write(Exchange& x, HttpReply reply);
  /// Writes the header of a stream of events. HTTP 1.0 has no chunks: there the end of the connection ends the stream.
  awaitable<void> write_stream_head(Exchange& x, const char* type);
  awaitable<void> write_events(Exchange& x, std::string events, bool is_last);

 private:
  awaitable<bool> exchange();
  awaitable<void> serve(Exchange& x, http::request_parser<http::empty_body>& parser);
  awaitable<void> read_body(Exchange& x, http::request_parser<http::empty_body>& parser);
  awaitable<void> linger();
  template <class Response>
  void set_fields(const Exchange& x, Response& response) const;
  bool is_gone();

  ServerState& state_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  asio::steady_timer timer_;
  std::atomic<bool> is_notified_ = false;
  bool has_served_ = false;
};

/// Whether the client has closed its end.
inline bool Connection::is_gone() {
  pollfd polled{stream_.socket().native_handle(), POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/// Reads a request and answers it. Returns whether the connection stays open.
inline awaitable<bool> Connection::exchange() {
  if (buffer_.size() == 0) {
    stream_.expires_after(has_served_ ? kIdleTime : kHeaderTime);
    const std::size_t n = co_await stream_.async_read_some(buffer_.prepare(4096), use_awaitable);
    buffer_.commit(n);
  }
  Exchange x;
  http::request_parser<http::empty_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  stream_.expires_after(kHeaderTime);
  error_code error;
  co_await http::async_read_header(stream_, buffer_, parser, asio::redirect_error(use_awaitable, error));
  if (error == http::error::end_of_stream) co_return false;
  if (error && error.category() != http::make_error_code(http::error::bad_target).category()) {
    throw boost::system::system_error(error);
  }
  ++state_.n_exchanges;
  std::exception_ptr failure;
  try {
    x.record.request_id = random_id();
    if (error) {
      const ErrorKind& kind = error == http::error::header_limit ? kHeaderTooLarge : kMalformed;
      const RequestError refusal(kind, "header", "not a valid HTTP request: {}", error.message());
      HttpReply reply = reply_of(refusal);
      co_await write(x, std::move(reply));
    } else {
      co_await serve(x, parser);
    }
  } catch (...) {
    x.record.status = 499;
    failure = std::current_exception();
  }
  state_.log.write(x.record);
  --state_.n_exchanges;
  if (failure) std::rethrow_exception(failure);
  has_served_ = true;
  co_return x.keeps_alive;
}

/// Answers a request, with an error response if need be.
inline awaitable<void> Connection::serve(Exchange& x, http::request_parser<http::empty_body>& parser) {
  x.version = parser.get().version();
  x.head = head_of(parser);
  x.record.request_id = request_id_of(x.head, x.record.request_id);
  x.record.method = x.head.method;
  x.record.path = x.head.path;
  const AccessRules& access = state_.config.access;
  std::optional<RequestError> refusal;
  try {
    x.admitted = admit(x.head, access);
    if (x.admitted.max_body == Route::kNoBody) x.keeps_alive = parser.keep_alive();
    if (asks_methods(x.head)) {
      HttpReply reply{204, "", nullptr};
      co_await write(x, std::move(reply));
      co_return;
    }
    const Backend* const backend = state_.backend;
    if (const auto* const report = std::get_if<Route::Report>(&x.admitted.route->handler)) {
      const ModelRegistry* const models = backend != nullptr ? backend->models : nullptr;
      HttpReply reply = (*report)({models == nullptr || !models->is_ready(), is_draining(), models});
      co_await write(x, std::move(reply));
      co_return;
    }
    if (backend == nullptr) throw RequestError(kUnavailable, "request", "the server is starting");
    if (is_draining()) throw RequestError(kUnavailable, "request", "the server is shutting down");
    if (x.admitted.route->needs_scheduler()) check_space(*backend->models, x.admitted.client);
    if (x.admitted.max_body != Route::kNoBody) co_await read_body(x, parser);
    co_await answer_request(*this, x, *backend);
  } catch (const Disconnected&) {
    throw;
  } catch (const boost::system::system_error&) {
    throw;
  } catch (...) {
    if (x.record.status != 0) throw;  // within a stream: there is no second header
    refusal = request_error_of(std::current_exception());
  }
  if (!refusal) co_return;
  HttpReply reply = reply_of(*refusal, door_of(x.head.path, x.head.method));
  co_await write(x, std::move(reply));
}

inline awaitable<void> Connection::read_body(Exchange& x, http::request_parser<http::empty_body>& parser) {
  const auto bytes = static_cast<std::int64_t>(x.head.content_length.value_or(x.admitted.max_body));
  while (state_.body_bytes > 0 && state_.body_bytes + bytes > state_.config.max_bodies) co_await wait();
  x.body_bytes = BodyBytes(state_.body_bytes, bytes);
  stream_.expires_after(kBodyTime);
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await asio::async_write(stream_, asio::buffer(go_on), use_awaitable);
  }
  http::request_parser<http::string_body> body(std::move(parser));
  body.body_limit(x.admitted.max_body);
  error_code error;
  co_await http::async_read(stream_, buffer_, body, asio::redirect_error(use_awaitable, error));
  if (error == http::error::body_limit) {
    throw RequestError(kBodyTooLarge, "body", "expected at most {} bytes", x.admitted.max_body);
  }
  if (error && error.category() == http::make_error_code(http::error::bad_target).category()) {
    throw RequestError(kMalformed, "body", "not a valid HTTP body: {}", error.message());
  }
  if (error) throw boost::system::system_error(error);
  x.keeps_alive = body.keep_alive();
  x.body = std::move(body.get().body());
}

inline std::function<void()> Connection::notifier() {
  return [weak = weak_from_this(), &io = state_.io] {
    const auto self = weak.lock();
    if (self == nullptr || self->is_notified_.exchange(true)) return;
    asio::post(io, [self] {
      self->is_notified_ = false;
      self->timer_.cancel();
    });
  };
}

inline awaitable<void> Connection::wait() {
  error_code error;
  timer_.expires_after(kPollTime);
  co_await timer_.async_wait(asio::redirect_error(use_awaitable, error));
  if (is_gone()) throw Disconnected();
}

template <class Response>
void Connection::set_fields(const Exchange& x, Response& response) const {
  response.version(x.version);
  response.keep_alive(x.keeps_alive);
  response.set("x-request-id", x.record.request_id);
  for (const auto& [name, value] : cors_fields(x.head, state_.config.access)) response.set(name, value);
}

inline awaitable<void> Connection::write(Exchange& x, HttpReply reply) {
  http::response<http::string_body> response;
  response.result(static_cast<unsigned>(reply.status));
  set_fields(x, response);
  if (reply.content_type != nullptr) response.set(http::field::content_type, reply.content_type);
  if (reply.status == 401) response.set(http::field::www_authenticate, "Bearer");
  if (reply.status == 405 || asks_methods(x.head)) response.set(http::field::allow, methods_of(x.head.path));
  if (reply.status == 503) reply.retry_after = std::max(reply.retry_after, kRetryTime);
  if (reply.retry_after > 0s) response.set(http::field::retry_after, std::to_string(reply.retry_after.count()));
  response.body() = std::move(reply.body);
  response.prepare_payload();
  http::response_serializer<http::string_body> serializer(response);
  const bool has_body = x.head.method != "HEAD";  // only the header, which has the length of GET's body
  while (has_body ? !serializer.is_done() : !serializer.is_header_done()) {
    stream_.expires_after(kWriteTime);
    if (has_body) {
      co_await http::async_write_some(stream_, serializer, use_awaitable);
    } else {
      co_await http::async_write_header(stream_, serializer, use_awaitable);
    }
  }
  x.record.status = reply.status;
}

inline awaitable<void> Connection::write_stream_head(Exchange& x, const char* type) {
  http::response<http::empty_body> response;
  response.result(http::status::ok);
  if (x.version < 11) x.keeps_alive = false;
  set_fields(x, response);
  response.set(http::field::content_type, type);
  response.set(http::field::cache_control, "no-cache");
  response.set("x-accel-buffering", "no");  // nginx passes events on at once
  response.chunked(x.version >= 11);
  http::response_serializer<http::empty_body> serializer(response);
  stream_.expires_after(kWriteTime);
  co_await http::async_write_header(stream_, serializer, use_awaitable);
  x.record.status = 200;
}

inline awaitable<void> Connection::write_events(Exchange& x, std::string events, bool is_last) {
  if (x.version >= 11) {
    if (!events.empty()) events = fmt::format("{:x}\r\n{}\r\n", events.size(), events);
    if (is_last) events += "0\r\n\r\n";
  }
  for (std::size_t n_written = 0; n_written < events.size();) {
    stream_.expires_after(kWriteTime);
    n_written += co_await stream_.async_write_some(asio::buffer(events) + n_written, use_awaitable);
  }
}

/// Closes the connection so that the client can read the last response although its request has not been read.
inline awaitable<void> Connection::linger() {
  error_code error;
  stream_.socket().shutdown(tcp::socket::shutdown_send, error);
  stream_.expires_after(2s);
  buffer_.clear();
  for (std::size_t n_read = 0; n_read < kMaxIgnoredBytes;) {
    const std::size_t n =
        co_await stream_.async_read_some(buffer_.prepare(1 << 16), asio::redirect_error(use_awaitable, error));
    if (error) co_return;
    n_read += n;
  }
}

}  // namespace vitrine::http_server
