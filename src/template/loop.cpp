// The variable `loop`.
#include "template/evaluate.h"

namespace vitrine::jinja {

/// The next item that passes the test of the loop, which is evaluated when the item is read.
bool LoopObject::pull(Value& item) {
  while (iteration_.next(item)) {
    if (loop_.test == nullptr) return true;
    const bool passes = evaluator_.in_scope(outer_, [&] {
      evaluator_.assign(*loop_.target, item);
      return is_true(evaluator_.evaluate(*loop_.test));
    });
    if (passes) return true;
  }
  return false;
}

bool LoopObject::peek() {
  if (has_after_) return true;
  if (rest_ == nullptr) {
    has_after_ = pull(after_);
  } else if (rest_at_ < rest_->items.size()) {
    has_after_ = true;
    after_ = rest_->items[rest_at_++];
  }
  return has_after_;
}

bool LoopObject::next(Value& item) {
  if (!peek()) return false;
  has_after_ = false;
  item = after_;
  ++index0_;
  before_ = current_;
  current_ = item;
  return true;
}

std::int64_t LoopObject::length() {
  if (length_ < 0 && loop_.test == nullptr) length_ = evaluator_.length(iterable_);
  if (length_ < 0) {
    rest_ = evaluator_.heap().make<List>(evaluator_.heap());
    for (Value item; pull(item);) rest_->items.push_back(item);
    length_ = static_cast<std::int64_t>(rest_->items.size()) + index0_ + 1 + has_after_;
  }
  return length_;
}

std::string LoopObject::repr() const {
  return fmt::format("<LoopContext {}/{}>", index0_ + 1, const_cast<LoopObject*>(this)->length());
}

Value LoopObject::cycle(Renderer&, Arguments& arguments) {
  const auto& loop = static_cast<LoopObject&>(*arguments.positional[0].object);
  const auto n = static_cast<std::int64_t>(arguments.positional.size()) - 1;
  if (n == 0) throw type_error("no items for cycling given");
  return arguments.positional[static_cast<std::size_t>(1 + loop.index0_ % n)];
}

Value LoopObject::changed(Renderer& renderer, Arguments& arguments) {
  auto& loop = static_cast<LoopObject&>(*arguments.positional[0].object);
  const Value value = renderer.new_tuple({arguments.positional.begin() + 1, arguments.positional.end()});
  if (!loop.last_changed_.is_missing() && equal(loop.last_changed_, value)) return boolean(false);
  loop.last_changed_ = value;
  return boolean(true);
}

Value LoopObject::attribute(Renderer& renderer, std::string_view name) {
  if (name == "index") return integer(index0_ + 1);
  if (name == "index0") return integer(index0_);
  if (name == "first") return boolean(index0_ == 0);
  if (name == "last") return boolean(!peek());
  if (name == "length") return integer(length());
  if (name == "revindex") return integer(length() - index0_);
  if (name == "revindex0") return integer(length() - index0_ - 1);
  if (name == "depth") return integer(depth0_ + 1);
  if (name == "depth0") return integer(depth0_);
  if (name == "previtem") return index0_ == 0 ? renderer.undefined_because("there is no previous item") : before_;
  if (name == "nextitem") return peek() ? after_ : renderer.undefined_because("there is no next item");
  if (name == "cycle") return object(renderer.heap().make<Function>("cycle", cycle, object(this)));
  if (name == "changed") return object(renderer.heap().make<Function>("changed", changed, object(this)));
  return {};
}

Value LoopObject::call(Renderer&, Arguments& arguments) {
  const auto [iterable] = arguments.bind<1>("LoopContext.__call__", {"iterable"}, 1);
  if (!loop_.is_recursive) {
    throw type_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  return evaluator_.recursive_loop(loop_, outer_, iterable, depth0_ + 1);
}

}  // namespace vitrine::jinja
