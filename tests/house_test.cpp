// The rules of the source tree: which module includes which, where names of families and SIMD may appear, how long a
// file may be, and which words the documentation does not use.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = VITRINE_SOURCE_DIR;
const fs::path kSource = kRoot / "src";

/// src/modules.txt: each module and what it may include besides itself, in the order of the file.
std::vector<std::pair<std::string, std::set<std::string>>> modules() {
  std::vector<std::pair<std::string, std::set<std::string>>> result;
  std::ifstream in(kSource / "modules.txt");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with('#') || colon == line.npos) continue;
    std::istringstream names(line.substr(colon + 1));
    std::set<std::string>& used = result.emplace_back(line.substr(0, colon), std::set<std::string>{}).second;
    for (std::string name; names >> name;) used.insert(name);
  }
  return result;
}

bool is_source(const fs::path& path) { return path.extension() == ".h" || path.extension() == ".cpp"; }

template <class Visit>
void for_each_line(Visit&& visit) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
    if (!is_source(entry.path())) continue;
    ++files;
    const std::string module = fs::relative(entry.path(), kSource).begin()->string();
    std::ifstream in(entry.path());
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      visit(module, entry.path().string() + ":" + std::to_string(number), line);
    }
  }
  EXPECT_GT(files, 40) << "the sources were not found";
}

TEST(House, AModuleUsesOnlyModulesAboveItInTheList) {
  std::set<std::string> above;
  for (const auto& [module, used] : modules()) {
    for (const std::string& name : used) EXPECT_TRUE(above.contains(name)) << module << " uses " << name;
    EXPECT_TRUE(fs::is_directory(kSource / module)) << module;
    EXPECT_TRUE(above.insert(module).second) << module << " appears twice";
  }
  EXPECT_GT(above.size(), 10U) << "src/modules.txt was not found";
}

TEST(House, AFileIncludesOnlyWhatItsModuleMayUse) {
  const auto list = modules();
  const std::map<std::string, std::set<std::string>> may_include(list.begin(), list.end());
  const std::regex include(R"re(^\s*#\s*include\s+"([^"/]+)/)re");
  for_each_line([&](const std::string& module, const std::string& where, const std::string& line) {
    ASSERT_TRUE(may_include.contains(module)) << "src/modules.txt does not list " << module;
    std::smatch match;
    if (!std::regex_search(line, match, include) || match[1] == module) return;
    EXPECT_TRUE(may_include.at(module).contains(match[1]))
        << where << ": " << module << " must not include " << match[1];
  });
}

/// Lines of code: neither blank nor comments alone.
int lines_of_code(const fs::path& path) {
  std::ifstream in(path);
  int count = 0;
  bool in_comment = false;
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == line.npos) continue;
    const bool opens = line.compare(begin, 2, "/*") == 0;
    const bool is_comment = in_comment || opens || line.compare(begin, 2, "//") == 0;
    if (in_comment || opens) in_comment = line.find("*/") == line.npos;
    count += !is_comment;
  }
  return count;
}

TEST(House, NoFileHasMoreThan400LinesOfCode) {
  for (const char* folder : {"src", "tests", "bench", "fuzz", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const bool is_table = entry.path().filename() == "unicode_tables.h";  // made by tools/make_unicode_tables.py
      if (is_source(entry.path()) && !is_table) EXPECT_LE(lines_of_code(entry.path()), 400) << entry.path();
    }
  }
}

TEST(House, NoFamilyHasANameBelowCheckpoint) {
  const std::set<std::string> above = {"checkpoint", "cli", "tokenizer", "generate", "inspect", "train", "vitrine"};
  const std::regex family("gemma|llama|mistral|mixtral|qwen|gpt[-_]?2|neox|olmo|phi[-_]?3", std::regex::icase);
  for_each_line([&](const std::string& module, const std::string& where, const std::string& line) {
    if (above.contains(module)) return;
    const std::string rest = line.substr(0, line.find("//"));
    EXPECT_FALSE(std::regex_search(rest, family)) << where << ": " << line;
  });
}

