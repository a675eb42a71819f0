// tiktoken's ranks and the regex that splits text into words: `pattern #pattern ranks`.
#include "exercise_tokenizer.h"
#include "fuzzing.h"
#include "tokenizer/read/tiktoken.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size), [](std::string_view file) {
    const auto [pattern, ranks] = fuzz::cut(file, "#pattern");
    return ranks.empty() ? parse_tiktoken(file, "[^ ]+| +", "f") : parse_tiktoken(ranks, pattern, "f");
  });
}
