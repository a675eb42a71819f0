// URLs, as libcurl reads them.
#pragma once

#include <string>
#include <string_view>

namespace vitrine {

/// What a token is bound to: scheme, host and port of a URL.
struct UrlOrigin {
  std::string scheme, host, port;
  friend bool operator==(const UrlOrigin&, const UrlOrigin&) = default;
};

/// Throws BadInput for a text that is no URL of http or https.
UrlOrigin origin_of(const std::string& url);

/// The URL that `location`, which may be relative, means in an answer from `base`. Throws as origin_of() does, and for
/// a step from https to http.
std::string redirected(const std::string& base, const std::string& location);

/// The URL without its query, which may hold the signature of a link: for errors.
std::string shown_url(const std::string& url);

/// A part of a path with everything but letters, digits and `-._~` as %XX; slashes stay if `keeps_slashes`.
std::string url_escaped(std::string_view text, bool keeps_slashes);

}  // namespace vitrine
