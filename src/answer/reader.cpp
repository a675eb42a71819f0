#include "answer/reader.h"

#include <algorithm>

namespace vitrine::answer {

AnswerReader::AnswerReader(const AnswerFormat& format, std::string_view prompt, OrderedJson tools)
    : format_(&format), tools_(std::make_unique<const OrderedJson>(std::move(tools))) {
  is_open_ = format.reasoning && has_begun(*format.reasoning, prompt);
  may_call_ = format.calls && tools_->is_array() && !tools_->empty();
}

bool AnswerReader::is_reasoning() const {
  return phase_ == Phase::reasoning || (phase_ == Phase::start && is_open_ && format_->reasoning->always_ends);
}

AnswerDelta AnswerReader::append(std::string_view text) {
  text_ += text;
  return read(false);
}

AnswerDelta AnswerReader::finish() { return read(true); }

AnswerDelta AnswerReader::read(bool is_last) {
  AnswerDelta delta;
  bool goes_on = true;
  while (goes_on) {
    switch (phase_) {
      case Phase::start:
        goes_on = start(is_last);
        break;
      case Phase::reasoning:
        goes_on = reasoning(is_last, delta);
        break;
      case Phase::calls:
        goes_on = calls(is_last, delta);
        break;
      default:
        goes_on = content(is_last, delta);
    }
  }
  answer_.content += delta.content;
  answer_.reasoning += delta.reasoning;
  for (const AnswerDelta::Call& call : delta.calls) {
    if (call.begins) {
      answer_.calls.push_back(call);
    } else {
      answer_.calls[call.index].arguments += call.arguments;
    }
  }
  return delta;
}

void AnswerReader::begin_phase(Phase phase, std::size_t at) {
  phase_ = phase;
  begin_ = searched_ = seen_ = at;
  content_begin_.reset();
  n_handed_out_ = 0;
}

bool AnswerReader::start(bool is_last) {
  const auto& format = format_->reasoning;
  if (!format) {
    begin_phase(Phase::content, 0);
    return true;
  }
  std::string_view rest = left_stripped(text_);
  const Match begins = match(rest, format->begin, is_last);
  // Some templates write the end alone where there is no reasoning.
  const Match ends = match(rest, format->end, is_last);
  if (begins == Match::partial || (!is_open_ && ends == Match::partial)) return false;
  const bool is_reasoning = begins == Match::yes || is_open_ || ends == Match::yes;
  if (begins == Match::yes) rest.remove_prefix(format->begin.size());
  const std::size_t at = text_.size() - rest.size();
  if (is_reasoning && !format->always_ends) {  // without an end it is content
    searched_ = find_begun(text_, format->end, std::max(searched_, at));
    const bool has_end = rest_of(searched_).starts_with(format->end);
    if (!has_end && !is_last) return false;
    begin_phase(has_end ? Phase::reasoning : Phase::content, has_end ? at : 0);
  } else {
    begin_phase(is_reasoning ? Phase::reasoning : Phase::content, is_reasoning ? at : 0);
  }
  return true;
}

bool AnswerReader::reasoning(bool is_last, AnswerDelta& delta) {
  const std::string& end = format_->reasoning->end;
  searched_ = find_begun(text_, end, searched_);
  const bool has_end = rest_of(searched_).starts_with(end);
  hand_out_reasoning(is_last && !has_end ? text_.size() : searched_, delta);
  if (!has_end) return false;
  begin_phase(Phase::content, searched_ + end.size());
  return true;
}

/// Whether there is nothing but white space between where this was asked last, and `at`. Such a piece adds nothing, and
/// the space is not looked at again.
bool AnswerReader::is_space_since(std::size_t at) {
  const bool is_space = stripped(text_between(seen_, at)).empty();
  seen_ = at;
  return is_space;
}

void AnswerReader::hand_out_reasoning(std::size_t end, AnswerDelta& delta) {
  if (is_space_since(end)) return;
  std::string_view text = text_between(begin_ + n_handed_out_, end);
  if (answer_.reasoning.empty() && delta.reasoning.empty()) {
    begin_ += text.size() - left_stripped(text).size();
    text = left_stripped(text);
  }
  text = right_stripped(text);
  delta.reasoning += text;
  n_handed_out_ += text.size();
}

bool AnswerReader::content(bool is_last, AnswerDelta& delta) {
  const bool has_call = find_call(is_last);
  if (has_call || is_last) {
    end_content(delta);
  } else {
    hand_out_content(delta);
  }
  if (!has_call) return false;
  begin_phase(Phase::calls, searched_);
  is_in_call_ = true;
  may_call_ = false;  // after the calls there is only content
  return true;
}

/// Searches for what begins a call. Moves searched_ to the place; what is before it is content.
bool AnswerReader::find_call(bool is_last) {
  while (may_call_) {
    const std::size_t from = searched_;
    if (!call_) {
      searched_ = text_.size();
      for (const std::string& begin : format_->calls->begins) {
        searched_ = std::min(searched_, find_begun(text_, begin, from));
      }
    }
    const bool is_first = stripped(text_between(from, searched_)).empty();
    if (searched_ < text_.size() && (is_first || !format_->calls->only_first)) {
      const Match found = try_call(is_last);
      if (found != Match::no) return found == Match::yes;
      ++searched_;
      may_call_ = !format_->calls->only_first;
    } else {
      may_call_ = is_first || !format_->calls->only_first;
      break;
    }
  }
  searched_ = text_.size();
  return false;
}

/// Whether a call begins at searched_.
Match AnswerReader::try_call(bool is_last) {
  const std::vector<std::string>& begins = format_->calls->begins;
  for (; begin_number_ < begins.size(); ++begin_number_) {
    const std::string& begin = begins[begin_number_];
    const Match found = match(rest_of(searched_), begin, is_last);
    if (found == Match::partial) return found;
    if (found == Match::no) continue;
    if (!call_) call_.emplace(*format_->calls, *tools_, searched_ + begin.size());
    if (read_call(is_last)) return Match::yes;
    if (call_) return Match::partial;
  }
  begin_number_ = 0;
  return Match::no;
}

/// Reads on in what may become a call, and removes it if it is none.
bool AnswerReader::read_call(bool is_last) {
  if (is_last) call_->retry();
  const Match found = call_->read(text_, false);
  bool is_call = call_->is_known();
  if (!is_call && is_last && found == Match::partial) {
    is_call = call_->has_begun() || call_->read(text_, true) == Match::yes;  // the answer may end before the id
  }
  if (!is_call && (is_last || found != Match::partial)) call_.reset();
  return is_call;
}

ContentPlace AnswerReader::place() const {
  return phase_ == Phase::content ? ContentPlace::first : ContentPlace::after_calls;
}

void AnswerReader::hand_out_content(AnswerDelta& delta) {
  if (is_space_since(searched_)) return;
  if (!content_begin_) {
    content_begin_ = content_begin(*format_, text_between(begin_, searched_));
    if (!content_begin_) return;
    *content_begin_ += begin_;
  }
  add_content(text_between(*content_begin_, searched_)
                  .substr(0, certain_size(*format_, place(), text_between(*content_begin_, searched_))),
              delta);
}

void AnswerReader::end_content(AnswerDelta& delta) {
  add_content(content_of(*format_, place(), text_between(begin_, searched_)), delta);
}

/// Hands out what `content`, the content of this phase so far, has more than before.
void AnswerReader::add_content(std::string_view content, AnswerDelta& delta) {
  if (content.size() <= n_handed_out_) return;
  const bool has_content = !answer_.content.empty() || !delta.content.empty();
  if (phase_ == Phase::after_calls && n_handed_out_ == 0 && has_content) delta.content += '\n';
  delta.content += content.substr(n_handed_out_);
  n_handed_out_ = content.size();
}

bool AnswerReader::calls(bool is_last, AnswerDelta& delta) {
  while (true) {
    if (is_in_call_) {
      const Match found = go_on_with_call(is_last);
      hand_out_call(delta);
      if (found == Match::partial) return false;
      searched_ = call_->at();
      call_.reset();
      is_in_call_ = false;
    }
    const Match next = next_call(is_last);
    if (next == Match::partial) return false;
    if (next == Match::no) break;
    is_in_call_ = true;
    n_handed_out_ = 0;
  }
  std::string_view rest = rest_of(searched_);
  const Match end = take_end(*format_->calls, rest, is_last);
  if (end == Match::partial) return false;
  if (end == Match::no && format_->calls->closing.starts_with(rest)) rest = {};  // the answer ends within the mark
  begin_phase(Phase::after_calls, text_.size() - rest.size());
  return true;
}

/// Reads on in a call that has been handed out. Partial: so far, or, with `is_last`, the answer ends within it.
Match AnswerReader::go_on_with_call(bool is_last) {
  if (is_last) call_->retry();
  const Match found = call_->read(text_, false);
  if (found != Match::partial || !is_last) return found;
  CallReader last = *call_;
  if (last.read(text_, true) != Match::yes) return found;
  *call_ = last;
  return Match::yes;
}

/// Whether another call follows at searched_.
Match AnswerReader::next_call(bool is_last) {
  const std::optional<std::string>& between = format_->calls->between;
  if (!between) return Match::no;
  const Match found = match(rest_of(searched_), *between, is_last);
  if (found != Match::yes) return found;
  if (!call_) call_.emplace(*format_->calls, *tools_, searched_ + between->size());
  if (read_call(is_last)) return Match::yes;
  return call_ ? Match::partial : Match::no;
}

void AnswerReader::hand_out_call(AnswerDelta& delta) {
  const std::string& arguments = call_->arguments();
  const bool begins = n_handed_out_ == 0;  // a call is handed out once its arguments have begun
  if (n_handed_out_ == arguments.size()) return;
  AnswerDelta::Call call{.index = n_calls_ - (begins ? 0 : 1), .begins = begins};
  if (begins) {
    call.id = call_->id();
    call.name = call_->name();
    ++n_calls_;
  }
  call.arguments = arguments.substr(n_handed_out_);
  n_handed_out_ = arguments.size();
  delta.calls.push_back(std::move(call));
}

}  // namespace vitrine::answer
