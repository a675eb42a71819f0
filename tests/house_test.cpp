// The rules of the source tree: includes between modules, the places where names of families and SIMD may appear, the
// length of files, and what the documentation names.
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

/// src/modules.txt: each module and the other modules that it may include, in the order of the file.
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

/// The number of lines that are neither blank nor only a comment.
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
  for (const char* folder : {"src", "tests", "bench", "fuzz", "examples", "python"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const bool is_table = entry.path().filename() == "unicode_tables.h";  // generated
      if (!is_source(entry.path()) || is_table) continue;
      EXPECT_LE(lines_of_code(entry.path()), 400) << entry.path();
    }
  }
}

TEST(House, NoFamilyIsNamedBelowCheckpoint) {
  const std::set<std::string> above = {"checkpoint", "cli",    "tokenizer", "generate", "inspect", "data",    "metrics",
                                       "train",      "report", "vitrine",   "capi",     "hub",     "features"};
  std::string names;
  for (const auto& entry : fs::directory_iterator(kSource / "checkpoint" / "families")) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".cpp" || name == "vitrine") continue;
    if (fs::exists(kSource / "model" / "mixers" / name)) continue;  // a mixer has this name, too
    names += (names.empty() ? "" : "|") + std::regex_replace(name, std::regex("_"), "[-_]?");
  }
  ASSERT_FALSE(names.empty());
  const std::regex family("(^|[^a-z])(" + names + ")([^a-z]|$)", std::regex::icase);
  for_each_line([&](const std::string& module, const std::string& where, const std::string& line) {
    if (above.contains(module)) return;
    std::string rest = line.substr(0, line.find("//"));
    rest = std::regex_replace(rest, std::regex("Llama3Scaling|llama3\\b"), "");  // the field's name of a RoPE scaling
    rest =
        std::regex_replace(rest, std::regex("\"cohere\"|\\bcohere_(embed|error)"), "");  // an interface of the server
    EXPECT_FALSE(std::regex_search(rest, family)) << where << ": " << line;
  });
}

TEST(House, SimdStaysInKernels) {
  const std::regex simd(R"(\b_mm\d*_|immintrin|__m\d{3})");
  for_each_line([&](const std::string& module, const std::string& where, const std::string& line) {
    if (module == "kernels") return;
    EXPECT_FALSE(std::regex_search(line, simd)) << where << ": " << line;
  });
}

/// The results of libm's functions differ between machines in the last bit, so vitrine uses those of base/math.h. The
/// exact functions of libm are allowed.
TEST(House, NoResultDependsOnLibm) {
  const std::regex libm(
      R"(\bstd::(exp2?|expm1|log1p|log2|log10|log|pow|cbrt|hypot|a?(sin|cos|tan)h?|atan2|erfc?|[lt]gamma)f?\b)");
  for_each_line([&](const std::string&, const std::string& where, const std::string& line) {
    EXPECT_FALSE(std::regex_search(line, libm)) << where << ": " << line;
  });
}

/// Two different types with the same name in the same namespace violate the one-definition rule. Source files define
/// their types in anonymous namespaces, so only headers can clash.
TEST(House, EveryTypeNameIsUnique) {
  const std::regex definition(R"re(^(?:class|struct|enum class|union) (?:alignas\(\w+\) )?(\w+)\b(?!<|::)[^;]*$)re");
  std::map<std::string, std::string> defined;
  for_each_line([&](const std::string& module, const std::string& where, const std::string& line) {
    std::smatch match;
    const bool is_own_namespace =
        module == "cli" || module == "constrain" || where.find("kernels/vec_") != std::string::npos ||
        where.find("kernels/blocks_") != std::string::npos || where.find("unicode_tables.h") != std::string::npos;
    if (is_own_namespace || where.find(".h:") == std::string::npos) return;
    if (!std::regex_search(line, match, definition)) return;
    const auto [other, is_new] = defined.emplace(match[1], where);
    EXPECT_TRUE(is_new) << match[1] << " is defined at " << other->second << " and at " << where;
  });
  EXPECT_GT(defined.size(), 80U);
}

TEST(House, EveryFuzzTargetIsBuiltAndHasSeeds) {
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
    EXPECT_TRUE(fs::is_regular_file(fuzz / "corpus" / (name + ".tar.gz"))) << name << " has no seeds";
  }
  EXPECT_GT(targets, 10) << "the fuzz targets were not found";
}

TEST(House, TheMapOfTheCodeNamesFilesThatExist) {
  std::vector<fs::path> pages = {kRoot / "CONTRIBUTING.md", kRoot / "docs" / "architecture.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs" / "architecture")) pages.push_back(entry.path());
  const std::regex path("`([a-z][a-z_0-9.-]*/[a-z_0-9./-]+\\.(h|cpp|py|sh|txt))`");
  int paths = 0;
  for (const fs::path& page : pages) {
    std::ifstream in(page);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    for (std::sregex_iterator i(text.begin(), text.end(), path), end; i != end; ++i, ++paths) {
      const std::string name = (*i)[1];
      EXPECT_TRUE(fs::exists(kRoot / name) || fs::exists(kSource / name) || fs::exists(kSource / "model" / name))
          << page << " names " << name;
    }
  }
  EXPECT_GT(paths, 100) << "the pages were not found";
}

TEST(House, EveryPackageIsDocumented) {
  std::ifstream page(kRoot / "docs" / "dependencies.md");
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  int packages = 0;
  for (const char* list :
       {"packages.txt", "fuzz_packages.txt", "aarch64_packages.txt", "cluster_packages.txt", "python_packages.txt"}) {
    std::ifstream in(kRoot / "tools" / list);
    for (std::string name; in >> name; ++packages) {
      EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << list << ": " << name;
    }
  }
  EXPECT_GT(packages, 10) << "the lists were not found";
}

}  // namespace
