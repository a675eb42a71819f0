// vitrine page: the generated pages in docs/ are up to date.
#include "cli/program.h"
#include "model/sites.h"
#include "pass/sites.h"

namespace vitrine::test {
namespace {

TEST(Page, GeneratedDocsAreUpToDate) {
  for (const std::string name : {"commands", "families", "sites"}) {
    EXPECT_EQ(read_file(source_dir() + "/docs/" + name + ".md"), output_of({"page", name}))
        << "regenerate it: build/vitrine page " << name << " > docs/" << name << ".md";
  }
  EXPECT_EQ(read_file(source_dir() + "/python/vitrine/_options.py"), output_of({"page", "options"}))
      << "regenerate it: build/vitrine page options > python/vitrine/_options.py";
}

/// docs/config.md has a table of keys below each of its headings.
TEST(Page, DocsHaveTheKeysOfOwnModels) {
  const std::string docs = read_file(source_dir() + "/docs/config.md");
  const std::string tables = output_of({"page", "config"});
  int sections = 0;
  for (std::size_t at = 0, next = 0; at < tables.size(); at = next, ++sections) {
    next = std::min(tables.find("\n## ", at + 1), tables.size());
    const std::string section = tables.substr(at, next - at);
    EXPECT_THAT(docs, testing::HasSubstr(section.substr(section.find("| key"))))
        << "replace the table: build/vitrine page config";
  }
  EXPECT_GE(sections, 5);
}

TEST(Page, EverySiteHasALine) {
  const std::string page = output_of({"page", "sites"});
  for (const Site site : all_sites()) {
    std::string name = name_of({site, info(site).in_block() ? 0 : -1});
    if (info(site).in_block()) name.erase(0, std::string("blocks.0.").size());
    EXPECT_THAT(page, testing::HasSubstr(name + "`")) << name;
  }
}

/// The page contains the examples as commands, which tests/docs_test.sh runs.
TEST(Page, EveryExampleOfHelpIsOnThePage) {
  const std::string page = output_of({"page", "commands"});
  int examples = 0;
  for (const std::string command :
       {"predict", "generate", "logits", "trace", "tokenize", "detokenize", "eval", "info", "init"}) {
    const std::string help = output_of({command, "--help"});
    EXPECT_THAT(page, testing::HasSubstr("\n## " + command + "\n"));
    for (std::size_t at = help.find("Example: "); (at = help.find("vitrine " + command, at)) != std::string::npos;) {
      const std::size_t end = help.find('\n', at);
      EXPECT_THAT(page, testing::HasSubstr("\n$ " + help.substr(at, end - at) + "\n"));
      at = end, ++examples;
    }
  }
  EXPECT_GE(examples, 10);
}

TEST(Page, UnknownNamesAreRefused) {
  expect_usage_error({"page", "nope"}, {"nope"});
  expect_usage_error({"page"}, {"NAME"});
}

}  // namespace
}  // namespace vitrine::test
