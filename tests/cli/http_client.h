// A running `vitrine serve`, and a client that sends what a test wants.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "cli/program.h"

namespace vitrine::test {

/// A connection to a port of this machine. Reading and writing fail after ten seconds.
class HttpClient {
 public:
  explicit HttpClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<std::uint16_t>(port));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
    const timeval limit{10 * kSlowdown, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient() { close(); }

  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // the server has closed the connection
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// Reads until `end` appears, and returns everything up to it; "": until the server closes the connection.
  std::string receive(const std::string& end = "") {
    while (end.empty() || received_.find(end) == received_.npos) {
      char buffer[1 << 14];
      const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) return std::exchange(received_, "");
      received_.append(buffer, static_cast<std::size_t>(n));
    }
    const std::size_t size = received_.find(end) + end.size();
    const std::string text = received_.substr(0, size);
    received_.erase(0, size);
    return text;
  }
  std::string receive_bytes(std::size_t size) {
    while (received_.size() < size) {
      char buffer[1 << 14];
      const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      received_.append(buffer, static_cast<std::size_t>(n));
    }
    const std::string text = received_.substr(0, size);
    received_.erase(0, size);
    return text;
  }

 private:
  int fd_;
  std::string received_;
};

struct HttpResponse {
  int status = 0;
  std::string head;  ///< Status line and fields.
  std::string body;  ///< Without the frames of chunks.

  Json json() const { return Json::parse(body, nullptr, false); }
  /// The events of a stream, without "[DONE]", which must be the last one.
  std::vector<Json> events() const {
    std::vector<Json> all;
    std::size_t begin = 0;
    for (std::size_t end; (end = body.find("\n\n", begin)) != body.npos; begin = end + 2) {
      const std::string event = body.substr(begin, end - begin);
      EXPECT_TRUE(event.starts_with("data: ")) << event;
      if (event == "data: [DONE]") {
        EXPECT_EQ(end + 2, body.size());
        return all;
      }
      all.push_back(Json::parse(event.substr(6)));
    }
    ADD_FAILURE() << "no [DONE]: " << body;
    return all;
  }
};

/// Reads a response with a Content-Length, with chunks, or up to the end of the connection.
inline HttpResponse read_response(HttpClient& client) {
  HttpResponse response;
  response.head = client.receive("\r\n\r\n");
  if (response.head.size() > 12) response.status = std::atoi(response.head.c_str() + 9);
  const auto value = [&](const std::string& name) {
    const std::size_t at = response.head.find("\r\n" + name + ": ");
    return at == response.head.npos ? "" : response.head.substr(at + name.size() + 4);
  };
  if (!value("Transfer-Encoding").empty()) {
    while (true) {
      const std::string size = client.receive("\r\n");
      const std::size_t n = std::strtoul(size.c_str(), nullptr, 16);
      response.body += client.receive_bytes(n);
      client.receive_bytes(2);
      if (n == 0) return response;
    }
  }
  if (!value("Content-Length").empty()) {
    response.body = client.receive_bytes(std::strtoul(value("Content-Length").c_str(), nullptr, 10));
  } else if (response.status != 204) {
    response.body = client.receive();
  }
  return response;
}

/// A server at a free port.
class TestServer {
 public:
  explicit TestServer(const Arguments& arguments, Launch launch = {}) : program_(all(arguments), hold(launch)) {
    program_.exchange([&] { return program_.output().find('\n') != std::string::npos; });
    line_ = Json::parse(program_.output(), nullptr, false);
    if (!line_.is_object()) {
      ADD_FAILURE() << "the server does not start: " << program_.output();
      return;
    }
    const std::string url = line_["url"];
    port_ = std::atoi(url.substr(url.rfind(':') + 1).c_str());
  }

  int port() const { return port_; }
  const Json& first_line() const { return line_; }
  Program& program() { return program_; }

  static std::string get_text(const std::string& path, const std::string& fields = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
  }
  static std::string post_text(const std::string& path, const std::string& body, const std::string& fields = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n" + fields + "\r\n" + body;
  }
  HttpResponse exchange(const std::string& text) const {
    HttpClient client(port_);
    client.send(text);
    return read_response(client);
  }
  HttpResponse get(const std::string& path, const std::string& fields = "") const {
    return exchange(get_text(path, fields));
  }
  HttpResponse post(const std::string& path, const Json& body, const std::string& fields = "") const {
    return exchange(post_text(path, body.dump(), fields));
  }
  /// Ends the server as a service manager does.
  Outcome stop() {
    program_.send(SIGTERM);
    return program_.finish();
  }

 private:
  static Arguments all(const Arguments& arguments) {
    Arguments all = {"serve", "--port", "0", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  static Launch hold(Launch launch) {
    launch.hold_input = true;
    return launch;
  }

  Program program_;
  Json line_;
  int port_ = 0;
};

}  // namespace vitrine::test
