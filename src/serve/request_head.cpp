#include "serve/request_head.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "serve/request_fields.h"
#include "serve/routes.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxFields = 100;
constexpr std::size_t kMaxRequestId = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

/// Compares in a time that depends on the length of `a` only.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other));
  }
  return difference == 0;
}

/// A key is in `Authorization` or in `x-api-key`; of both, either may be one of this server.
std::size_t client_of(std::span<const std::string> keys, std::string_view authorization, std::string_view api_key,
                      const ErrorKind& otherwise = kWrongKey) {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view key = authorization;
  const bool has_scheme = in_lower_case(key.substr(0, kScheme.size())) == kScheme;
  if (has_scheme) key.remove_prefix(kScheme.size());
  std::size_t client = keys.size();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (equal_in_constant_time(key, keys[i]) && has_scheme) client = i;
    if (equal_in_constant_time(api_key, keys[i])) client = i;
  }
  if (client == keys.size()) {
    throw RequestError(otherwise, "Authorization",
                       "expected \"Bearer KEY\" with a key of this server, or the key as x-api-key");
  }
  return client;
}

/// No key at all is an error of its own, after which clients ask for one.
void check_admin(const RequestHead& head, const AccessRules& rules) {
  const bool has_key = !head.authorization.empty() || !head.api_key.empty();
  client_of(rules.admin_keys, head.authorization, head.api_key, has_key ? kForbidden : kWrongKey);
}

/// The name in "name:port".
std::string_view name_of_host(std::string_view host) {
  const std::size_t end = host.find(']');
  const std::size_t colon = host.find(':', end == host.npos ? 0 : end);
  return host.substr(0, colon);
}

void check_source(const RequestHead& head, const AccessRules& rules) {
  if (!head.origin.empty() && !allows_origin(rules, head.origin)) {
    throw RequestError(kForbidden, "Origin", "pages of {} may not use this server; allow them with --cors",
                       head.origin);
  }
  if (!rules.keys.empty() || (head.host.empty() && head.is_http_1_0)) return;
  const std::string name = in_lower_case(name_of_host(head.host));
  if (std::find(rules.hosts.begin(), rules.hosts.end(), name) == rules.hosts.end()) {
    throw RequestError(kForbidden, "Host", "expected {}, got \"{}\"", fmt::join(rules.hosts, " or "), head.host);
  }
}

void check_framing(const RequestHead& head) {
  if (head.n_fields > kMaxFields) {
    throw RequestError(kHeaderTooLarge, "header", "expected at most {} fields, got {}", kMaxFields, head.n_fields);
  }
  const std::string encoding = in_lower_case(head.transfer_encoding);
  if (!encoding.empty() && encoding != "chunked") {
    throw RequestError(kMalformed, "Transfer-Encoding", "expected chunked, got \"{}\"", head.transfer_encoding);
  }
  if (!encoding.empty() && head.content_length) {
    throw RequestError(kMalformed, "Transfer-Encoding", "expected no Content-Length with it");
  }
}

void check_body(const RequestHead& head, std::uint64_t max_body) {
  const bool has_body = head.content_length.value_or(0) > 0 || !head.transfer_encoding.empty();
  if (max_body == Route::kNoBody) {
    if (has_body) throw RequestError(kMalformed, "Content-Length", "expected no body with {}", head.method);
    return;
  }
  const std::string type = in_lower_case(split(head.content_type, ';')[0]);
  if (type.substr(0, type.find_last_not_of(" \t") + 1) != "application/json") {
    throw RequestError(kWrongMediaType, "Content-Type", "expected application/json, got \"{}\"", head.content_type);
  }
  if (const std::string encoding = in_lower_case(head.content_encoding); !encoding.empty() && encoding != "identity") {
    throw RequestError(kWrongMediaType, "Content-Encoding", "expected an uncompressed body, got \"{}\"",
                       head.content_encoding);
  }
  if (head.content_length.value_or(0) > max_body) {
    throw RequestError(kBodyTooLarge, "Content-Length", "expected at most {} bytes, got {}", max_body,
                       *head.content_length);
  }
}

}  // namespace

RequestTarget parse_target(std::string_view target) {
  RequestTarget parsed;
  const std::size_t scheme = target.find("://");
  if (!target.starts_with('/') && scheme != target.npos) {
    target.remove_prefix(scheme + 3);
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    parsed.host = std::string(target.substr(0, end));
    target.remove_prefix(end);
    if (!target.starts_with('/')) parsed.path = "/";
  }
  target = target.substr(0, target.find('?'));
  for (std::size_t i = 0; i < target.size(); ++i) {
    std::uint8_t byte = 0;
    const std::string_view digits = target.substr(i + 1, 2);
    const bool is_escape = target[i] == '%' && digits.size() == 2 &&
                           std::from_chars(digits.data(), digits.data() + 2, byte, 16).ptr == digits.data() + 2;
    parsed.path += is_escape ? static_cast<char>(byte) : target[i];
    if (is_escape) i += 2;
  }
  return parsed;
}

