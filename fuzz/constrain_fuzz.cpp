// Constraints: compiles a schema, a regex or a grammar (the first byte says which: s, r or g) and writes an answer
// token by token as its masks allow. After each allowed token the answer can be completed with the bytes that were
// promised; a token that is not allowed begins no answer.
#include <memory>

#include "constrain/constraint.h"
#include "fuzzing.h"

using namespace vitrine;

namespace {

/// All bytes, and a few longer tokens.
class FuzzTokenizer final : public Tokenizer {
 public:
  std::string piece(std::int32_t id) const override { return id < 256 + kMore ? bytes(id) : "<end>"; }
  std::string bytes(std::int32_t id) const override {
    static constexpr const char* kTokens[kMore] = {"\"}",  "\": ", "aa", "ab",   ", \"",
                                                   "\n  ", "[{\"", "00", "true", "é"};
    if (id < 256) return std::string(1, static_cast<char>(id));
    return id < 256 + kMore ? kTokens[id - 256] : "";
  }
  std::int64_t vocab_size() const override { return 256 + kMore + 1; }
  std::optional<std::int32_t> bos() const override { return std::nullopt; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }

 private:
  static constexpr std::int32_t kMore = 10;
  std::vector<std::int32_t> encode(std::string_view, const SpecialRule&, EncodingRecorder*) const override {
    return {};
  }
  std::vector<std::int32_t> stop_ids_{256 + kMore};
};

constrain::Source source_of(std::string text) {
  using Kind = constrain::Source::Kind;
  const char kind = text.empty() ? 's' : text[0];
  if (!text.empty()) text.erase(0, 1);
  return {.kind = kind == 'r' ? Kind::regex : kind == 'g' ? Kind::grammar : Kind::schema, .text = std::move(text)};
}

void write_answer(constrain::Matcher matcher, std::uint64_t seed) {
  for (int step = 0; step < 24 && !matcher.must_end(); ++step) {
    const constrain::Length before = matcher.shortest();
    constrain::Matcher copy = matcher;
    const constrain::Mask all = copy.mask(), tight = copy.mask(before);
    fuzz::expect(before == 0 || tight.count() > 0 || before > 1'000'000, "the shortest answer can be written");
    std::vector<std::int32_t> allowed;
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(all.n_ids()); ++id) {
      if (all.test(id)) allowed.push_back(id);
      fuzz::expect(!tight.test(id) || all.test(id), "fewer tokens left never allow more");
    }
    if (allowed.empty()) return;
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::int32_t id = allowed[(seed >> 33) % allowed.size()];
    const bool is_tight = tight.test(id);
    matcher.append(id);
    fuzz::expect(matcher.state() != constrain::Matcher::State::dead, "an allowed token begins an answer");
    fuzz::expect(!is_tight || matcher.shortest() < before, "the rest of the answer fits");
    constrain::Matcher forced = matcher;
    forced.append(forced.forced(64));
    fuzz::expect(forced.state() != constrain::Matcher::State::dead, "forced text begins an answer");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto vocabulary = std::make_shared<const constrain::Vocabulary>(FuzzTokenizer());
  return fuzz::answer([&] {
    const auto constraint =
        std::make_shared<const constrain::Constraint>(source_of(std::string(fuzz::text_of(data, size))), vocabulary);
    write_answer(constrain::Matcher(constraint), size);
  });
}
