#include "spell/formula.h"

#include <fmt/format.h>

#include <cctype>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/markup.h"

namespace vitrine {
namespace {

/// A row of pieces, a symbol with a subscript or power, a root or a fraction.
struct Piece {
  enum class Kind { row, name, number, sign, words, root, fraction };

  Kind kind = Kind::row;
  std::string text;
  std::vector<Piece> parts;           // of a row; content of a root; numerator and denominator of a fraction
  std::unique_ptr<Piece> sub, power;  // subscript and superscript
};

bool is_letter(std::string_view c) {
  if (c.size() == 1) return std::isalpha(static_cast<unsigned char>(c[0])) != 0 || c == "'";
  // Greek letters except Σ, which is a sign
  return c != "Σ" && ((c[0] == '\xCE') || (c[0] == '\xCF'));
}

bool is_digit(std::string_view c) {
  return c.size() == 1 && (std::isdigit(static_cast<unsigned char>(c[0])) != 0 || c == ".");
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  /// Reads up to and including `end`; "" reads everything.
  Piece row(std::string_view end) {
    Piece result;
    int open = 0;  // parentheses inside
    while (at_ < text_.size()) {
      const std::string_view c = next();
      if (c == "(") ++open;
      if (c == ")" && end == ")" && open-- > 0) {
        result.parts.push_back(piece());
        continue;
      }
      if (!end.empty() && c == end) {
        at_ += c.size();
        return result;
      }
      if (c == " ") {
        at_ += 1;
        continue;
      }
      result.parts.push_back(piece());
    }
    if (!end.empty()) throw InternalError("formula", "expected {} in {}", end, text_);
    return result;
  }

 private:
  std::string_view next() const {
    const auto lead = static_cast<unsigned char>(text_[at_]);
    const std::size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    return text_.substr(at_, n);
  }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  std::string run(bool (*belongs)(std::string_view)) {
    std::string result;
    while (at_ < text_.size() && belongs(next())) {
      result += next();
      at_ += next().size();
    }
    return result;
  }

  Piece piece() {
    Piece result;
    if (take("{")) {
      result.kind = Piece::Kind::fraction;
      result.parts.push_back(row("}"));
      if (!take("/{")) throw InternalError("formula", "expected a fraction in {}", text_);
      result.parts.push_back(row("}"));
      return result;
    }
    if (take("√(")) {
      result.kind = Piece::Kind::root;
      result.parts.push_back(row(")"));
      return result;
    }
    if (take("\"")) {
      const std::size_t end = text_.find('"', at_);
      result.kind = Piece::Kind::words;
      result.text = text_.substr(at_, end - at_);
      at_ = end + 1;
      if (take("_{")) result.sub = std::make_unique<Piece>(row("}"));
      return result;
    }
    if (is_digit(next())) {
      result.kind = Piece::Kind::number;
      result.text = run(is_digit);
    } else if (is_letter(next())) {
      result.kind = Piece::Kind::name;
      result.text = run(is_letter);
    } else {
      result.kind = Piece::Kind::sign;
      result.text = next();
      at_ += next().size();
    }
    if (take("_{")) result.sub = std::make_unique<Piece>(row("}"));
    if (take("^{")) result.power = std::make_unique<Piece>(row("}"));
    return result;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_spaced(const std::string& sign) {
  for (const char* s : {"=", "+", "−", "·", "←", "≤", ">", "⊙", "≠"}) {
    if (sign == s) return true;
  }
  return false;
}

std::string text_of(const Piece& piece);

std::string in_brackets(const Piece& row) {
  const std::string text = text_of(row);
  return row.parts.size() > 1 ? "(" + text + ")" : text;
}

std::string text_of(const Piece& piece) {
  switch (piece.kind) {
    case Piece::Kind::row: {
      std::string text;
      bool after_name = false;
      for (const Piece& part : piece.parts) {
        const bool spaced = part.kind == Piece::Kind::sign && is_spaced(part.text);
        const bool is_name = part.kind != Piece::Kind::sign || part.text == "Σ";
        const bool opens = !text.empty() && (text.back() == '(' || text.back() == '[');
        if (spaced && !text.empty() && !opens && part.text != "·")
          text += " ";
        else if (is_name && after_name)
          text += " ";
        text += text_of(part);
        if (spaced && part.text != "·" && !(part.text == "−" && (text == "−" || opens))) text += " ";
        if (part.text == "," && part.kind == Piece::Kind::sign) text += " ";
        after_name = is_name || part.text == ")" || part.text == "]";
        if (part.kind == Piece::Kind::name && part.sub == nullptr) after_name = true;
      }
      return text;
    }
    case Piece::Kind::root:
      return "√(" + text_of(piece.parts[0]) + ")";
    case Piece::Kind::fraction:
      return in_brackets(piece.parts[0]) + " / " + in_brackets(piece.parts[1]);
    default:
      break;
  }
  std::string text = piece.text;
  if (piece.sub != nullptr) {
    std::string sub = text_of(*piece.sub);
    std::string tight;
    for (const char c : sub) {
      if (c != ' ' || piece.text == "Σ") tight += c;
    }
    text += piece.text == "Σ" || piece.kind == Piece::Kind::words ? "_" + tight : "[" + tight + "]";
  }
  if (piece.power != nullptr) {
    const std::string power = text_of(*piece.power);
    text += power == "2" ? "²" : power == "T" ? "ᵀ" : "^" + power;
  }
  return text;
}

std::string mathml_of(const Piece& piece) {
  switch (piece.kind) {
    case Piece::Kind::row: {
      std::string text = "<mrow>";
      for (const Piece& part : piece.parts) text += mathml_of(part);
      return text + "</mrow>";
    }
    case Piece::Kind::root:
      return "<msqrt>" + mathml_of(piece.parts[0]) + "</msqrt>";
    case Piece::Kind::fraction:
      return "<mfrac>" + mathml_of(piece.parts[0]) + mathml_of(piece.parts[1]) + "</mfrac>";
    default:
      break;
  }
  const char* const tag = piece.kind == Piece::Kind::name     ? "mi"
                          : piece.kind == Piece::Kind::number ? "mn"
                          : piece.kind == Piece::Kind::words  ? "mtext"
                                                              : "mo";
  const bool is_phrase = piece.kind == Piece::Kind::words && piece.text.find(' ') != std::string::npos;
  const char* const space = is_phrase ? "&nbsp;" : "";
  const std::string own = fmt::format("<{0}>{2}{1}{2}</{0}>", tag, markup_escaped(piece.text), space);
  if (piece.text == "Σ" && piece.sub != nullptr) {
    return "<munder><mo>∑</mo>" + mathml_of(*piece.sub) + "</munder>";
  }
  if (piece.sub != nullptr && piece.power != nullptr) {
    return "<msubsup>" + own + mathml_of(*piece.sub) + mathml_of(*piece.power) + "</msubsup>";
  }
  if (piece.sub != nullptr) return "<msub>" + own + mathml_of(*piece.sub) + "</msub>";
  if (piece.power != nullptr) return "<msup>" + own + mathml_of(*piece.power) + "</msup>";
  return own;
}

}  // namespace

std::string formula_text(std::string_view formula) { return text_of(Reader(formula).row("")); }

std::string formula_mathml(std::string_view formula) {
  return "<math>" + mathml_of(Reader(formula).row("")) + "</math>";
}

}  // namespace vitrine