AdmittedHead admit(const RequestHead& head, const AccessRules& rules) {
  check_framing(head);
  const Route* route = find_route(head.path, head.method);
  if (route != nullptr && std::ranges::count(rules.closed, route->door.name) > 0) route = nullptr;
  AdmittedHead admitted;
  const bool is_preflight = asks_methods(head) && allows_origin(rules, head.origin);
  if (route != nullptr && route->access == Access::admin && rules.admin_keys.empty()) route = nullptr;
  const Access access = is_preflight ? Access::open : route != nullptr ? route->access : Access::key;
  if (access == Access::key && !rules.keys.empty()) {
    admitted.client = client_of(rules.keys, head.authorization, head.api_key);
  }
  if (access == Access::admin) check_admin(head, rules);
  check_source(head, rules);
  if (route == nullptr && asks_methods(head) && head.path == "*") return admitted;  // of the server (RFC 9110, 9.3.7)
  if (route == nullptr) throw RequestError(kUnknownRoute, "path", "there is no {}", head.path);
  const bool is_head = head.method == "HEAD" && route->method == "GET";
  if (head.method != route->method && !is_head && !asks_methods(head)) {
    throw RequestError(kWrongMethod, "method", "expected {} for {}, got {}", route->method, head.path, head.method);
  }
  admitted.max_body = asks_methods(head) ? Route::kNoBody : std::min(route->max_body, rules.max_body);
  check_body(head, admitted.max_body);
  admitted.route = route;
  admitted.name = head.path.substr(route->path.size());
  return admitted;
}

std::string request_id_of(const RequestHead& head, std::string otherwise) {
  const std::string& id = head.request_id;
  const bool is_ordinary = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || c == '-' || c == '_' || c == '.';
  });
  return !id.empty() && id.size() <= kMaxRequestId && is_ordinary ? id : otherwise;
}

std::string parse_origin(std::string_view text, std::string_view where) {
  if (text == "*" || text == "null") return std::string(text);
  std::string origin = in_lower_case(text.ends_with('/') ? text.substr(0, text.size() - 1) : text);
  const std::size_t host = origin.find("://");
  const bool is_origin = host != origin.npos && host > 0 && host + 3 < origin.size() &&
                         origin.find_first_of("/?#@ \t,*", host + 3) == origin.npos;
  if (!is_origin) throw BadInput(where, "expected an origin such as http://localhost:5173, or \"*\", got \"{}\"", text);
  for (const std::string_view own : {"http://:80", "https://:443"}) {  // ports that browsers leave out
    const std::string_view scheme = own.substr(0, own.rfind(':')), port = own.substr(own.rfind(':'));
    if (origin.starts_with(scheme) && origin.ends_with(port)) origin.resize(origin.size() - port.size());
  }
  return origin;
}

bool allows_origin(const AccessRules& rules, std::string_view origin) {
  const auto is_allowed = [&](const std::string& allowed) { return allowed == "*" || allowed == origin; };
  return !origin.empty() && std::any_of(rules.origins.begin(), rules.origins.end(), is_allowed);
}

std::vector<std::pair<std::string, std::string>> cors_fields(const RequestHead& head, const AccessRules& rules) {
  if (rules.origins.empty()) return {};
  if (!allows_origin(rules, head.origin)) return {{"Vary", "Origin"}};
  const bool is_named = std::find(rules.origins.begin(), rules.origins.end(), head.origin) != rules.origins.end();
  std::vector<std::pair<std::string, std::string>> fields = {
      {"Access-Control-Allow-Origin", is_named ? head.origin : "*"},
      {"Access-Control-Expose-Headers", "x-request-id, retry-after"},
      {"Vary", "Origin, Access-Control-Request-Headers"}};
  if (is_named) fields.emplace_back("Access-Control-Allow-Credentials", "true");
  if (!asks_methods(head)) return fields;
  fields.emplace_back("Access-Control-Allow-Methods", methods_of(head.path));
  fields.emplace_back("Access-Control-Allow-Headers",
                      head.asked_headers.empty() ? "authorization, content-type, x-request-id" : head.asked_headers);
  fields.emplace_back("Access-Control-Max-Age", "600");
  if (head.asks_private_network == "true") fields.emplace_back("Access-Control-Allow-Private-Network", "true");
  return fields;
}

std::string methods_of(std::string_view path) {
  const Route* const route = find_route(path);
  if (path == "*") return "GET, HEAD, POST, DELETE, OPTIONS";
  if (route == nullptr) return "";
  std::string methods(route->method);
  if (route->method == "GET") methods += ", HEAD";
  if (route->method == "GET" && find_route(path, "POST") != route) methods += ", POST";
  return methods + ", OPTIONS";
}

std::vector<std::string> parse_keys(std::string_view text, std::string_view where) {
  std::vector<std::string> keys;
  for (std::string_view line : split(text, '\n')) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    if (line.empty()) continue;
    const bool is_printable = std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c < 0x7F; });
    if (!is_printable) throw BadInput(where, "expected keys of printable ASCII characters without spaces");
    keys.emplace_back(line);
  }
  if (keys.empty()) throw BadInput(where, "expected at least one key");
  return keys;
}

}  // namespace vitrine
