#include "serve/http.h"

#include "serve/http_connection.h"

#include "serve/model_choice.h"
#include "serve/routes.h"

namespace vitrine {
namespace http_server {
namespace {

/// Ends the work when its answer ends, for whatever reason.
class WorkGuard {
 public:
  WorkGuard(PendingReply& work, Scheduler& scheduler, AccessRecord& record)
      : work_(work), scheduler_(scheduler), record_(record) {}
  WorkGuard(const WorkGuard&) = delete;
  WorkGuard& operator=(const WorkGuard&) = delete;
  ~WorkGuard() {
    record_.times = work_.times();
    work_.cancel();
    scheduler_.wake();
  }

 private:
  PendingReply& work_;
  Scheduler& scheduler_;
  AccessRecord& record_;
};

awaitable<void> write_whole(Connection& connection, Exchange& x, PendingReply& work) {
  while (!work.has_ended()) {
    if (!work.take()) co_await connection.wait();
  }
  auto prepare = [&] { return work.reply(); };
  HttpReply reply = co_await connection.on_worker(prepare);
  x.record.usage = work.usage();
  co_await connection.write(x, std::move(reply));
}

awaitable<void> write_stream(Connection& connection, Exchange& x, PendingReply& work) {
  co_await connection.write_stream_head(x, work.stream_type());
  ServerClock::time_point written = ServerClock::now();
  while (!work.has_ended()) {
    while (!work.take()) {
      co_await connection.wait();
      if (!work.silence() || ServerClock::now() - written < *work.silence()) continue;
      co_await connection.write_events(x, ": keep-alive\n\n", false);
      written = ServerClock::now();
    }
    std::string events;
    if (work.has_long_events()) {
      auto prepare = [&] { return work.events(); };
      events = co_await connection.on_worker(prepare);
    } else {
      events = work.events();
    }
    x.record.usage = work.usage();
    co_await connection.write_events(x, std::move(events), work.has_ended());
    written = ServerClock::now();
  }
}

/// Waits until the model that the request asks for is in memory, where it then stays until the exchange ends.
awaitable<void> load_model(Connection& connection, Exchange& x, ModelRegistry& models) {
  auto choose = [&] { return &asked_model(models, x.body); };
  const ModelEntry* const source = co_await connection.on_worker(choose);
  x.record.model = source->name;
  const auto wish = models.wish(*source, x.admitted.client, connection.notifier());
  x.use = wish->take();
  while (!x.use) {
    co_await connection.wait();
    if (connection.is_draining()) throw RequestError(kUnavailable, "request", "the server is shutting down");
    x.use = wish->take();
  }
}

awaitable<void> answer_by_work(Connection& connection, Exchange& x, Route::Work begin) {
  const ServedModel& model = x.use->model().served();
  Scheduler& scheduler = *x.use->model().scheduler();
  scheduler.check_space(x.admitted.client);
  auto prepare = [&] { return begin(model, connection.request_of(x)); };
  const std::shared_ptr<PendingReply> work = co_await connection.on_worker(prepare);
  x.body = {};
  x.body_bytes = {};
  x.record.usage = work->usage();
  work->submit(scheduler);
  const WorkGuard guard(*work, scheduler, x.record);
  if (work->streams()) {
    co_await write_stream(connection, x, *work);
  } else {
    co_await write_whole(connection, x, *work);
  }
}

}  // namespace

awaitable<void> answer_request(Connection& connection, Exchange& x, const Backend& backend) {
  const Route& route = *x.admitted.route;
  if (route.needs_model()) co_await load_model(connection, x, *backend.models);
  if (route.needs_scheduler()) {
    co_await answer_by_work(connection, x, std::get<Route::Work>(route.handler));
    co_return;
  }
  auto prepare = [&] {
    const RouteRequest request = connection.request_of(x);
    const auto* const answer = std::get_if<Route::Answer>(&route.handler);
    if (answer != nullptr) return json_text((*answer)(x.use->model().served(), request));
    return json_text(std::get<Route::Listing>(route.handler)(*backend.models, request));
  };
  HttpReply reply;
  reply.body = co_await connection.on_worker(prepare);
  co_await connection.write(x, std::move(reply));
}

}  // namespace http_server

using namespace http_server;

class HttpServer::Implementation {
 public:
  explicit Implementation(HttpConfig config);
  ~Implementation() {
    state_.io.stop();
    if (thread_.joinable()) thread_.join();
    state_.workers.join();
  }

