#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxPatternBytes = 65536;
constexpr std::uint32_t kMatchLimit = 50'000'000;  // steps of one match: about a second
constexpr std::size_t kJitStackBytes = 32U << 20;  // at most; a page at first

template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

/// The memory of one thread for a match. Its contents do not matter between matches.
struct Scratch {
  Scratch() {
    if (context == nullptr || data == nullptr) throw OutOfCapacity("tokenizer", "no memory for a regex");
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }

  Owned<pcre2_match_context> context{pcre2_match_context_create(nullptr), pcre2_match_context_free};
  Owned<pcre2_jit_stack> stack{pcre2_jit_stack_create(4096, kJitStackBytes, nullptr), pcre2_jit_stack_free};
  Owned<pcre2_match_data> data{pcre2_match_data_create(1, nullptr), pcre2_match_data_free};
};

std::string message(int code) {
  std::array<PCRE2_UCHAR, 256> text = {};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Regex::Code {
  Owned<pcre2_code> code;
  bool jit;
};

Regex::Regex(std::string_view pattern, RegexSyntax syntax, std::string_view where) {
  if (pattern.empty() || pattern.size() > kMaxPatternBytes) {
    throw BadCheckpoint(where, "expected a regex of 1 to {} bytes, got {}", kMaxPatternBytes, pattern.size());
  }
  if (!is_valid_utf8(pattern)) throw BadCheckpoint(where, "a regex is not valid UTF-8");
  const std::string translated = translate_regex(pattern, syntax, where);
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | (syntax == RegexSyntax::oniguruma ? PCRE2_MULTILINE : 0U);
  const Owned<pcre2_compile_context> context{pcre2_compile_context_create(nullptr), pcre2_compile_context_free};
  if (context == nullptr) throw OutOfCapacity(where, "no memory for a regex");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Owned<pcre2_code> code{pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), options,
                                       &error, &offset, context.get()),
                         pcre2_code_free};
  if (code == nullptr) throw BadCheckpoint(where, "the regex \"{}\" cannot be used: {}", pattern, message(error));
  const bool jit = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;  // otherwise the interpreter is used
  code_ = std::make_unique<Code>(Code{std::move(code), jit});
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view text, std::size_t from) const {
  thread_local const Scratch scratch;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto match = code_->jit ? pcre2_jit_match : pcre2_match;
  const int rc = match(code_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, scratch.data.get(),
                       scratch.context.get());
  if (rc == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (rc < 0) throw BadInput("tokenizer", "the regex of the tokenizer cannot match this text: {}", message(rc));
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(scratch.data.get());
  return Match{found[0], found[1]};
}

void Regex::for_each_match(std::string_view text, FunctionRef<void(Match)> visit) const {
  const std::optional<std::string> older = with_older_characters(text);  // PCRE2 may have an older version of Unicode
  if (older) text = *older;
  std::optional<std::size_t> last_end;
  for (std::size_t from = 0; from <= text.size();) {
    const std::optional<Match> match = find(text, from);
    if (!match) return;
    if (match->begin == match->end && last_end == match->end) {
      from += from < text.size() ? length_by_lead(text[from]) : 1;
      continue;
    }
    last_end = from = match->end;
    visit(*match);
  }
}

void for_each_match(const Pattern& pattern, std::string_view text, FunctionRef<void(Regex::Match)> visit) {
  if (const auto* regex = std::get_if<Regex>(&pattern)) return regex->for_each_match(text, visit);
  const std::string& string = std::get<std::string>(pattern);
  for (std::size_t i = text.find(string); i != text.npos; i = text.find(string, i + string.size())) {
    visit({i, i + string.size()});
  }
}

}  // namespace vitrine
