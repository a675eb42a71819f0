#include "serve/http.h"

#include "serve/http_connection.h"

#include <ctime>

#include "serve/completion_reply.h"
#include "serve/embeddings.h"
#include "serve/text_routes.h"
#include "serve/trace_request.h"

namespace vitrine {
namespace http_server {
namespace {

/// Ends the work of a Job or an EncodeTask when its answer ends, for whatever reason.
template <class Work>
class WorkGuard {
 public:
  WorkGuard(std::shared_ptr<Work> work, Scheduler& scheduler, AccessRecord& record)
      : work_(std::move(work)), scheduler_(scheduler), record_(record) {}
  WorkGuard(const WorkGuard&) = delete;
  WorkGuard& operator=(const WorkGuard&) = delete;
  ~WorkGuard() {
    record_.times = work_->times();
    work_->cancel();
    scheduler_.wake();
  }

 private:
  std::shared_ptr<Work> work_;
  Scheduler& scheduler_;
  AccessRecord& record_;
};

/// A request for texts on its way through the server.
struct TextExchange {
  Connection& connection;
  Exchange& x;
  const CompletionRequest& request;
  CompletionReply& reply;
  Job& job;
};

awaitable<void> write_whole(TextExchange t) {
  std::vector<GenerateResult> results(t.request.n_sequences());
  for (std::size_t n_ended = 0; n_ended < results.size();) {
    std::vector<SequenceStep> steps = co_await t.connection.next_steps(t.job);
    for (SequenceStep& step : steps) {
      if (step.error) std::rethrow_exception(step.error);
      results[step.id] = std::move(*step.result);
      ++n_ended;
    }
  }
  auto prepare = [&] { return json_text(t.reply.whole(results)); };
  HttpReply reply;
  reply.body = co_await t.connection.on_worker(prepare);
  t.x.record.usage = t.reply.usage();
  co_await t.connection.write(t.x, std::move(reply));
}

std::string event_of(const Json& json) { return "data: " + json_text(json) + "\n\n"; }

/// The events that follow from some steps. Counts the sequences that have ended, all of them after an error.
std::string events_of(TextExchange& t, std::vector<SequenceStep>& steps, std::size_t& n_ended) {
  std::string events;
  for (SequenceStep& step : steps) {
    if (step.error) {
      events += event_of(request_error_of(step.error).to_json());
      n_ended = t.request.n_sequences();
      break;
    }
    if (step.result) ++n_ended;
    for (const Json& chunk : t.reply.chunks(std::move(step))) events += event_of(chunk);
  }
  if (n_ended < t.request.n_sequences()) return events;
  if (t.request.streams_usage) events += event_of(t.reply.usage_chunk());
  return events + "data: [DONE]\n\n";
}

awaitable<void> write_stream(TextExchange t) {
  co_await t.connection.write_stream_head(t.x);
  for (std::size_t n_ended = 0; n_ended < t.request.n_sequences();) {
    std::vector<SequenceStep> steps = co_await t.connection.next_steps(t.job);
    std::string events;
    if (t.request.recorders.empty()) {
      events = events_of(t, steps, n_ended);
    } else {  // values may be long
      auto prepare = [&] { return events_of(t, steps, n_ended); };
      events = co_await t.connection.on_worker(prepare);
    }
    t.x.record.usage = t.reply.usage();
    co_await t.connection.write_events(t.x, std::move(events), n_ended == t.request.n_sequences());
  }
}

struct PreparedTexts {
  std::shared_ptr<const CompletionRequest> request;
  std::shared_ptr<Job> job;
};

PreparedTexts prepare_texts(const ServedModel& model, Connection& connection, const Exchange& x) {
  const auto parse = x.admitted.route == Route::chat ? parse_chat : parse_completion;
  auto request = std::make_shared<const CompletionRequest>(parse(model, x.body, std::random_device{}()));
  std::vector<GenerateRequest> sequences;
  for (std::size_t i = 0; i < request->n_sequences(); ++i) sequences.push_back(request->sequence(i, model.search));
  auto job = std::make_shared<Job>(x.admitted.client, std::move(sequences), request->streams, connection.notifier());
  return {std::move(request), std::move(job)};
}

awaitable<void> answer_texts(Connection& connection, Exchange& x, const Backend& backend) {
  auto prepare = [&] { return prepare_texts(*backend.model, connection, x); };
  const PreparedTexts prepared = co_await connection.on_worker(prepare);
  x.body = {};
  CompletionReply reply(*backend.model, *prepared.request, x.record.request_id, std::time(nullptr));
  x.record.usage = reply.usage();
  backend.scheduler->submit(prepared.job);
  const WorkGuard guard(prepared.job, *backend.scheduler, x.record);
  TextExchange t{connection, x, *prepared.request, reply, *prepared.job};
  if (prepared.request->streams) {
    co_await write_stream(t);
  } else {
    co_await write_whole(t);
  }
}

struct PreparedTrace {
  std::shared_ptr<const TraceRequest> request;
  std::shared_ptr<Job> job;
};

PreparedTrace prepare_trace(const ServedModel& model, Connection& connection, const Exchange& x) {
  auto request = std::make_shared<const TraceRequest>(parse_trace(model, x.body));
  auto job = std::make_shared<Job>(x.admitted.client, std::vector{request->sequence()}, false, connection.notifier());
  return {std::move(request), std::move(job)};
}

awaitable<void> answer_trace(Connection& connection, Exchange& x, const Backend& backend) {
  auto prepare = [&] { return prepare_trace(*backend.model, connection, x); };
  const PreparedTrace prepared = co_await connection.on_worker(prepare);
  x.body = {};
  x.record.usage = Usage{std::ssize(prepared.request->ids), 0, 0};
  backend.scheduler->submit(prepared.job);
  const WorkGuard guard(prepared.job, *backend.scheduler, x.record);
  const std::vector<SequenceStep> steps = co_await connection.next_steps(*prepared.job);
  if (steps.front().error) std::rethrow_exception(steps.front().error);
  auto write = [&] { return prepared.request->file(); };
  HttpReply reply;
  reply.body = co_await connection.on_worker(write);
  reply.content_type = "application/octet-stream";
  co_await connection.write(x, std::move(reply));
}

/// A request for vectors: of a model that continues texts a job, whose sequences take part in rounds.
struct PreparedVectors {
  std::shared_ptr<const EmbeddingRequest> request;
  std::shared_ptr<EmbeddingSequences> sequences;
  std::shared_ptr<Job> job;
  std::shared_ptr<EncodeTask> task;
};

PreparedVectors prepare_vectors(const ServedModel& model, Connection& connection, const Exchange& x) {
  PreparedVectors prepared;
  prepared.request = std::make_shared<const EmbeddingRequest>(parse_embeddings(model, x.body));
  if (model.can_generate) {
    prepared.sequences = std::make_shared<EmbeddingSequences>(model, *prepared.request);
    prepared.job =
        std::make_shared<Job>(x.admitted.client, std::move(prepared.sequences->requests), false, connection.notifier());
    return prepared;
  }
  EncodeOptions options;
  options.pooling = pooling_named(model.sentences.pooling);
  options.normalize = model.sentences.normalize;
  prepared.task =
      std::make_shared<EncodeTask>(x.admitted.client, prepared.request->texts, options, connection.notifier());
  return prepared;
}

awaitable<std::vector<std::vector<float>>> encoded_in_rounds(Connection& connection, const PreparedVectors& prepared) {
  for (std::size_t n_ended = 0; n_ended < prepared.job->n_sequences();) {
    const std::vector<SequenceStep> steps = co_await connection.next_steps(*prepared.job);
    for (const SequenceStep& step : steps) {
      if (step.error) std::rethrow_exception(step.error);
    }
    n_ended += steps.size();
  }
  co_return prepared.sequences->vectors();
}

awaitable<std::vector<std::vector<float>>> encoded_by_task(Connection& connection, EncodeTask& task) {
  auto vectors = task.take();
  while (!vectors) {
    co_await connection.wait();
    vectors = task.take();
  }
  co_return std::move(*vectors);
}

awaitable<void> write_vectors(Connection& connection, Exchange& x, const EmbeddingRequest& request,
                              const std::vector<std::vector<float>>& vectors) {
  auto write = [&] { return json_text(embeddings_reply(request, vectors)); };
  HttpReply reply;
  reply.body = co_await connection.on_worker(write);
  co_await connection.write(x, std::move(reply));
}

awaitable<void> answer_vectors(Connection& connection, Exchange& x, const Backend& backend) {
  auto prepare = [&] { return prepare_vectors(*backend.model, connection, x); };
  const PreparedVectors prepared = co_await connection.on_worker(prepare);
  x.body = {};
  x.record.usage = Usage{prepared.request->n_tokens, 0, 0};
  std::vector<std::vector<float>> vectors;
  if (prepared.job) {
    backend.scheduler->submit(prepared.job);
    const WorkGuard guard(prepared.job, *backend.scheduler, x.record);
    vectors = co_await encoded_in_rounds(connection, prepared);
    co_await write_vectors(connection, x, *prepared.request, vectors);
  } else {
    backend.scheduler->submit(prepared.task);
    const WorkGuard guard(prepared.task, *backend.scheduler, x.record);
    vectors = co_await encoded_by_task(connection, *prepared.task);
    co_await write_vectors(connection, x, *prepared.request, vectors);
  }
}

}  // namespace

awaitable<void> answer_request(Connection& connection, Exchange& x, const Backend& backend) {
  if (x.admitted.route == Route::embeddings) {
    co_await answer_vectors(connection, x, backend);
    co_return;
  }
  if (x.admitted.route == Route::trace) {
    co_await answer_trace(connection, x, backend);
    co_return;
  }
  if (needs_scheduler(x.admitted.route)) {
    co_await answer_texts(connection, x, backend);
    co_return;
  }
  auto prepare = [&] { return json_text(answer(*backend.model, x.admitted, x.body)); };
  HttpReply reply;
  reply.body = co_await connection.on_worker(prepare);
  co_await connection.write(x, std::move(reply));
}

}  // namespace http_server

using namespace http_server;

class HttpServer::Implementation {
 public:
  Implementation(HttpConfig config, Metrics& metrics);
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

HttpServer::Implementation::Implementation(HttpConfig config, Metrics& metrics) : state_(std::move(config), metrics) {
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
    tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(use_awaitable, error));
    if (error) {  // for example, too many open files
      timer.expires_after(100ms);
      co_await timer.async_wait(use_awaitable);
      continue;
    }
    if (state_.n_connections >= state_.config.max_connections) continue;  // closes it
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
      backend->scheduler->drain();
    }
    if (ServerClock::now() - *interrupted > state_.config.drain_time) backend->scheduler->stop();
  }
}

HttpServer::HttpServer(HttpConfig config, Metrics& metrics)
    : implementation_(std::make_unique<Implementation>(std::move(config), metrics)) {}
HttpServer::~HttpServer() = default;

std::string HttpServer::url() const {
  const std::string& host = implementation_->state_.config.host;
  const bool is_v6 = host.find(':') != host.npos;
  return fmt::format("http://{}:{}", is_v6 ? "[" + host + "]" : host,
                     implementation_->acceptor_.local_endpoint().port());
}

void HttpServer::serve(const ServedModel& model, Scheduler& scheduler) {
  implementation_->backend_ = {&model, &scheduler};
  implementation_->state_.backend = &implementation_->backend_;
}

void HttpServer::finish() {
  const auto deadline = ServerClock::now() + kFinishTime;
  while (implementation_->state_.n_exchanges > 0 && ServerClock::now() < deadline) std::this_thread::sleep_for(5ms);
}

}  // namespace vitrine