  ServerState state_;
  Backend backend_;
  tcp::acceptor acceptor_{state_.io};
  std::thread thread_;

 private:
  void open();
  awaitable<void> accept();
  awaitable<void> watch();
};

HttpServer::Implementation::Implementation(HttpConfig config) : state_(std::move(config)) {
  try {
    open();
  } catch (const boost::system::system_error& e) {
    throw BadInput("--host", "cannot listen at {} port {}: {}", state_.config.host, state_.config.port,
                   e.code().message());
  }
  asio::co_spawn(state_.io, accept(), asio::detached);
  asio::co_spawn(state_.io, watch(), asio::detached);
  thread_ = std::thread([this] { state_.io.run(); });
}

void HttpServer::Implementation::open() {
  tcp::resolver resolver(state_.io);
  const auto places = resolver.resolve(state_.config.host, std::to_string(state_.config.port), tcp::resolver::passive);
  const tcp::endpoint place = *places.begin();
  acceptor_.open(place.protocol());
  acceptor_.set_option(tcp::acceptor::reuse_address(true));
  acceptor_.bind(place);
  acceptor_.listen();
}

awaitable<void> HttpServer::Implementation::accept() {
  asio::steady_timer timer(state_.io);
  while (true) {
    error_code error;
    while (state_.n_connections >= state_.config.max_connections) {  // others wait in the system's queue
      timer.expires_after(kFullTime);
      co_await timer.async_wait(use_awaitable);
    }
    tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(use_awaitable, error));
    if (error) {  // for example, too many open files
      timer.expires_after(100ms);
      co_await timer.async_wait(use_awaitable);
      continue;
    }
    socket.set_option(tcp::no_delay(true), error);
    auto connection = std::make_shared<Connection>(std::move(socket), state_);
    // Closed, too slow, or not enough memory: whatever ends one connection concerns no other.
    asio::co_spawn(state_.io, connection->run(), [connection](const std::exception_ptr&) {});
  }
}

/// Waits for an interrupt.
awaitable<void> HttpServer::Implementation::watch() {
  asio::steady_timer timer(state_.io);
  std::optional<ServerClock::time_point> interrupted;
  while (true) {
    timer.expires_after(100ms);
    co_await timer.async_wait(use_awaitable);
    const Backend* const backend = state_.backend;
    if (!*state_.config.interrupt || backend == nullptr) continue;
    if (!interrupted) {
      interrupted = ServerClock::now();
      backend->loop->drain();
    }
    if (ServerClock::now() - *interrupted > state_.config.drain_time) backend->loop->stop();
  }
}

HttpServer::HttpServer(HttpConfig config) : implementation_(std::make_unique<Implementation>(std::move(config))) {}
HttpServer::~HttpServer() = default;

std::string HttpServer::url() const {
  const std::string& host = implementation_->state_.config.host;
  const bool is_v6 = host.find(':') != host.npos;
  return fmt::format("http://{}:{}", is_v6 ? "[" + host + "]" : host,
                     implementation_->acceptor_.local_endpoint().port());
}

void HttpServer::serve(ModelRegistry& models, RoundLoop& loop) {
  implementation_->backend_ = {&models, &loop};
  implementation_->state_.backend = &implementation_->backend_;
}

void HttpServer::finish() {
  const auto deadline = ServerClock::now() + kFinishTime;
  while (implementation_->state_.n_exchanges > 0 && ServerClock::now() < deadline) std::this_thread::sleep_for(5ms);
}

}  // namespace vitrine
