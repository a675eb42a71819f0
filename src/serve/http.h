// The HTTP side of the server: one thread that reads requests and writes responses, and one that prepares them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "serve/model_registry.h"
#include "serve/request_head.h"
#include "serve/round_loop.h"

namespace vitrine {

struct HttpConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  ///< 0: any free one.
  AccessRules access;
  std::size_t max_connections = 4096;
  std::int64_t max_bodies = std::int64_t{256} << 20;  ///< Bytes of all bodies that are read and parsed at a time.
  std::string access_log;                             ///< A file; "": stderr.
  std::chrono::duration<double> drain_time = std::chrono::seconds(30);
  const std::atomic<bool>* interrupt = nullptr;  ///< Once true, the server accepts no more requests.
};

class HttpServer {
 public:
  /// Listens, and answers that the models are being looked at. Throws BadInput if the address cannot be used.
  explicit HttpServer(HttpConfig config);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  /// As clients write it, such as "http://127.0.0.1:8080".
  std::string url() const;
  /// Serves models, whose schedulers are in `loop`. Both must outlive this object. An interrupt makes the loop drain
  /// and, after drain_time, stop.
  void serve(ModelRegistry& models, RoundLoop& loop);
  /// After the end of RoundLoop::run(): waits until the last responses have been written, some seconds at most.
  void finish();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace vitrine
