// What the server decides from the header of a request, before it reads the body: the route, the API key, and whether
// the request may come from a web page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vitrine {

struct Route;

/// The header of a request; fields that are absent are empty.
struct RequestHead {
  std::string method, path;  ///< The path without its query, decoded.
  std::string host, origin, authorization, api_key, content_type, content_encoding, transfer_encoding, request_id;
  // `api_key` is the field x-api-key, which Anthropic's clients have for a key.
  std::string asked_headers;         ///< Of a preflight: the fields that the page will send.
  std::string asks_private_network;  ///< Of a preflight from a public page: "true".
  std::optional<std::uint64_t> content_length;
  std::size_t n_fields = 0;
  bool is_http_1_0 = false;
};

/// Who may use the server.
struct AccessRules {
  std::vector<std::string> keys;        ///< Any of them; none: everybody on this machine.
  std::vector<std::string> admin_keys;  ///< Of those who may change what is served; none: nobody may.
  std::vector<std::string> hosts;       ///< Names of the server, which count without keys.
  std::vector<std::string> closed;      ///< Doors whose routes do not exist.
  std::vector<std::string> origins;     ///< Of web pages that may use it; "*": of all.
  std::uint64_t max_body = 4 << 20;     ///< Bytes.
};

/// A request that may be served.
struct AdmittedHead {
  const Route* route = nullptr;
  std::string name;            ///< What follows the path of a route that ends with a slash.
  std::uint64_t max_body = 0;  ///< Bytes.
  std::size_t client = 0;      ///< The number of the API key.
};

/// What a request is for: the path without its query, with %XX decoded (RFC 3986, 2.1), and the host if the target is
/// a whole URL, as proxies send it (RFC 9112, 3.2.2).
struct RequestTarget {
  std::string path;
  std::optional<std::string> host;
};
RequestTarget parse_target(std::string_view target);

/// Whether the request only asks which methods the path has, as browsers do before they send a page's request.
inline bool asks_methods(const RequestHead& head) { return head.method == "OPTIONS"; }

/// Throws RequestError: 400, 401, 403, 404, 405, 413, 415 or 431. A browser asks for an allowed page without its key.
AdmittedHead admit(const RequestHead& head, const AccessRules& rules);

/// The request's own id, if it is short and of ordinary characters, else `otherwise`.
std::string request_id_of(const RequestHead& head, std::string otherwise);

/// An origin as browsers send it: in lower case, without the scheme's own port. "*" is any origin. Throws BadInput for
/// what no browser sends, such as a path.
std::string parse_origin(std::string_view text, std::string_view where);

/// Whether a page of this origin may read responses.
bool allows_origin(const AccessRules& rules, std::string_view origin);

/// The fields of a response by which a browser lets a page read it (Fetch standard, CORS protocol).
std::vector<std::pair<std::string, std::string>> cors_fields(const RequestHead& head, const AccessRules& rules);

/// The methods that a path has, such as "GET, HEAD, OPTIONS"; "*" is the whole server; "" for an unknown path.
std::string methods_of(std::string_view path);

/// The keys of a file, one a line; empty lines do not count. Throws BadInput if there is none or if one has characters
/// that a header cannot have.
std::vector<std::string> parse_keys(std::string_view text, std::string_view where);

}  // namespace vitrine
