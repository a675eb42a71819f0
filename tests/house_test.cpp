// The house: arrows between rooms run downward only, and no family has a name below checkpoint/.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const fs::path kSource = fs::path(VITRINE_SOURCE_DIR) / "src";

/// What each room may include besides itself, as docs/architecture.md draws it.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"base", {}},
    {"parallel", {"base"}},
    {"tokenizer", {"base", "parallel"}},
    {"tensor", {"base"}},
    {"quant", {"base", "tensor"}},
    {"kernels", {"base", "tensor"}},
    {"autograd", {"base", "tensor"}},
    {"cache", {"base", "tensor"}},
    {"pass", {"base", "parallel", "tensor", "quant", "kernels", "autograd", "cache"}},
    {"ops", {"base", "tensor", "kernels", "autograd", "cache", "pass"}},
    {"model", {"base", "tensor", "kernels", "autograd", "cache", "pass", "ops"}},
    {"checkpoint", {"base", "parallel", "tensor", "quant", "kernels", "autograd", "cache", "pass", "ops", "model"}},
    {"inspect", {"base", "parallel", "tensor", "quant", "kernels", "autograd", "pass", "ops", "model"}},
    {"generate", {"base", "parallel", "tensor", "kernels", "cache", "pass", "ops", "model", "tokenizer"}},
    {"data", {"base", "parallel", "tokenizer"}},
    {"metrics", {"base"}},
    {"train",
     {"base", "parallel", "tensor", "kernels", "autograd", "cache", "pass", "ops", "model", "tokenizer", "checkpoint",
      "inspect", "generate", "data", "metrics"}},
    {"example", {"base", "parallel", "tensor", "kernels", "autograd", "pass", "ops", "model", "inspect", "train"}},
    {"vitrine", {"base", "tensor", "pass", "model", "tokenizer", "checkpoint", "inspect", "generate", "parallel"}},
    {"cli",
     {"base", "parallel", "tensor", "kernels", "autograd", "cache", "pass", "ops", "model", "tokenizer", "checkpoint",
      "inspect", "generate", "data", "metrics", "train", "example"}},
};

template <class Visit>
void for_each_line(Visit&& visit) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
    if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
    ++files;
    const std::string room = fs::relative(entry.path(), kSource).begin()->string();
    std::ifstream in(entry.path());
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      visit(room, entry.path().string() + ":" + std::to_string(number), line);
    }
  }
  EXPECT_GT(files, 40) << "the sources were not found";
}

TEST(House, ArrowsRunDownward) {
  const std::regex include(R"re(^\s*#\s*include\s+"([^"/]+)/)re");
  for_each_line([&](const std::string& room, const std::string& where, const std::string& line) {
    ASSERT_TRUE(kMayInclude.contains(room)) << "a room that docs/architecture.md does not know: " << room;
    std::smatch match;
    if (!std::regex_search(line, match, include) || match[1] == room) return;
    EXPECT_TRUE(kMayInclude.at(room).contains(match[1])) << where << ": " << room << " must not include " << match[1];
  });
}

TEST(House, NoFamilyHasANameBelowCheckpoint) {
  const std::set<std::string> above = {"checkpoint", "cli",     "tokenizer", "generate", "inspect",
                                       "data",       "metrics", "train",     "vitrine"};
  const std::regex family("gemma|llama|mistral|mixtral|qwen|gpt[-_]?2|neox|olmo|phi[-_]?3", std::regex::icase);
  for_each_line([&](const std::string& room, const std::string& where, const std::string& line) {
    if (above.contains(room)) return;
    const std::string rest = line.substr(0, line.find("//"));
    EXPECT_FALSE(std::regex_search(rest, family)) << where << ": " << line;
  });
}

TEST(House, SimdStaysInKernels) {
  const std::regex simd(R"(_mm\d*_|immintrin|__m\d{3})");
  for_each_line([&](const std::string& room, const std::string& where, const std::string& line) {
    if (room == "kernels") return;
    EXPECT_FALSE(std::regex_search(line, simd)) << where << ": " << line;
  });
}

/// Two types of one name in one namespace would be one type for the linker. Types in sources stand in anonymous
/// namespaces, so headers are what can clash.
TEST(House, EveryTypeHasANameOfItsOwn) {
  const std::regex definition(R"re(^(?:class|struct|enum class|union) (?:alignas\(\w+\) )?(\w+)\b[^;]*$)re");
  std::map<std::string, std::string> defined;
  for_each_line([&](const std::string& room, const std::string& where, const std::string& line) {
    std::smatch match;
    const bool is_own_namespace = room == "cli" || where.find("kernels/vec_") != std::string::npos ||
                                  where.find("unicode_tables.h") != std::string::npos;
    if (is_own_namespace || where.find(".h:") == std::string::npos) return;
    if (!std::regex_search(line, match, definition)) return;
    const auto [other, is_new] = defined.emplace(match[1], where);
    EXPECT_TRUE(is_new) << match[1] << " is defined at " << other->second << " and at " << where;
  });
  EXPECT_GT(defined.size(), 80U);
}

TEST(House, EveryFuzzTargetRunsFromSeeds) {
  const fs::path fuzz = fs::path(VITRINE_SOURCE_DIR) / "fuzz";
  std::ifstream in(fuzz / "CMakeLists.txt");
  const std::string list((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::string suffix = "_fuzz.cpp";
  int targets = 0;
  for (const auto& entry : fs::directory_iterator(fuzz)) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(suffix)) continue;
    ++targets;
    const std::string name = file.substr(0, file.size() - suffix.size());
    EXPECT_TRUE(std::regex_search(list, std::regex("\\b" + name + "\\b"))) << file << " is not built";
    const fs::path corpus = fuzz / "corpus" / name;
    EXPECT_TRUE(fs::is_directory(corpus) && !fs::is_empty(corpus)) << name << " has no seeds";
  }
  EXPECT_GT(targets, 10) << "the fuzz targets were not found";
}

TEST(House, EveryPackageHasItsReason) {
  const fs::path root = VITRINE_SOURCE_DIR;
  std::ifstream page(root / "docs" / "dependencies.md");
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  int packages = 0;
  for (const char* list : {"packages.txt", "fuzz_packages.txt"}) {
    std::ifstream in(root / "tools" / list);
    for (std::string name; in >> name; ++packages) {
      EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << list << ": " << name;
    }
  }
  EXPECT_GT(packages, 10) << "the lists were not found";
}

}  // namespace
