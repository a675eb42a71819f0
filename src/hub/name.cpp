#include "hub/name.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxName = 96, kMaxPath = 1024, kMaxPart = 200;

bool is_digit_of_hash(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool is_character_of_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
}

/// The rules of Hugging Face's own client.
bool is_part_of_name(std::string_view part) {
  return !part.empty() && part.size() <= kMaxName && std::ranges::all_of(part, is_character_of_name) &&
         part.find("--") == part.npos && part.find("..") == part.npos && part.front() != '-' && part.front() != '.' &&
         part.back() != '-' && part.back() != '.';
}

}  // namespace

void check_path_inside(std::string_view path, std::string_view where) {
  const auto is_bad = [](std::string_view part) {
    return part.empty() || part == "." || part == ".." || part.size() > kMaxPart;
  };
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\'; };
  if (path.size() > kMaxPath || std::ranges::any_of(split(path, '/'), is_bad) ||
      std::ranges::any_of(path, is_control)) {
    throw BadInput(where, "expected a path inside the repository, got \"{}\"", path);
  }
}

bool is_commit(std::string_view revision) {
  return revision.size() == 40 && std::ranges::all_of(revision, is_digit_of_hash);
}

void check_hexadecimal(std::string_view digits, std::size_t length, std::string_view where) {
  const bool has_length = length == 0 ? digits.size() == 40 || digits.size() == 64 : digits.size() == length;
  if (has_length && std::ranges::all_of(digits, is_digit_of_hash)) return;
  throw BadInput(where, "expected {} hexadecimal digits, got \"{}\"", length == 0 ? "40 or 64" : std::to_string(length),
                 digits);
}

HubName parse_hub_name(std::string_view text) {
  if (!is_hub_name(text)) throw BadInput(text, "expected hf:ORG/NAME[:QUANTIZATION][@REVISION]");
  std::string_view rest = text.substr(3);
  HubName name;
  if (const std::size_t at = rest.find('@'); at != rest.npos) {
    name.revision = rest.substr(at + 1);
    check_path_inside(name.revision, std::string(text) + ": revision");
    rest = rest.substr(0, at);
  }
  if (const std::size_t colon = rest.find(':'); colon != rest.npos) {
    name.what = rest.substr(colon + 1);
    check_path_inside(name.what, std::string(text) + ": quantization");
    rest = rest.substr(0, colon);
  }
  const std::size_t slash = rest.find('/');
  if (slash == rest.npos || !is_part_of_name(rest.substr(0, slash)) || !is_part_of_name(rest.substr(slash + 1))) {
    throw BadInput(text, "expected hf:ORG/NAME[:QUANTIZATION][@REVISION], got \"{}\" as ORG/NAME", rest);
  }
  name.repository = rest;
  return name;
}

std::string HubName::text() const {
  return "hf:" + repository + (what.empty() ? "" : ":" + what) + (revision == "main" ? "" : "@" + revision);
}

}  // namespace vitrine
