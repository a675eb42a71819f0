// A Marian folder, `source.spm #target target.spm #vocab vocab.json #target_vocab target_vocab.json #config
// tokenizer_config.json`.
#include "tokenizer/read/marian.h"

#include "exercise_tokenizer.h"
#include "folder.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size), [](std::string_view file) {
    const auto [before_config, config] = fuzz::cut(file, "#config");
    const auto [before_target_vocab, target_vocab] = fuzz::cut(before_config, "#target_vocab");
    const auto [models, vocab] = fuzz::cut(before_target_vocab, "#vocab");
    const auto [source, target] = fuzz::cut(models, "#target");
    folder.put("source.spm", source);
    folder.put("target.spm", target);
    folder.put("vocab.json", vocab);
    folder.put("target_vocab.json", target_vocab);
    folder.put("tokenizer_config.json", config.empty() ? "{}" : config);
    return load_marian_tokenizer(folder.path());
  });
}
