// chat MODEL [TEMPLATE [ADAPTER]]: answers the lines of stdin as one conversation.
#include <vitrine/vitrine.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: chat MODEL [TEMPLATE [ADAPTER]]\n";
    return 2;
  }
  try {
    vitrine::OpenOptions options;
    if (argc > 2) options.chat_template = argv[2];
    if (argc > 3) options.adapters = {{.path = argv[3]}};
    const auto model = vitrine::LanguageModel::open(argv[1], options);
    vitrine::Chat chat{.messages = {{"system", "Answer briefly."}}};
    for (std::string line; std::getline(std::cin, line);) {
      chat.messages.push_back({"user", line});
      const vitrine::GenerateResult answer = model.generate(chat, {.max_tokens = 40});
      chat.messages.push_back({"assistant", answer.text});
      std::cout << answer.text << std::endl;
    }
  } catch (const vitrine::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
