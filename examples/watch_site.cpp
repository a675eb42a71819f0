// watch_site MODEL TEXT SITE [TOKENIZER]: generates token by token, and halves the values at a site in every forward.
#include <vitrine/vitrine.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: watch_site MODEL TEXT SITE [TOKENIZER]\n";
    return 2;
  }
  try {
    const auto model = vitrine::LanguageModel::open(argv[1], {.tokenizer = argc > 4 ? argv[4] : ""});
    const auto halve = [](const std::string& name, std::span<float> values, std::span<const std::int64_t> shape) {
      std::cout << name << ", " << shape[0] << " tokens, first value " << values[0] << "\n";
      for (float& value : values) value /= 2;
    };
    vitrine::Session session = model.session({.watch = {{argv[3]}, halve}});
    session.feed(model.ids(argv[2]));
    for (int i = 0; i < 5; ++i) {
      const auto id = vitrine::sample(session.logits(), session.ids(), {.temperature = 0}, {});
      std::cout << "token " << id << " " << model.tokenizer().piece(id) << "\n";
      session.feed(id);
    }
  } catch (const vitrine::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
