#include "hub/url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>

#include "base/error.h"

namespace vitrine {
namespace {

using Url = std::unique_ptr<CURLU, decltype(&::curl_url_cleanup)>;

std::string part_of(const Url& url, CURLUPart part) {
  char* text = nullptr;
  if (::curl_url_get(url.get(), part, &text, part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0) != CURLUE_OK) return "";
  const std::unique_ptr<char, decltype(&::curl_free)> owner(text, ::curl_free);
  return text;
}

Url parse_url(const std::string& base, const std::string& location) {
  Url url(::curl_url(), ::curl_url_cleanup);
  if (url == nullptr) throw OutOfCapacity("url", "not enough memory");
  const bool is_url = ::curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) == CURLUE_OK &&
                      (location.empty() || ::curl_url_set(url.get(), CURLUPART_URL, location.c_str(), 0) == CURLUE_OK);
  const std::string scheme = is_url ? part_of(url, CURLUPART_SCHEME) : "";
  if (scheme != "https" && scheme != "http") {
    throw BadInput(shown_url(base), "expected a URL of https or http{}",
                   location.empty() ? "" : ", got a redirect to " + shown_url(location));
  }
  return url;
}

}  // namespace

UrlOrigin origin_of(const std::string& url) {
  const Url parsed = parse_url(url, "");
  return {part_of(parsed, CURLUPART_SCHEME), part_of(parsed, CURLUPART_HOST), part_of(parsed, CURLUPART_PORT)};
}

std::string redirected(const std::string& base, const std::string& location) {
  const Url parsed = parse_url(base, location);
  if (part_of(parsed, CURLUPART_SCHEME) == "http" && origin_of(base).scheme == "https") {
    throw BadInput(shown_url(base), "refused a redirect from https to http, to {}", shown_url(location));
  }
  return part_of(parsed, CURLUPART_URL);
}

std::string shown_url(const std::string& url) { return url.substr(0, url.find('?')); }

std::string url_escaped(std::string_view text, bool keeps_slashes) {
  std::string escaped;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          std::string_view("-._~").find(c) != std::string_view::npos || (keeps_slashes && c == '/');
    escaped += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

}  // namespace vitrine
