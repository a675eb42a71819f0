// read_site MODEL TEXT GLOB [TOKENIZER]: prints values at sites of the forward, without and with head 0 of the first
// layer set to zero.
#include <vitrine/vitrine.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: read_site MODEL TEXT GLOB [TOKENIZER]\n";
    return 2;
  }
  try {
    const auto model = vitrine::LanguageModel::open(argv[1], {.tokenizer = argc > 4 ? argv[4] : ""});
    vitrine::TraceOptions options;
    options.sites = {argv[3]};
    const auto before = model.trace(argv[2], options);
    options.writes = {"blocks.0.attn.hook_z[:,0]=0"};
    const auto after = model.trace(argv[2], options);
    for (std::size_t i = 0; i < before.size(); ++i) {
      std::cout << before[i].name << " [";
      for (const auto size : before[i].shape) std::cout << " " << size;
      std::cout << " ] last value " << before[i].values.back() << ", silenced " << after[i].values.back() << "\n";
    }
  } catch (const vitrine::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
