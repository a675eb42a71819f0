#include "generate/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine {

/// Where a stop string begins, or may begin, depending on the next bytes; the end of the held text if nowhere.
struct TextStream::Hit {
  std::size_t begin;
  const std::string* stop = nullptr;  // if it is complete
  std::size_t end = begin;            // of the text
};

TextStream::TextStream(std::vector<std::string> stops, bool keeps_stop, bool cleans_up, std::int64_t n_indent)
    : stops_(std::move(stops)), keeps_stop_(keeps_stop), n_indent_(n_indent) {
  if (cleans_up) cleanup_.emplace();
  for (const std::string& stop : stops_) {
    if (stop.empty()) throw BadInput("stop", "expected a stop string of at least one byte, got an empty one");
  }
}

std::string TextStream::push(std::string_view bytes) { return cleanup_ ? add(cleanup_->push(bytes)) : add(bytes); }

std::string TextStream::add(std::string_view bytes) {
  if (stop_) return "";
  held_ += bytes;
  const Hit hit = first_hit(false);
  if (hit.stop != nullptr) {
    stop_ = *hit.stop;
    return take(hit.end);
  }
  // The bytes before `begin` may end with the beginning of a character. It is held back until the next bytes show
  // whether the character is complete.
  const std::string_view held = held_;
  const std::size_t tail = incomplete_tail(held.substr(0, hit.begin));
  const std::size_t character = character_length(held.substr(hit.begin - tail));
  const bool open = tail > 0 && (character == 0 || character > tail);
  return take(open ? hit.begin - tail : hit.begin);
}

std::string TextStream::flush() {
  std::string text = cleanup_ ? add(cleanup_->flush()) : "";
  if (stop_) return text;
  const Hit hit = first_hit(true);
  if (hit.stop != nullptr) stop_ = *hit.stop;
  text += take(hit.end);
  held_.clear();
  return text;
}

/// The same for a line that begins after the byte at `begin`.
std::optional<TextStream::Hit> TextStream::hit_at_line(std::size_t begin, bool at_end) const {
  static const std::string line_feed = "\n";
  if (n_indent_ == 0 || held_[begin] != line_feed.front()) return std::nullopt;
  const std::size_t first = std::min(held_.find_first_not_of(" \t", begin + 1), held_.size());
  const std::size_t n_blanks = first - begin - 1;
  if (n_blanks >= static_cast<std::size_t>(n_indent_)) return std::nullopt;
  if (first < held_.size()) return Hit{begin, &line_feed, begin};
  return at_end ? std::nullopt : std::optional(Hit{begin});
}

/// `at_end`: no more text follows, so only complete stop strings count.
TextStream::Hit TextStream::first_hit(bool at_end) const {
  const std::string_view held = held_;
  for (std::size_t begin = 0; begin < held.size() && (!stops_.empty() || n_indent_ > 0); ++begin) {
    if (const auto hit = hit_at_line(begin, at_end)) return *hit;
    const std::string_view rest = held.substr(begin);
    const auto complete = [&](const std::string& stop) { return rest.starts_with(stop); };
    const auto partial = [&](const std::string& stop) { return std::string_view(stop).starts_with(rest); };
    const auto stop = std::find_if(stops_.begin(), stops_.end(), complete);
    if (stop != stops_.end()) return {begin, &*stop, begin + (keeps_stop_ ? stop->size() : 0)};
    if (!at_end && std::any_of(stops_.begin(), stops_.end(), partial)) return {begin};
  }
  return {held.size()};
}

std::string TextStream::take(std::size_t count) {
  std::string text = held_.substr(0, count);
  held_.erase(0, count);
  if (stop_) held_.clear();
  return text;
}

}  // namespace vitrine
