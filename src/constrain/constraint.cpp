#include "constrain/constraint.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "constrain/sources.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {

Constraint::Constraint(const Source& source, std::shared_ptr<const Vocabulary> vocabulary)
    : Constraint(parse_source(source, *vocabulary), constrain::name(source.kind), vocabulary) {}

Constraint::Constraint(const Grammar& grammar, std::string_view name, std::shared_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)),
      network_(compile_network(grammar, vocabulary_->alphabet())),
      frames_(network_),
      stepper_(frames_),
      masker_(stepper_, *vocabulary_) {
  if (shortest() >= kNoWay) {
    throw BadInput("constraint", "no text satisfies the {}, or none that the vocabulary can write", name);
  }
}

std::size_t Constraint::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return network_.memory_bytes() + frames_.memory_bytes() + masker_.memory_bytes();
}

Matcher::Matcher(std::shared_ptr<const Constraint> constraint) : constraint_(std::move(constraint)) {
  const std::lock_guard lock(constraint_->mutex_);
  heads_ = constraint_->stepper_.begin(stacks_);
}

void Matcher::append(std::string_view bytes) {
  const std::lock_guard lock(constraint_->mutex_);
  Heads after;
  for (const char byte : bytes) {
    constraint_->stepper_.set_work(0);
    constraint_->stepper_.step(stacks_, heads_, static_cast<std::uint8_t>(byte), after);
    std::swap(heads_, after);
    if (!heads_.alive()) break;
  }
  compact();
}

void Matcher::append(std::int32_t id) {
  const Vocabulary& vocabulary = constraint_->vocabulary();
  if (id < 0 || id >= vocabulary.size())
    throw BadInput("constraint", "expected an id below {}, got {}", vocabulary.size(), id);
  Heads named;
  {
    const std::lock_guard lock(constraint_->mutex_);
    constraint_->stepper_.set_work(0);
    constraint_->stepper_.step_token(stacks_, heads_, id, vocabulary.is_text(id), named);
  }
  if (vocabulary.is_text(id)) {
    const std::size_t n_named = named.list.size();
    Heads before = heads_;
    if (n_named == 0 && !named.complete) return append(vocabulary.bytes(id));
    // Both ways: the token by name, and its bytes. Their nodes are in one graph.
    const std::lock_guard lock(constraint_->mutex_);
    Heads after;
    for (const char byte : vocabulary.bytes(id)) {
      constraint_->stepper_.step(stacks_, before, static_cast<std::uint8_t>(byte), after);
      std::swap(before, after);
    }
    named.list.insert(named.list.end(), before.list.begin(), before.list.end());
    named.complete |= before.complete;
  }
  heads_ = std::move(named);
}

void Matcher::compact() {
  constexpr std::size_t kMuch = 1 << 16;
  if (stacks_.memory_bytes() < kMuch || stacks_.memory_bytes() < 2 * n_kept_) return;
  stacks_.compact(heads_);
  n_kept_ = stacks_.memory_bytes();
}

Matcher::State Matcher::state() const {
  return heads_.complete ? State::complete : heads_.list.empty() ? State::dead : State::partial;
}

Length Matcher::shortest() const {
  const std::lock_guard lock(constraint_->mutex_);
  return constraint_->stepper_.shortest(stacks_, heads_);
}

Mask Matcher::mask(std::optional<std::int64_t> left) {
  const std::lock_guard lock(constraint_->mutex_);
  Mask mask(constraint_->vocabulary().size());
  constraint_->stepper_.set_work(0);
  constraint_->masker_.add(stacks_, heads_, left ? *left - 1 : kNoWay - 1, mask);
  return mask;
}

std::string Matcher::forced(std::size_t max_bytes) {
  const std::lock_guard lock(constraint_->mutex_);
  Frames& frames = constraint_->frames_;
  const Stacks::Mark mark = stacks_.mark();
  Heads here = heads_, after;
  std::string text;
  while (!here.complete && text.size() < max_bytes) {
    int only = -1, n_ways = 0;
    for (const Head& h : here.list) {
      // A token that a grammar names is another way to go on.
      if (frames.at(h.frame).has_steps && !frames.with_steps(h.frame).token_steps.empty()) n_ways = 2;
    }
    for (int byte = 0; byte < 256 && n_ways < 2; ++byte) {
      const bool goes_on = std::any_of(here.list.begin(), here.list.end(), [&](const Head& h) {
        return frames.next(h.frame, static_cast<std::uint8_t>(byte)) >= 0;
      });
      if (goes_on) only = byte, ++n_ways;
    }
    if (n_ways != 1) break;
    constraint_->stepper_.set_work(0);
    constraint_->stepper_.step(stacks_, here, static_cast<std::uint8_t>(only), after);
    std::swap(here, after);
    text.push_back(static_cast<char>(only));
  }
  stacks_.drop_to(mark);
  text.resize(whole_prefix(text));
  return text;
}

}  // namespace vitrine::constrain
