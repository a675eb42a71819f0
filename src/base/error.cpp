#include "base/error.h"

namespace vitrine {
namespace {

std::string one_line(std::string text) {
  constexpr std::size_t kMaxBytes = 2000, kTail = 200;
  if (text.size() > kMaxBytes) {
    const auto in_character = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80; };
    std::size_t head = kMaxBytes - kTail, tail = text.size() - kTail;
    while (head > 0 && in_character(head)) --head;
    while (tail < text.size() && in_character(tail)) ++tail;
    text = text.substr(0, head) + " ... " + text.substr(tail);
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

}  // namespace

Error::Error(std::string_view where, const std::string& what)
    : std::runtime_error(one_line(fmt::format("[{}] {}", where, what))) {}

}  // namespace vitrine
