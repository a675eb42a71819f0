#include "hub/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/text.h"

namespace vitrine {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_on(const char* name) {
  std::string value = variable(name);
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string home() {
  if (const std::string own = variable("HOME"); !own.empty()) return own;
  const passwd* const user = ::getpwuid(::getuid());
  if (user == nullptr) throw BadInput("HOME", "expected the home folder; set HF_HOME or HF_HUB_CACHE");
  return user->pw_dir;
}

std::string with_home(const std::string& path) {
  return path == "~" || path.starts_with("~/") ? home() + path.substr(1) : path;
}

std::string hugging_face_home() {
  if (const std::string own = variable("HF_HOME"); !own.empty()) return with_home(own);
  const std::string caches = variable("XDG_CACHE_HOME");
  return (caches.empty() ? home() + "/.cache" : with_home(caches)) + "/huggingface";
}

std::string trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpaces);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

std::string read_token() {
  std::string token = trimmed(variable("HF_TOKEN")), where = "HF_TOKEN";
  if (token.empty()) {
    const std::string given = variable("HF_TOKEN_PATH");
    where = given.empty() ? hugging_face_home() + "/token" : with_home(given);
    std::ifstream file(where, std::ios::binary);
    std::string text(1 << 12, '\0');
    if (!file) return "";
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    token = trimmed(text);
  }
  const auto is_bad = [](char c) { return c <= 0x20 || c >= 0x7F; };  // it would end or break the header
  if (std::ranges::any_of(token, is_bad)) throw BadInput(where, "expected a token of letters, digits and signs");
  return token;
}

}  // namespace

HubSettings HubSettings::from_environment() {
  HubSettings settings;
  if (const std::string endpoint = trimmed(variable("HF_ENDPOINT")); !endpoint.empty()) settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (!settings.endpoint.starts_with("https://") && !settings.endpoint.starts_with("http://")) {
    throw BadInput("HF_ENDPOINT", "expected https://HOST or http://HOST, got \"{}\"", settings.endpoint);
  }
  const std::string cache = variable("HF_HUB_CACHE");
  settings.cache = cache.empty() ? hugging_face_home() + "/hub" : with_home(cache);
  while (settings.cache.size() > 1 && settings.cache.ends_with('/')) settings.cache.pop_back();
  settings.token = read_token();
  settings.offline = is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE");
  if (const std::string text = trimmed(variable("HF_HUB_DOWNLOAD_TIMEOUT")); !text.empty()) {
    const auto seconds = number_in<double>(text);
    if (!seconds || !(*seconds > 0 && *seconds <= 86400)) {
      throw BadInput("HF_HUB_DOWNLOAD_TIMEOUT", "expected a number of seconds from 0 to 86400, got \"{}\"", text);
    }
    settings.timeout = std::chrono::milliseconds(std::max<std::int64_t>(1, static_cast<std::int64_t>(1000 * *seconds)));
  }
  return settings;
}

}  // namespace vitrine
