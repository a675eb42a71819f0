#include "constrain/anchors.h"

#include <map>
#include <optional>
#include <utility>

#include "base/error.h"

namespace vitrine::constrain {
namespace {

class AnchorRemover {
 public:
  AnchorRemover(Grammar& grammar, std::string_view where) : grammar_(grammar), where_(where) {}

  /// `left` and `right`: what is on each side unless an anchor is there; none where an anchor would be inside a text.
  Expr remove(Expr e, std::optional<Expr> left, std::optional<Expr> right) {
    const Node::Kind kind = grammar_.node(e).kind;
    if (!has_anchor(e)) return surrounded(left, e, right);
    if (kind == Node::Kind::choice) {
      std::vector<Expr> parts = grammar_.node(e).children;
      for (Expr& part : parts) part = remove(part, left, right);
      return grammar_.choice(std::move(parts));
    }
    if (kind == Node::Kind::repeat) throw misplaced();
    return remove_from_sequence(kind == Node::Kind::sequence ? grammar_.node(e).children : std::vector<Expr>{e}, left,
                                right);
  }

 private:
  Unsupported misplaced() const {
    return {where_, "^ and $ are supported only at the ends of an alternative of a regex"};
  }

  Expr remove_from_sequence(std::vector<Expr> parts, std::optional<Expr> left, std::optional<Expr> right) {
    while (!parts.empty() && grammar_.node(parts.front()).kind == Node::Kind::start) {
      if (!left) throw misplaced();
      left = grammar_.empty();
      parts.erase(parts.begin());
    }
    while (!parts.empty() && grammar_.node(parts.back()).kind == Node::Kind::end) {
      if (!right) throw misplaced();
      right = grammar_.empty();
      parts.pop_back();
    }
    if (parts.empty()) return surrounded(left, grammar_.empty(), right);
    if (parts.size() == 1) {
      const Node::Kind kind = grammar_.node(parts[0]).kind;
      if (kind == Node::Kind::start || kind == Node::Kind::end) throw misplaced();
      return remove(parts[0], left, right);
    }
    parts.front() = remove(parts.front(), left, std::nullopt);
    parts.back() = remove(parts.back(), std::nullopt, right);
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) parts[i] = remove(parts[i], std::nullopt, std::nullopt);
    return grammar_.sequence(std::move(parts));
  }

  Expr surrounded(std::optional<Expr> left, Expr e, std::optional<Expr> right) {
    std::vector<Expr> parts;
    if (left && grammar_.node(*left).kind != Node::Kind::empty) parts.push_back(*left);
    parts.push_back(e);
    if (right && grammar_.node(*right).kind != Node::Kind::empty) parts.push_back(*right);
    return grammar_.sequence(std::move(parts));
  }

  bool has_anchor(Expr e) {
    const auto [known, is_new] = has_anchor_.try_emplace(e, false);
    if (!is_new) return known->second;
    const Node& n = grammar_.node(e);
    bool has = n.kind == Node::Kind::start || n.kind == Node::Kind::end;
    for (const Expr child : n.children) has |= has_anchor(child);
    return has_anchor_[e] = has;
  }

  Grammar& grammar_;
  std::string_view where_;
  std::map<Expr, bool> has_anchor_;
};

}  // namespace

Expr without_anchors(Grammar& grammar, Expr all, Expr around, std::string_view where) {
  return AnchorRemover(grammar, where).remove(all, around, around);
}

}  // namespace vitrine::constrain