TEST(House, SimdStaysInKernels) {
  const std::regex simd(R"(_mm\d*_|immintrin|__m\d{3})");
  for_each_line([&](const std::string& module, const std::string& where, const std::string& line) {
    if (module == "kernels") return;
    EXPECT_FALSE(std::regex_search(line, simd)) << where << ": " << line;
  });
}

/// To the linker, two types with one name in one namespace are the same type. Sources define their types in anonymous
/// namespaces, so only headers can clash.
TEST(House, EveryTypeHasANameOfItsOwn) {
  const std::regex definition(R"re(^(?:class|struct|enum class|union) (?:alignas\(\w+\) )?(\w+)\b[^;]*$)re");
  std::map<std::string, std::string> defined;
  for_each_line([&](const std::string& module, const std::string& where, const std::string& line) {
    std::smatch match;
    const bool is_own_namespace = module == "cli" || where.find("kernels/vec_") != std::string::npos ||
                                  where.find("unicode_tables.h") != std::string::npos;
    if (is_own_namespace || where.find(".h:") == std::string::npos) return;
    if (!std::regex_search(line, match, definition)) return;
    const auto [other, is_new] = defined.emplace(match[1], where);
    EXPECT_TRUE(is_new) << match[1] << " is defined at " << other->second << " and at " << where;
  });
  EXPECT_GT(defined.size(), 80U);
}

TEST(House, EveryFuzzTargetRunsFromSeeds) {
  const fs::path fuzz = kRoot / "fuzz";
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
  std::ifstream page(kRoot / "docs" / "dependencies.md");
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  int packages = 0;
  for (const char* list : {"packages.txt", "fuzz_packages.txt"}) {
    std::ifstream in(kRoot / "tools" / list);
    for (std::string name; in >> name; ++packages) {
      EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << list << ": " << name;
    }
  }
  EXPECT_GT(packages, 10) << "the lists were not found";
}

/// The parts of a line that are prose: comments and quoted messages of code, and everything of a page but `code`.
std::string prose_of(const fs::path& path, const std::string& line) {
  static const std::regex code("`[^`]*`"), quoted(R"re("[^"]*")re");
  if (path.extension() == ".md") return std::regex_replace(line, code, "");
  std::string prose = line.substr(std::min(line.size(), line.find(is_source(path) ? "//" : "#")));
  const std::string before = line.substr(0, line.size() - prose.size());
  for (std::sregex_iterator it(before.begin(), before.end(), quoted), end; it != end; ++it) prose += " " + it->str();
  return prose;
}

/// The folders that are checked for odd words. To do: the other folders of src/, tests/ and docs/.
constexpr const char* kFoldersWithOrdinaryWords[] = {"cmake", "examples", "fuzz", "tests/support"};

/// Words that had odd senses here. The comments, messages and pages of vitrine do without them, in every sense: that is
/// simple to check.
TEST(House, TheProseUsesOrdinaryWords) {
  const std::regex odd(R"(\b(stands|stood|lies|behind|beside|turned|worth|told|asked for|rooms?)\b)");
  const std::set<std::string> names = {"CMakeLists.txt", "Makefile"};
  const std::set<std::string> extensions = {".h", ".cpp", ".md", ".sh", ".cmake", ".py"};
  int files = 0;
  for (const char* folder : kFoldersWithOrdinaryWords) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const fs::path& path = entry.path();
      if (path.filename() == "house_test.cpp") continue;
      if (!names.contains(path.filename().string()) && !extensions.contains(path.extension().string())) continue;
      ++files;
      std::ifstream in(path);
      bool is_fenced = false;
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        if (path.extension() == ".md" && line.starts_with("```")) is_fenced = !is_fenced;
        if (!is_fenced)
          EXPECT_FALSE(std::regex_search(prose_of(path, line), odd)) << path.string() << ":" << number << ": " << line;
      }
    }
  }
  EXPECT_GT(files, 20) << "the folders were not found";
}

}  // namespace
